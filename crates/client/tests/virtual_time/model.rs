//! A server of a hundred lines that does what it is told, wrong things included. It lives in the test's own
//! runtime, behind a pipe, so that time can be virtual.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use zebu_client::{Connector, ServerAddress};
use zebu_proto::client::read::ReadRequest;
use zebu_proto::client::reply::{Create2Response, GetChildren2Response, GetDataResponse};
use zebu_proto::client::{
    ConnectRequest, ConnectResponse, CreateMode, CreateOp, CreateRequest, ReplyHeader, Request,
    RequestHeader, WriteRequest,
};
use zebu_proto::frame::write_frame;
use zebu_proto::{ErrorCode, Jute, OpCode, Reader, SessionId, Stat};

/// The timeout of every session.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(12);

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The connection ends before the request is carried out.
    CutBefore,
    /// It ends after, and the answer is lost.
    CutAfter,
    /// It ends in the middle of the answer.
    CutDuring,
    /// The answer carries another number.
    WrongXid,
    /// The answer has a length that cannot be.
    BadLength,
    /// The answer's body is shorter than its record.
    Truncated,
    /// The server refuses the request with this error.
    Answer(ErrorCode),
    /// It takes this many seconds.
    Slow(u8),
    /// The session expires.
    Expire,
    /// The next this many attempts to connect are refused.
    Refuse(u8),
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Vec<u8>,
    pub(crate) stat: Stat,
    next_child: u32,
}

/// The server's whole state.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Which connection a session is on.
    pub(crate) sessions: BTreeMap<i64, u64>,
    heard: BTreeMap<i64, Instant>,
    connections: u64,
    refusals: u8,
    zxid: i64,
    pub(crate) plan: VecDeque<Fault>,
    /// Every write that was carried out: what and the data.
    pub(crate) log: Vec<(&'static str, String, Vec<u8>)>,
    pub(crate) knows_create2: bool,
    pub(crate) requests: Vec<OpCode>,
    /// Ends all connections.
    cut: Arc<Notify>,
}

/// The virtual node of Zebu servers.
const FEATURES_NODE: &str = "/zookeeper/zebu";

/// A handle of the model; it is also the way to connect to it.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<Model>>);

impl Server {
    pub(crate) fn new(plan: impl IntoIterator<Item = Fault>) -> Server {
        let mut model = Model { plan: plan.into_iter().collect(), knows_create2: true, ..Model::default() };
        model.nodes.insert("/".to_owned(), Node { data: vec![], stat: Stat::default(), next_child: 0 });
        Server(Arc::new(Mutex::new(model)))
    }

    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap()
    }

    /// Ends all connections, although no request is out.
    pub(crate) fn cut_idle(&self) {
        self.model().cut.notify_waiters();
    }

    async fn serve(self, mut stream: DuplexStream) -> io::Result<()> {
        let first = read_frame(&mut stream).await?;
        let request = ConnectRequest::decode(&mut Reader::new(&first)).unwrap();
        let (session, connection) = self.model().attach(request.session_id);
        let response = match connection {
            Some(_) => ConnectResponse::accepted(SessionId(session), request.timeout_ms, request.read_only),
            None => ConnectResponse::rejected(request.read_only),
        };
        let mut bytes = Vec::new();
        write_frame(&mut bytes, |out| response.encode(out));
        stream.write_all(&bytes).await?;
        let Some(connection) = connection else { return Ok(()) };
        let cut = self.model().cut.clone();
        loop {
            let frame = tokio::select! {
                frame = read_frame(&mut stream) => frame?,
                () = cut.notified() => return Ok(()),
            };
            let header = RequestHeader::decode(&mut Reader::new(&frame)).unwrap();
            // The client asks by itself what the server can do.
            let asks_features =
                frame.windows(FEATURES_NODE.len()).any(|bytes| bytes == FEATURES_NODE.as_bytes());
            let housekeeping = asks_features || matches!(header.op, 11 | 100 | 101 | 105 | -11);
            let fault = if housekeeping { None } else { self.model().plan.pop_front() };
            let fault = fault.unwrap_or(Fault::None);
            if let Fault::Slow(seconds) = fault {
                tokio::time::sleep(Duration::from_secs(seconds.into())).await;
            }
            let Some(bytes) = self.model().handle(session, connection, &frame, fault) else { return Ok(()) };
            stream.write_all(&bytes).await?;
            // A server that does not know a request answers it and closes the connection.
            let is_unknown = header.op == OpCode::With.wire() && !self.model().is_linear();
            if header.op == -11 || matches!(fault, Fault::CutDuring) || is_unknown {
                return Ok(());
            }
        }
    }
}

