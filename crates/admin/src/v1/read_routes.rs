//! `GET /v1/tree/…`: data, stat and pages of children, from the local replica.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use zebu_server::views::{ChildPageRequest, StatView};

use super::arguments::znode_path;
use super::call::ApiCall;
use super::entity_tag::{Condition, EntityTag, if_none_match};
use super::problem::Problem;
use super::values;
use super::watch_route::stream_events;

/// Children of a page, and most of them.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1000;

/// The forms of an answer to a read.
const FORMS: [&str; 4] = ["stat", "base64", "children", "watch"];

/// Reads a node in the form that the parameters name.
pub(crate) async fn read_tree(call: ApiCall) -> Result<Response, Problem> {
    let path = znode_path(&call.rest)?;
    let form = FORMS.into_iter().find(|form| call.arguments.value(form).is_some());
    match form {
        _ if call.arguments.value("children").is_some() => read_children(&call, &path).await,
        Some("watch") => {
            call.arguments.allow_only(&["watch"])?;
            stream_events(call, &path).await
        }
        Some("stat") => {
            call.arguments.allow_only(&["stat", "fresh"])?;
            call.arguments.flag("stat")?;
            freshen(&call, &path).await?;
            let node = call
                .views
                .read_stat(&path, &call.ids.credentials)
                .map_err(|code| call.problem(code, &path))?;
            let mut object = object_of(&path, &node);
            values::add_node(&mut object, &node);
            with_node(call.json(StatusCode::OK, &object.into())?, &node)
        }
        _ => read_data(&call, &path).await,
    }
}

async fn read_data(call: &ApiCall, path: &str) -> Result<Response, Problem> {
    call.arguments.allow_only(&["base64", "fresh"])?;
    let as_json = call.arguments.flag("base64")?;
    let condition = if_none_match(&call.headers)?;
    freshen(call, path).await?;
    let read = call.views.read_node(path, &call.ids.credentials);
    let read = read.map_err(|code| call.problem(code, path))?;
    let tag = EntityTag::of_data(&read.node.stat);
    let is_known = match condition {
        Condition::None => false,
        Condition::Any => true,
        Condition::Tag(known) => known.matches(tag),
    };
    if is_known {
        let response =
            call.answer(StatusCode::NOT_MODIFIED, "application/octet-stream", Vec::new().into())?;
        return with_node(response, &read.node);
    }
    let response = if as_json {
        let mut object = object_of(path, &read.node);
        object.insert("base64".to_owned(), values::base64_data(read.data.as_deref()));
        values::add_node(&mut object, &read.node);
        call.json(StatusCode::OK, &object.into())?
    } else {
        let data = read.data.unwrap_or_default();
        call.answer(StatusCode::OK, "application/octet-stream", data.into())?
    };
    with_node(response, &read.node)
}

async fn read_children(call: &ApiCall, path: &str) -> Result<Response, Problem> {
    call.arguments.allow_only(&["children", "after", "limit", "stat", "fresh"])?;
    call.arguments.flag("children")?;
    let with_stat = call.arguments.flag("stat")?;
    let limit = call.arguments.number("limit", PAGE_MAX)?.unwrap_or(PAGE_DEFAULT);
    let after = call.arguments.value("after").unwrap_or_default();
    freshen(call, path).await?;
    let request = ChildPageRequest { path, credentials: &call.ids.credentials, after, limit };
    let page = loop {
        if let Some(page) = call.views.child_page(&request).map_err(|code| call.problem(code, path))? {
            break page;
        }
        // Other requests and the core get their turn.
        tokio::task::yield_now().await;
    };
    let children = page.children.iter().map(|child| {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(child.name));
        if with_stat {
            match &child.node {
                Some(node) => values::add_node(&mut object, node),
                None => drop(object.insert("stat".to_owned(), json!(null))),
            }
        }
        Value::Object(object)
    });
    let mut object = object_of(path, &page.parent);
    object.insert("children".to_owned(), children.collect());
    object.insert("next".to_owned(), json!(page.next));
    // Releases before pages had an order of their own could not promise it.
    object.insert("oneState".to_owned(), json!(true));
    object.insert("stat".to_owned(), values::stat(&page.parent.stat));
    with_zxid(call.json(StatusCode::OK, &object.into())?, &page.parent)
}

/// `fresh=sync`: waits until this server has applied what was committed when the request came.
pub(crate) async fn freshen(call: &ApiCall, path: &str) -> Result<(), Problem> {
    match call.arguments.value("fresh") {
        None => Ok(()),
        Some("sync") => call.sync(path).await,
        Some(_) => Err(Problem::bad_request("fresh takes the value sync")),
    }
}

/// Path and zxid of an answer.
pub(crate) fn object_of(path: &str, node: &StatView) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("path".to_owned(), json!(path));
    object.insert("zxid".to_owned(), values::hex(node.zxid.0));
    object
}

/// Adds the headers of a node: `ETag`, `X-Stat` and `X-Zxid`.
pub(crate) fn with_node(mut response: Response, node: &StatView) -> Result<Response, Problem> {
    let headers = response.headers_mut();
    headers.insert(header::ETAG, EntityTag::of_data(&node.stat).header());
    if let Ok(value) = HeaderValue::from_str(&values::stat(&node.stat).to_string()) {
        headers.insert("x-stat", value);
    }
    with_zxid(response, node)
}

/// Adds the zxid of the state that was read.
pub(crate) fn with_zxid(mut response: Response, node: &StatView) -> Result<Response, Problem> {
    if let Ok(value) = HeaderValue::from_str(&node.zxid.to_string()) {
        response.headers_mut().insert("x-zxid", value);
    }
    Ok(response)
}
