//! A node with very many children: the tree shows any of them at once.
//!
//! `ZEBU_CONSOLE_CHILDREN=1000000` makes it a million; a quick run has fewer.

use zebu_proto::client::multi::MULTI_END;
use zebu_proto::client::{CreateMode, CreateOp, CreateRequest, MultiOp};
use zebu_proto::{Acl, Jute, OpCode};

use crate::browser::keys;
use crate::common::done;
use crate::scene::{PERSISTENT, Scene, create};

const CHILDREN: usize = 30_000;
const PER_MULTI: usize = 1000;
/// Rows that may exist in the page at a time.
const ROWS_MAX: u64 = 120;

#[test]
fn a_node_with_very_many_children_opens_and_scrolls() {
    let Some(mut scene) = Scene::empty("") else { return };
    let count =
        std::env::var("ZEBU_CONSOLE_CHILDREN").ok().and_then(|text| text.parse().ok()).unwrap_or(CHILDREN);
    create(&mut scene.client, "/wide", b"", PERSISTENT);
    for begin in (0..count).step_by(PER_MULTI) {
        done(&mut scene.client, OpCode::Multi, |out: &mut Vec<u8>| {
            for number in begin..(begin + PER_MULTI).min(count) {
                let request = CreateRequest {
                    op: CreateOp::Create,
                    path: Some(format!("/wide/n{number:07}").into()),
                    data: None,
                    acl: Some(Acl::open().into()),
                    flags: CreateMode::Persistent.flags(),
                    ttl_ms: -1,
                };
                MultiOp::Create(request).encode(out);
            }
            MULTI_END.encode(out);
        });
    }
    let browser = &scene.browser;
    browser.open("tree?path=/wide&lang=en");
    browser.wait_text(".trow.active", "wide");
    let began = std::time::Instant::now();
    browser.keys(".vlist", keys::RIGHT);
    browser.wait_text(".trow", "n0000000");
    println!("{count} children: first rows after {:?}", began.elapsed());
    let rows = |what: &str| {
        let rows = browser.script("return document.querySelectorAll('.trow').length").as_u64().unwrap();
        assert!(rows <= ROWS_MAX, "{what}: {rows} rows");
    };
    rows("the first");
    // The last row, and the child in front of it, which is the last of the node.
    browser.keys(".vlist", keys::END);
    let last = format!("n{:07}", count - 1);
    browser.wait_text(".trow", &last);
    rows("the last");
    // The middle by the scroll bar.
    browser.script("const list = document.querySelector('.vlist'); list.scrollTop = (list.scrollHeight - list.clientHeight) / 2");
    let middle = format!("n{:04}", count / 2 / 1000);
    browser.wait_text(".trow", &middle);
    rows("the middle");
    // A deep link to any child.
    let child = format!("n{:07}", count / 3);
    browser.open(&format!("tree?path=/wide/{child}"));
    browser.wait_text(".trow.active", &child);
    rows("a deep link");
    assert_eq!(browser.errors(), Vec::<String>::new());
}