impl Connector for Server {
    type Stream = DuplexStream;

    async fn connect(&self, _server: &ServerAddress, _random: u64) -> io::Result<DuplexStream> {
        let refused = {
            let mut model = self.model();
            let refused = model.refusals > 0;
            model.refusals = model.refusals.saturating_sub(1);
            refused
        };
        if refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (mine, theirs) = tokio::io::duplex(64 << 10);
        tokio::spawn(self.clone().serve(theirs));
        Ok(mine)
    }
}

async fn read_frame(stream: &mut DuplexStream) -> io::Result<Vec<u8>> {
    let length = stream.read_i32().await?;
    let mut frame = vec![0; usize::try_from(length).expect("clients send no negative length")];
    stream.read_exact(&mut frame).await?;
    Ok(frame)
}

impl Model {
    /// The session and its new connection; no connection if the session is not known.
    fn attach(&mut self, session: i64) -> (i64, Option<u64>) {
        self.expire_silent();
        self.connections += 1;
        let connection = self.connections;
        let session = match session {
            0 => 1000 + connection as i64,
            known if self.sessions.contains_key(&known) => known,
            _ => return (0, None),
        };
        self.sessions.insert(session, connection);
        self.heard.insert(session, Instant::now());
        (session, Some(connection))
    }

    /// Ends the sessions that were silent for longer than their timeout.
    pub(crate) fn expire_silent(&mut self) {
        let silent = |heard: &Instant| heard.elapsed() > TIMEOUT;
        let dead: Vec<i64> =
            self.heard.iter().filter(|(_, heard)| silent(heard)).map(|(session, _)| *session).collect();
        for session in dead {
            self.heard.remove(&session);
            self.expire(session);
        }
    }

    /// Sets what the server says that it can do; without it, the server is no Zebu server.
    pub(crate) fn set_features(&mut self, features: Option<&str>) {
        match features {
            Some(features) => {
                let data = format!("version=1\nfeatures={features}\n").into_bytes();
                self.nodes.insert(FEATURES_NODE.into(), Node { data, stat: Stat::default(), next_child: 0 });
            }
            None => drop(self.nodes.remove(FEATURES_NODE)),
        }
    }

    fn is_linear(&self) -> bool {
        let node = self.nodes.get(FEATURES_NODE);
        node.is_some_and(|node| node.data.windows(6).any(|bytes| bytes == b"linear"))
    }

    pub(crate) fn expire(&mut self, session: i64) {
        self.sessions.remove(&session);
        self.nodes.retain(|_, node| node.stat.ephemeral_owner != session);
    }

