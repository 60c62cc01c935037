//! The client port: requests, replies and watch events.

pub mod auth;
pub mod connect;
pub mod create;
pub mod header;
pub mod hello;
pub mod multi;
pub mod multi_reply;
pub mod read;
pub mod reconfig;
pub mod reply;
pub mod request;
pub mod watch;
pub mod with;
pub mod write;

pub use auth::{AuthPacket, ClientInfo};
pub use connect::{ConnectRequest, ConnectResponse};
pub use create::{CreateMode, CreateOp, CreateRequest};
pub use header::{ReplyHeader, RequestHeader};
pub use hello::{ClientHello, ServerHello};
pub use multi::{MultiOp, MultiReadOp, MultiResult};
pub use multi_reply::{MultiReply, decode_multi_replies};
pub use read::ReadRequest;
pub use reconfig::ReconfigRequest;
pub use request::{Request, RequestError};
pub use watch::{AddWatchMode, EventType, SetWatches, WatcherEvent, WatcherType};
pub use with::Freshness;
pub use write::{CheckRequest, DeleteRequest, SetAclRequest, SetDataRequest, WriteRequest};
