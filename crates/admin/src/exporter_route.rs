//! `/metrics`: the text of the exporter, on its own port and on the admin port.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;

use crate::admin_state::{AdminState, AttachedViews};
use crate::commands_route::{empty, plain, with_type};
use crate::metrics_text::exporter_text;
use crate::query;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers on the exporter's port.
pub(crate) async fn serve_exporter(State(views): State<AttachedViews>, request: Request) -> Response {
    serve_metrics(&views, request.into_parts().0).await
}

/// Answers on the admin port.
pub(crate) async fn serve_metrics_on_admin(
    State(state): State<Arc<AdminState>>,
    request: Request,
) -> Response {
    serve_metrics(&state.views, request.into_parts().0).await
}

async fn serve_metrics(views: &AttachedViews, request: Parts) -> Response {
    match request.method {
        Method::GET | Method::HEAD | Method::POST => {}
        Method::TRACE => return empty(StatusCode::FORBIDDEN),
        _ => return empty(StatusCode::METHOD_NOT_ALLOWED),
    }
    let names: Vec<String> = query::all_values(request.uri.query(), "name[]").collect();
    let text = match views.get() {
        Some(views) => exporter_text(views, &names).await,
        None => None,
    };
    let Some(text) = text else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the server is starting or ending\n");
    };
    with_type(StatusCode::OK, CONTENT_TYPE, Body::from(text))
}