    /// The answer, or nothing if the connection ends.
    fn handle(&mut self, session: i64, connection: u64, frame: &[u8], fault: Fault) -> Option<Vec<u8>> {
        self.expire_silent();
        // A session that has moved or ended takes nothing from its old connection.
        if self.sessions.get(&session) != Some(&connection) || fault == Fault::CutBefore {
            return None;
        }
        self.heard.insert(session, Instant::now());
        match fault {
            Fault::Expire => {
                self.expire(session);
                return None;
            }
            Fault::Refuse(count) => {
                self.refusals = count;
                return None;
            }
            _ => {}
        }
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader).unwrap();
        let op = OpCode::from_wire(header.op).unwrap();
        self.requests.push(op);
        if op == OpCode::Create2 && !self.knows_create2 {
            // As servers before 3.5: an answer, then the end.
            return Some(answer(&header, self.zxid, Err(ErrorCode::Unimplemented), 0));
        }
        if let Fault::Answer(code) = fault {
            return Some(answer(&header, self.zxid, Err(code), 0));
        }
        let request = Request::decode(header.op, &mut reader).unwrap();
        let result = self.apply(session, request);
        let mut bytes = answer(&header, self.zxid, result, i32::from(fault == Fault::WrongXid));
        match fault {
            Fault::CutAfter => None,
            Fault::CutDuring => {
                bytes.truncate(bytes.len() / 2);
                Some(bytes)
            }
            Fault::BadLength => Some(vec![255, 255, 255, 250]),
            Fault::Truncated => {
                let mut short = (bytes.len() as i32 - 5).to_be_bytes().to_vec();
                short.extend_from_slice(&bytes[4..bytes.len() - 1]);
                Some(short)
            }
            _ => Some(bytes),
        }
    }

    fn apply(&mut self, session: i64, request: Request<'_>) -> Result<Vec<u8>, ErrorCode> {
        let mut out = Vec::new();
        match request {
            Request::Write(WriteRequest::Create(create)) => self.create(session, create)?.encode(&mut out),
            Request::Write(WriteRequest::Delete(delete)) => {
                let path = delete.path.unwrap();
                if self.nodes.keys().any(|node| zebu_client::path::parent(node) == Some(&path)) {
                    return Err(ErrorCode::NotEmpty);
                }
                self.nodes.remove(&*path).ok_or(ErrorCode::NoNode)?;
                self.log.push(("delete", path.into(), Vec::new()));
            }
            Request::Write(WriteRequest::SetData(set)) => {
                let (path, data) = (set.path.unwrap(), set.data.unwrap().to_vec());
                let node = self.nodes.get_mut(&*path).ok_or(ErrorCode::NoNode)?;
                if set.version != -1 && set.version != node.stat.version {
                    return Err(ErrorCode::BadVersion);
                }
                node.stat.version += 1;
                node.data = data.clone();
                node.stat.encode(&mut out);
                self.log.push(("set", path.into(), data));
            }
            Request::Write(WriteRequest::CloseSession) => self.expire(session),
            Request::Read(ReadRequest::Exists(path, _)) => self.node(&path)?.stat.encode(&mut out),
            Request::Read(ReadRequest::GetData(path, _)) => {
                let node = self.node(&path)?;
                GetDataResponse { data: Some(node.data.clone().into()), stat: node.stat }.encode(&mut out);
            }
            Request::Read(ReadRequest::GetChildren2(path, _)) => {
                let stat = self.node(&path)?.stat;
                let children =
                    self.nodes.keys().filter(|node| zebu_client::path::parent(node) == Some(&path));
                let children = children.map(|node| zebu_client::path::name(node).into()).collect();
                GetChildren2Response { children, stat }.encode(&mut out);
            }
            Request::Read(ReadRequest::Sync(path)) => {
                path.map(|path| Box::<str>::from(&*path)).encode(&mut out)
            }
            Request::With(_, read) if self.is_linear() => return self.apply(session, Request::Read(read)),
            Request::With(..) => return Err(ErrorCode::Unimplemented),
            Request::Read(_) | Request::Auth(_) => {}
            other => panic!("the model does not know {other:?}"),
        }
        Ok(out)
    }

    fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.nodes.get(path).ok_or(ErrorCode::NoNode)
    }

    fn create(&mut self, session: i64, create: CreateRequest) -> Result<Create2Response, ErrorCode> {
        let mode = CreateMode::from_flags(create.flags).unwrap();
        let mut path = String::from(create.path.unwrap());
        let parent = zebu_client::path::parent(&path).unwrap().to_owned();
        let parent = self.nodes.get_mut(&parent).ok_or(ErrorCode::NoNode)?;
        if mode.is_sequential() {
            path.push_str(&format!("{:010}", parent.next_child));
        }
        parent.next_child += 1;
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        self.zxid += 1;
        let owner = if mode.is_ephemeral() { session } else { 0 };
        let stat = Stat { czxid: self.zxid, ephemeral_owner: owner, ..Stat::default() };
        let data = create.data.map(|data| data.to_vec()).unwrap_or_default();
        self.log.push(("create", path.clone(), data.clone()));
        self.nodes.insert(path.clone(), Node { data, stat, next_child: 0 });
        if create.op == CreateOp::Create {
            // The path alone; the stat behind it is what old clients leave unread.
            return Ok(Create2Response { path: Some(path.into()), stat });
        }
        Ok(Create2Response { path: Some(path.into()), stat })
    }
}

fn answer(header: &RequestHeader, zxid: i64, result: Result<Vec<u8>, ErrorCode>, xid_error: i32) -> Vec<u8> {
    let (err, body) = match result {
        Ok(body) => (0, body),
        Err(code) => (code.wire(), Vec::new()),
    };
    let mut bytes = Vec::new();
    write_frame(&mut bytes, |out| {
        ReplyHeader { xid: header.xid + xid_error, zxid: zxid.max(1), err }.encode(out);
        out.extend_from_slice(&body);
    });
    bytes
}
