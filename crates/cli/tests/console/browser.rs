//! A Chromium that a test drives: a small client of the WebDriver protocol over HTTP.
//!
//! `chromedriver` runs as a child with a port and a profile of its own. Both end with the value.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::admin_common::Answer;

/// How long a page may take to show something. Far more than it needs: it decides nothing.
const TIME_LIMIT: Duration = Duration::from_secs(90);
/// The key of element ids in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const ARGUMENTS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--lang=en-US",
    "--window-size=1280,800",
];

/// Keys of the keyboard in WebDriver's private code points.
pub(crate) mod keys {
    pub(crate) const DOWN: &str = "\u{e015}";
    pub(crate) const RIGHT: &str = "\u{e014}";
    pub(crate) const LEFT: &str = "\u{e012}";
    pub(crate) const END: &str = "\u{e010}";
    pub(crate) const ENTER: &str = "\u{e007}";
}

/// The bytes of one answer. The driver keeps its connections open, so the length decides.
fn read_answer(stream: TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let begin = bytes.len();
        reader.read_until(b'\n', &mut bytes).unwrap();
        let line = String::from_utf8_lossy(&bytes[begin..]).to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    [bytes, body].concat()
}

/// A browser with one tab.
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    base: String,
    _profile: TempDir,
}

fn program(names: &[&'static str]) -> Option<&'static str> {
    let runs = |name: &&str| {
        let status = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    names.iter().copied().find(|name| runs(name))
}

impl Browser {
    /// Starts a browser for the console of a server; `None` with a message where no Chromium is installed.
    pub(crate) fn start(console: SocketAddr) -> Option<Browser> {
        let (Some(chromium), Some(driver)) =
            (program(&["chromium", "chromium-browser"]), program(&["chromedriver"]))
        else {
            eprintln!("SKIPPED: there is no chromium and chromedriver; install chromium chromium-driver");
            return None;
        };
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            let number = line.split_once("successfully on port ")?.1.trim_end_matches('.');
            number.parse::<u16>().ok()
        });
        // A full pipe would stop the driver, so the rest is read and dropped.
        std::thread::spawn(move || lines.for_each(drop));
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("a port of chromedriver")));
        let profile = TempDir::new().unwrap();
        let mut arguments: Vec<String> = ARGUMENTS.iter().map(|&argument| argument.to_owned()).collect();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        let base = format!("http://{console}/console/");
        let session = String::new();
        let mut browser = Browser { driver, address, session, base, _profile: profile };
        let options = json!({ "args": arguments, "binary": format!("/usr/bin/{chromium}") });
        let wanted = json!({
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": options,
        });
        let answer = browser.post("/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("/session/{}", answer["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).unwrap_or_else(|error| panic!("{path} {body}: {error}"))
    }

    fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let body = body.to_string();
        let path = format!("{}{path}", self.session);
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        self.exchange(&[head.as_bytes(), body.as_bytes()].concat())
    }

    fn get(&self, path: &str) -> Value {
        let head =
            format!("GET {}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", self.session);
        self.exchange(head.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn exchange(&self, request: &[u8]) -> Result<Value, String> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIME_LIMIT).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        stream.write_all(request).unwrap();
        let answer = Answer::parse(&read_answer(stream));
        let value: Value = serde_json::from_slice(&answer.body).unwrap();
        if answer.status == 200 {
            return Ok(value["value"].clone());
        }
        Err(format!("{} {}", value["value"]["error"], value["value"]["message"]))
    }

    /// Shows an address below `/console/` and waits for the page.
    pub(crate) fn open(&self, address: &str) {
        self.post("/url", &json!({ "url": format!("{}{address}", self.base) }));
        self.wait("the page", "const a=document.getElementById('app'); return a && !a.hasAttribute('aria-busy') && document.querySelector('main')?.childElementCount > 0");
    }

    /// Runs a script in the page.
    pub(crate) fn script(&self, code: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": code, "args": [] }))
    }

    /// Waits until a script returns something true, and returns that.
    pub(crate) fn wait(&self, what: &str, code: &str) -> Value {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let value = self.script(code);
            if !matches!(value, Value::Null | Value::Bool(false)) {
                return value;
            }
            let text = || self.script("return document.body.innerText.slice(0, 2000)");
            assert!(Instant::now() < deadline, "{what} did not come; the page shows: {}", text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until an element shows this text.
    pub(crate) fn wait_text(&self, css: &str, text: &str) {
        let (css, wanted) = (json!(css), json!(text));
        let code = format!(
            "return [...document.querySelectorAll({css})].some((e) => e.innerText.includes({wanted}))"
        );
        self.wait(text, &code);
    }

    fn element(&self, css: &str) -> String {
        self.wait(css, &format!("return !!document.querySelector({})", json!(css)));
        let found = self.post("/element", &json!({ "using": "css selector", "value": css }));
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    /// Clicks an element as a user does. A list that is drawn anew may take the element away meanwhile.
    pub(crate) fn click(&self, css: &str) {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let element = self.element(css);
            match self.try_post(&format!("/element/{element}/click"), &json!({})) {
                Ok(_) => return,
                Err(error) => assert!(Instant::now() < deadline, "{css}: {error}"),
            }
        }
    }

    /// Presses keys while an element has the focus.
    pub(crate) fn keys(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Replaces the text of a field.
    pub(crate) fn fill(&self, css: &str, text: &str) {
        let element = self.element(css);
        self.post(&format!("/element/{element}/clear"), &json!({}));
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// The size of the view.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700 });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.post("/goog/cdp/execute", &command);
    }

    /// The view as PNG.
    pub(crate) fn screenshot(&self, file: &Path) {
        let image = self.get("/screenshot");
        std::fs::write(file, STANDARD.decode(image.as_str().unwrap()).unwrap()).unwrap();
    }

    /// Errors that the browser reported since the last call. An answer with 401, 403 or 404 is none: pages
    /// ask for what may be missing.
    pub(crate) fn errors(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().unwrap().iter();
        let severe = entries.filter(|entry| entry["level"] == "SEVERE");
        let messages = severe.map(|entry| entry["message"].as_str().unwrap().to_owned());
        let is_missing = |text: &String| {
            ["401", "403", "404", "412"].iter().any(|code| text.contains(&format!("a status of {code} ")))
        };
        messages.filter(|text| !is_missing(text)).collect()
    }

    /// Addresses that pages asked for since the last call and that are not of the server under test.
    pub(crate) fn foreign_requests(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "performance" }));
        let messages = entries.as_array().unwrap().iter().filter_map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let is_request = message["message"]["method"] == "Network.requestWillBeSent";
            is_request
                .then(|| message["message"]["params"]["request"]["url"].as_str().map(str::to_owned))
                .flatten()
        });
        let is_own = |url: &String| {
            url.starts_with(&self.base)
                || ["data:", "blob:", "chrome", "about:"].iter().any(|scheme| url.starts_with(scheme))
        };
        messages.filter(|url| !is_own(url)).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let head =
            format!("DELETE {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", self.session);
        // The driver ends the browser before it answers.
        if !self.session.is_empty()
            && let Ok(mut stream) = TcpStream::connect_timeout(&self.address, Duration::from_secs(5))
        {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.read(&mut [0; 64]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
