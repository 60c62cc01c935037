//! A server with nodes, locks and watches that the pages show.

use std::net::SocketAddr;

use zebu_proto::{Acl, OpCode};
use zebu_testing::{RawClient, ServerProcess};

use crate::admin_common::{SUPER_DIGEST, admin_port};
use crate::browser::Browser;
use crate::common::{create_body, done, open, path_and_watch};

pub(crate) const PERSISTENT: i32 = 0;
pub(crate) const EPHEMERAL: i32 = 1;
pub(crate) const SEQUENTIAL: i32 = 2;
pub(crate) const EPHEMERAL_SEQUENTIAL: i32 = 3;

/// A server, its clients and a browser.
pub(crate) struct Scene {
    pub(crate) browser: Browser,
    pub(crate) client: RawClient,
    pub(crate) server: ServerProcess,
    _holders: Vec<RawClient>,
}

/// Creates a node.
pub(crate) fn create(client: &mut RawClient, path: &str, data: &[u8], flags: i32) {
    done(client, OpCode::Create, create_body(path, data, Acl::open(), flags));
}

/// Unlocks the page of a node.
pub(crate) fn unlock(browser: &Browser) {
    browser.click("#node-unlock");
    browser.click("dialog .primary");
    browser.wait_text("#write-lock", "Writing");
}

/// Logs in on the page that is shown.
pub(crate) fn log_in_as_super(browser: &Browser) {
    browser.click("#who");
    browser.fill("#login-user", "super");
    browser.fill("#login-password", "secret");
    browser.click("dialog .primary");
    browser.wait_text("#who", "super");
}

impl Scene {
    /// A server without nodes; `None` where no Chromium is installed.
    pub(crate) fn empty(line: &str) -> Option<Scene> {
        let server = common_server(line);
        let browser = Browser::start(console(&server))?;
        let (client, _) = open(&server);
        Some(Scene { browser, client, server, _holders: Vec::new() })
    }

    /// A server with something on each page.
    pub(crate) fn full() -> Option<Scene> {
        let mut scene = Scene::empty("")?;
        let client = &mut scene.client;
        for path in
            ["/app", "/app/members", "/app/jobs", "/locks", "/locks/payments", "/locks/reports", "/rw"]
        {
            create(client, path, b"", PERSISTENT);
        }
        for path in ["/rw/catalog", "/election", "/services", "/services/web", "/queue"] {
            create(client, path, b"", PERSISTENT);
        }
        let config = r#"{"threads":19,"id":12345678901234567890,"hosts":["10.0.0.7","10.0.0.9"],"on":true}"#;
        create(client, "/app/config", config.as_bytes(), PERSISTENT);
        create(client, "/配置", "中文数据".as_bytes(), PERSISTENT);
        for number in 0..40 {
            create(client, &format!("/app/jobs/job-{number:04}"), b"ready", PERSISTENT);
        }
        for item in ["a", "b", "c"] {
            create(client, "/queue/queue-", item.as_bytes(), SEQUENTIAL);
        }
        for (number, name) in ["pay-7", "pay-9", "pay-4"].into_iter().enumerate() {
            let (mut holder, _) = open(&scene.server);
            let lock = format!("_c_11111111-2222-3333-4444-55555555555{number}");
            create(
                &mut holder,
                &format!("/locks/payments/{lock}-lock-"),
                name.as_bytes(),
                EPHEMERAL_SEQUENTIAL,
            );
            let kind = if number == 2 { "__WRIT__" } else { "__READ__" };
            create(&mut holder, &format!("/rw/catalog/{lock}-{kind}"), b"", EPHEMERAL_SEQUENTIAL);
            create(&mut holder, "/election/n_", name.as_bytes(), EPHEMERAL_SEQUENTIAL);
            create(&mut holder, &format!("/app/members/{name}"), b"", EPHEMERAL);
            let instance = format!(r#"{{"address":"10.0.0.{number}","port":8080}}"#);
            create(&mut holder, &format!("/services/web/{name}"), instance.as_bytes(), EPHEMERAL);
            done(&mut holder, OpCode::GetData, path_and_watch("/app/config", true));
            scene._holders.push(holder);
        }
        let kazoo = "/locks/reports/0123456789abcdef0123456789abcdef__lock__";
        create(&mut scene._holders[0], kazoo, b"reporter", EPHEMERAL_SEQUENTIAL);
        Some(scene)
    }
}

fn common_server(line: &str) -> ServerProcess {
    let server = crate::common::server()
        .line("admin.enableServer=true")
        .line("admin.serverPort=0")
        .line("extendedTypesEnabled=true")
        .line(format!("DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"))
        // The clients of a scene send no pings, and a busy machine needs its time.
        .line("minSessionTimeout=900000")
        .line("maxSessionTimeout=900000")
        .line(line);
    server.start().unwrap()
}

fn console(server: &ServerProcess) -> SocketAddr {
    admin_port(server)
}
