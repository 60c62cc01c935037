//! A store of S3's protocol on loopback, for tests: objects in memory, and faults on request. It checks no
//! signature.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Keys of one page of a listing; few, so that tests have several pages.
const PAGE_KEYS: usize = 3;

/// How long a connection may be idle.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// What the store does with conditions of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(dead_code, reason = "each test uses a part of it")]
pub(crate) enum StoreConditions {
    #[default]
    Kept,
    /// It answers that it does not know them.
    Refused,
    /// It writes as if there were none.
    Ignored,
}

/// The faults of the store. Each number counts down to zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) conditions: StoreConditions,
    /// Requests that end without an answer and without an effect.
    pub(crate) lost_requests: u32,
    /// Writes that take effect, and whose answers are lost.
    pub(crate) lost_answers: u32,
    /// Answers whose body ends in the middle.
    pub(crate) cut_bodies: u32,
    /// Requests that are never answered, on a connection that stays open.
    pub(crate) silent: u32,
    /// Requests that the store is too busy for.
    pub(crate) busy: u32,
    /// All requests are refused.
    pub(crate) forbidden: bool,
    /// Writes that are done; all later ones are lost. The process is as good as killed.
    pub(crate) writes_left: Option<u32>,
}

#[derive(Default)]
struct Shared {
    objects: BTreeMap<String, Vec<u8>>,
    tags: BTreeMap<String, String>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    number: u64,
    faults: Faults,
    writes: u32,
    requests: BTreeSet<String>,
}

/// A running store. It ends with the process.
#[derive(Clone)]
pub(crate) struct S3Store {
    shared: Arc<Mutex<Shared>>,
    pub(crate) address: SocketAddr,
}

struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// How the connection goes on behind a request.
enum Outcome {
    Answer(Answer),
    Close,
    Silence,
}

