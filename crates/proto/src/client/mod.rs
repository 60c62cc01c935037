//! The client port: requests, replies and watch events.

pub mod auth;
pub mod connect;
pub mod create;
pub mod delete_tree;
pub mod feed;
pub mod header;
pub mod hello;
pub mod keeper;
pub mod multi;
pub mod multi_reply;
pub mod page;
pub mod paginated;
pub mod read;
pub mod reconfig;
pub mod reply;
pub mod request;
pub mod scan;
pub mod watch;
pub mod with;
pub mod write;

pub use auth::{AuthPacket, ClientInfo};
pub use connect::{ConnectRequest, ConnectResponse};
pub use create::{CreateMode, CreateOp, CreateRequest};
pub use delete_tree::{DeleteTreeReply, DeleteTreeRequest};
pub use feed::{
    ChangeKind, CreatedOwner, FEATURE_FEED, FROM_NOW, FeedBatch, FeedChange, FeedCredit, FeedEnd, FeedOpen,
    FeedOpened, FeedOptions, FeedPush, FeedRecord, FeedRequest,
};
pub use header::{ReplyHeader, RequestHeader};
pub use hello::{ClientHello, FEATURE_MOVE, MovePush, PUSH_MOVE, ServerHello};
pub use keeper::{
    CheckStatRequest, FilteredListRequest, KeeperCheck, KeeperPart, KeeperRead, KeeperWrite,
    ListRecursiveRequest, ListedContent, RemoveRecursiveRequest,
};
pub use multi::{MultiOp, MultiReadOp, MultiResult};
pub use multi_reply::{MultiReply, decode_multi_replies};
pub use page::{ChildKind, PageReply, PageRequest};
pub use paginated::{NextPage, PaginatedReply, PaginatedRequest};
pub use read::ReadRequest;
pub use reconfig::ReconfigRequest;
pub use request::{Request, RequestError};
pub use scan::{ScanReply, ScanRequest, ScannedNode};
pub use watch::{AddWatchMode, EventType, SetWatches, WatcherEvent, WatcherType};
pub use with::Freshness;
pub use write::{CheckRequest, DeleteRequest, SetAclRequest, SetDataRequest, WriteRequest};
