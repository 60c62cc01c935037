//! Lists beyond a packet, against a real server with and without the requests for them. The results are the
//! same, because the client falls back to plain requests.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zebu_client::{Acl, Client, Compression, ErrorCode, ErrorKind, Permissions, ScanEntry};
use zebu_testing::TestServer;

/// So many children that a server brings them in order in several slices.
const CHILDREN: usize = 5000;

async fn fill(client: &Client) {
    client.create("/p").await.unwrap();
    let numbers: Vec<usize> = (0..CHILDREN).map(|number| number * 7 % CHILDREN).collect();
    for batch in numbers.chunks(500) {
        let create = |number: &usize| client.create(&format!("/p/{number:04}")).data("x").send();
        for create in batch.iter().map(create).collect::<Vec<_>>() {
            create.await.unwrap();
        }
    }
    client.create("/p/0002/below").data("deep").await.unwrap();
    let secret = Acl::new(Permissions::ALL & !Permissions::READ, "world", "anyone");
    client.set_acl("/p/0003", vec![secret]).await.unwrap();
}

async fn scanned(client: &Client, with_data: bool) -> Vec<ScanEntry> {
    let scan = client.scan("/p").with_stats();
    let mut scan = if with_data { scan.with_data() } else { scan };
    let mut found = Vec::new();
    while let Some(node) = scan.next().await {
        found.push(node.unwrap());
    }
    found
}

async fn check_lists(client: &Client) {
    let mut pages = client.children("/p").pages(2000).with_stats().with_data();
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        assert_eq!(page.parent.num_children, CHILDREN as i32);
        sizes.push(page.children.len());
        for child in page.children {
            let is_hidden = child.name == "0003";
            assert_eq!(
                (child.stat.is_none(), child.data.is_none()),
                (is_hidden, is_hidden),
                "{}",
                child.name
            );
            names.push(child.name);
        }
    }
    assert_eq!(names, (0..CHILDREN).map(|number| format!("{number:04}")).collect::<Vec<_>>());
    assert_eq!(sizes, [2000, 2000, 1000]);
    let mut rest = client.children("/p").pages(9).after("4997");
    let page = rest.next().await.unwrap().unwrap();
    assert_eq!(page.children.iter().map(|child| child.name.as_str()).collect::<Vec<_>>(), ["4998", "4999"]);
    assert!(rest.next().await.is_none());
    let missing = client.children("/none").pages(9).next().await.unwrap().unwrap_err();
    assert_eq!(missing.code(), Some(ErrorCode::NoNode));

    let found = scanned(client, true).await;
    let paths: Vec<&str> = found.iter().map(|node| node.path.as_str()).take(5).collect();
    assert_eq!(paths, ["/p", "/p/0000", "/p/0001", "/p/0002", "/p/0002/below"]);
    assert_eq!(found.len(), CHILDREN + 1, "the root and what is below, without the node that hides itself");
    assert_eq!(found[4].data.as_deref(), Some(&b"deep"[..]));
    assert!(scanned(client, false).await.iter().all(|node| node.data.is_none() && node.stat.is_some()));
    let mut shallow = client.scan("/p/0002").depth(0);
    assert_eq!(shallow.next().await.unwrap().unwrap().path, "/p/0002");
    assert!(shallow.next().await.is_none());
}

async fn check_delete(client: &Client) {
    let deleted = Arc::new(AtomicU64::new(0));
    let counter = deleted.clone();
    let count = move |nodes| {
        counter.fetch_add(nodes, Ordering::Relaxed);
    };
    client.delete("/p").recursive().on_progress(count).await.unwrap();
    assert_eq!(deleted.load(Ordering::Relaxed), CHILDREN as u64 + 1);
    assert_eq!(client.get("/p").await.unwrap_err().code(), Some(ErrorCode::NoNode));
    let again = client.delete("/p").recursive().await.unwrap_err();
    assert_eq!(again.code(), Some(ErrorCode::NoNode));
    client.delete("/p").recursive().quiet().await.unwrap();
}

#[tokio::test]
async fn a_server_with_the_requests() {
    let server = TestServer::start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    assert!(client.deletes_subtrees().await.unwrap());
    fill(&client).await;
    check_lists(&client).await;
    check_delete(&client).await;
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_server_without_the_requests() {
    let server = TestServer::builder().line("zebu.privateRequests=false").start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    assert!(!client.deletes_subtrees().await.unwrap());
    fill(&client).await;
    check_lists(&client).await;
    // Its subtree cannot be listed, so nothing can be deleted below it.
    client.set_acl("/p/0003", vec![Acl::new(Permissions::ALL, "world", "anyone")]).await.unwrap();
    check_delete(&client).await;
    client.close().await.unwrap();
}

/// Paths below a root are those of the caller.
#[tokio::test]
async fn a_client_below_a_root() {
    let server = TestServer::start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    client.ensure_path("/apps/shop/cart").await.unwrap();
    let shop = client.namespaced("/apps/shop").unwrap();
    let mut scan = shop.scan("/");
    let mut paths = Vec::new();
    while let Some(node) = scan.next().await {
        paths.push(node.unwrap().path);
    }
    assert_eq!(paths, ["/", "/cart"]);
    let page = shop.children("/").pages(5).next().await.unwrap().unwrap();
    assert_eq!(page.children[0].name, "cart");
    client.close().await.unwrap();
}

/// One value that does not decompress hides no other one, on a server with the requests and without.
#[tokio::test]
async fn data_that_does_not_decompress_is_handed_out_as_stored() {
    const DAMAGED: &[u8] = &[0x1f, 0x8b, 0];
    for private in [true, false] {
        let line = format!("zebu.privateRequests={private}");
        let server = TestServer::builder().line(&line).start().await.unwrap();
        let builder = Client::builder(&server.connect_string()).unwrap();
        let client = builder.compression(Compression::Gzip).connect().await.unwrap();
        client.create("/p").await.unwrap();
        client.create("/p/a").data("good").await.unwrap();
        client.create("/p/b").data(DAMAGED).compression(Compression::None).await.unwrap();
        client.create("/p/c").data("behind").await.unwrap();
        let expected = [("a", &b"good"[..], false), ("b", DAMAGED, true), ("c", b"behind", false)];

        let mut scan = client.scan("/p").with_data();
        assert_eq!(scan.next().await.unwrap().unwrap().path, "/p");
        for (name, data, is_bad) in expected {
            let node = scan.next().await.unwrap().unwrap();
            assert_eq!(node.path, format!("/p/{name}"));
            assert_eq!((node.data.as_deref(), node.bad_compression), (Some(data), is_bad), "{name}");
        }
        assert!(scan.next().await.is_none());

        let page = client.children("/p").pages(10).with_data().next().await.unwrap().unwrap();
        let listed: Vec<_> = page
            .children
            .iter()
            .map(|child| (child.name.as_str(), child.data.as_deref().unwrap(), child.bad_compression))
            .collect();
        assert_eq!(listed, expected);
        let error = client.get("/p/b").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BadCompression(_)), "{error}");
    }
}