#[allow(dead_code, reason = "each test uses a part of it")]
impl S3Store {
    pub(crate) fn start() -> S3Store {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let store = S3Store { shared: Arc::default(), address };
        let of_thread = store.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = of_thread.clone();
                std::thread::spawn(move || {
                    let _ = store.serve(stream);
                });
            }
        });
        store
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.lock().faults);
    }

    /// Names of all objects, with their bucket.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    pub(crate) fn object(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().objects.get(name).cloned()
    }

    pub(crate) fn insert(&self, name: &str, bytes: Vec<u8>) {
        self.lock().store(name.to_owned(), bytes);
    }

    /// Writes that took effect.
    pub(crate) fn writes(&self) -> u32 {
        self.lock().writes
    }

    /// Parts that wait to be joined.
    pub(crate) fn open_uploads(&self) -> usize {
        self.lock().uploads.len()
    }

    /// Methods and kinds of requests that came.
    pub(crate) fn requests(&self) -> BTreeSet<String> {
        self.lock().requests.clone()
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE_MAX))?;
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut stream = stream;
        while let Some(request) = read_request(&mut reader)? {
            let is_head = request.method == "HEAD";
            let outcome = self.lock().outcome(&request);
            match outcome {
                Outcome::Answer(answer) => {
                    let cut = !is_head
                        && answer.body.len() > 1
                        && self.lock().take(|faults| &mut faults.cut_bodies);
                    write_answer(&mut stream, &answer, is_head, cut)?;
                    if cut {
                        return Ok(());
                    }
                }
                Outcome::Close => return Ok(()),
                Outcome::Silence => {
                    // Until the other side gives up.
                    let _ = reader.read(&mut [0]);
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    fn take(&mut self, fault: impl FnOnce(&mut Faults) -> &mut u32) -> bool {
        let count = fault(&mut self.faults);
        let is_due = *count > 0;
        *count = count.saturating_sub(1);
        is_due
    }

    fn store(&mut self, name: String, bytes: Vec<u8>) -> String {
        self.number += 1;
        let tag = format!("\"{:032x}\"", self.number);
        self.tags.insert(name.clone(), tag.clone());
        self.objects.insert(name, bytes);
        tag
    }

    fn outcome(&mut self, request: &Request) -> Outcome {
        let kind = request.query.split('&').next().unwrap_or("").split('=').next().unwrap_or("");
        self.requests.insert(format!("{} {kind}", request.method));
        if self.faults.forbidden {
            return refuse(403, "AccessDenied");
        }
        if self.take(|faults| &mut faults.lost_requests) {
            return Outcome::Close;
        }
        if self.take(|faults| &mut faults.silent) {
            return Outcome::Silence;
        }
        if self.take(|faults| &mut faults.busy) {
            return refuse(503, "SlowDown");
        }
        let is_write = matches!(request.method.as_str(), "PUT" | "POST" | "DELETE");
        if is_write && let Some(left) = &mut self.faults.writes_left {
            if *left == 0 {
                return Outcome::Close;
            }
            *left -= 1;
        }
        let answer = self.answer(request);
        if is_write && answer.status < 300 {
            self.writes += 1;
            if self.take(|faults| &mut faults.lost_answers) {
                return Outcome::Close;
            }
        }
        Outcome::Answer(answer)
    }

    fn answer(&mut self, request: &Request) -> Answer {
        let name = request.path.trim_start_matches('/').to_owned();
        match request.method.as_str() {
            "GET" if request.query.contains("list-type=2") => self.list(&name, request),
            "GET" | "HEAD" => self.get(&name, request),
            "PUT" if request.query.contains("partNumber=") => {
                let number = request.parameter("partNumber").unwrap().parse().unwrap();
                let Some(upload) = self.uploads.get_mut(&request.parameter("uploadId").unwrap()) else {
                    return plain_refusal(404, "NoSuchUpload");
                };
                upload.insert(number, request.body.clone());
                ok(vec![("ETag".to_owned(), format!("\"part{number}\""))], Vec::new())
            }
            "PUT" => self.put(name, request),
            "POST" if request.query.starts_with("uploads") => {
                self.number += 1;
                let id = format!("upload{}", self.number);
                self.uploads.insert(id.clone(), BTreeMap::new());
                let body = format!(
                    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>{name}</Key><UploadId>{id}</UploadId>\
                     </InitiateMultipartUploadResult>"
                );
                ok(Vec::new(), body.into_bytes())
            }
            "POST" => {
                let Some(parts) = self.uploads.remove(&request.parameter("uploadId").unwrap_or_default())
                else {
                    return plain_refusal(404, "NoSuchUpload");
                };
                let tag = self.store(name.clone(), parts.into_values().flatten().collect());
                let body = format!(
                    "<CompleteMultipartUploadResult><Key>{name}</Key><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
                );
                ok(Vec::new(), body.into_bytes())
            }
            "DELETE" => {
                match request.parameter("uploadId") {
                    Some(id) => drop(self.uploads.remove(&id)),
                    None => {
                        self.objects.remove(&name);
                        self.tags.remove(&name);
                    }
                }
                Answer { status: 204, headers: Vec::new(), body: Vec::new() }
            }
            other => panic!("the store has no {other}"),
        }
    }

    fn put(&mut self, name: String, request: &Request) -> Answer {
        let (only_if, only_new) = (request.headers.get("if-match"), request.headers.get("if-none-match"));
        let has_condition = only_if.is_some() || only_new.is_some();
        match self.faults.conditions {
            StoreConditions::Refused if has_condition => return plain_refusal(501, "NotImplemented"),
            StoreConditions::Kept => {
                let found = self.tags.get(&name);
                if only_new.is_some() && found.is_some() || only_if.is_some() && only_if != found {
                    return plain_refusal(412, "PreconditionFailed");
                }
            }
            StoreConditions::Refused | StoreConditions::Ignored => {}
        }
        let tag = self.store(name, request.body.clone());
        ok(vec![("ETag".to_owned(), tag)], Vec::new())
    }

    fn get(&mut self, name: &str, request: &Request) -> Answer {
        let Some(bytes) = self.objects.get(name) else { return plain_refusal(404, "NoSuchKey") };
        let mut headers = vec![
            ("ETag".to_owned(), self.tags[name].clone()),
            ("Last-Modified".to_owned(), "Wed, 18 Nov 2026 12:00:00 GMT".to_owned()),
        ];
        if request.headers.get("if-match").is_some_and(|tag| *tag != self.tags[name]) {
            return plain_refusal(412, "PreconditionFailed");
        }
        let Some(range) = request.headers.get("range") else { return ok(headers, bytes.clone()) };
        let (from, to) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
        let to = to.min(bytes.len() - 1);
        headers.push(("Content-Range".to_owned(), format!("bytes {from}-{to}/{}", bytes.len())));
        Answer { status: 206, headers, body: bytes[from..=to].to_vec() }
    }

    fn list(&self, bucket: &str, request: &Request) -> Answer {
        let bucket = bucket.trim_end_matches('/');
        let prefix = format!("{bucket}/{}", request.parameter("prefix").unwrap_or_default());
        let after = request.parameter("continuation-token").unwrap_or_default();
        let mut names = self.objects.iter().filter(|(name, _)| name.starts_with(&prefix) && **name > after);
        let page: Vec<_> = names.by_ref().take(PAGE_KEYS).collect();
        let is_cut = names.next().is_some();
        let mut body = format!("<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>");
        if is_cut && let Some((last, _)) = page.last() {
            write!(body, "<NextContinuationToken>{last}</NextContinuationToken>").unwrap();
        }
        for (name, bytes) in page {
            let key = name.strip_prefix(&format!("{bucket}/")).unwrap();
            write!(
                body,
                "<Contents><Key>{key}</Key><Size>{}</Size><ETag>{}</ETag>\
                 <LastModified>2026-11-18T12:00:00.000Z</LastModified></Contents>",
                bytes.len(),
                self.tags[name]
            )
            .unwrap();
        }
        body.push_str("</ListBucketResult>");
        ok(Vec::new(), body.into_bytes())
    }
}

impl Request {
    fn parameter(&self, name: &str) -> Option<String> {
        let found = self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
        Some(found.replace("%2F", "/"))
    }
}

fn ok(headers: Vec<(String, String)>, body: Vec<u8>) -> Answer {
    Answer { status: 200, headers, body }
}

fn plain_refusal(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>").into_bytes();
    Answer { status, headers: Vec::new(), body }
}

fn refuse(status: u16, code: &str) -> Outcome {
    Outcome::Answer(plain_refusal(status, code))
}

fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((key, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(key.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Ok(Some(Request { method, path: path.to_owned(), query: query.to_owned(), headers, body }))
}

fn write_answer(stream: &mut TcpStream, answer: &Answer, is_head: bool, cut: bool) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} x\r\nContent-Length: {}\r\n", answer.status, answer.body.len());
    for (key, value) in &answer.headers {
        write!(head, "{key}: {value}\r\n").unwrap();
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    if is_head {
        return Ok(());
    }
    let end = if cut { answer.body.len() / 2 } else { answer.body.len() };
    stream.write_all(&answer.body[..end])
}
