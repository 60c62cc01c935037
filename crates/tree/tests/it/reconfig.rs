//! reconfig, as far as it concerns the tree.

use zebu_proto::client::{EventType, ReconfigRequest, WriteRequest};
use zebu_proto::{ErrorCode, Id, Zxid};
use zebu_tree::{Reconfig, TxnOutcome};

use crate::support::*;

fn reconfig() -> WriteRequest {
    let request = ReconfigRequest { joining: None, leaving: None, new_members: None, current_config_id: -1 };
    WriteRequest::Reconfig(request)
}

#[test]
fn the_order_of_checks() {
    let mut world = World::new();
    world.session_check = Err(ErrorCode::SessionExpired);
    assert_eq!(world.error(reconfig()), ErrorCode::ReconfigDisabled);
    world.reconfig = Reconfig::Refused(ErrorCode::Unimplemented);
    assert_eq!(world.error(reconfig()), ErrorCode::SessionExpired);
    world.session_check = Ok(());
    assert_eq!(world.error(reconfig()), ErrorCode::Unimplemented);
    world.reconfig = Reconfig::Accepted(text("server.1=…"));
    assert_eq!(world.error(reconfig()), ErrorCode::NoAuth);
    world.credentials.add(Id::new("super", ""));
    let TxnOutcome::Reconfigured { stat } = world.ok(reconfig()) else { panic!() };
    assert_eq!((stat.version, stat.mzxid, stat.mtime), (-1, world.zxid, START_MS));
    assert_eq!(world.events, [(EventType::NodeDataChanged, "/zookeeper/config".to_owned())]);
    assert_eq!(world.data("/zookeeper/config"), Some("server.1=…".as_bytes()));
}

#[test]
fn the_configuration_at_start() {
    let mut world = World::new();
    let digest = world.tree.digest();
    world.tree.write_config(text("version=5"), Zxid(5), 77);
    let stat = world.stat("/zookeeper/config");
    assert_eq!((stat.version, stat.mzxid, stat.mtime, stat.czxid, stat.data_length), (-1, 5, 77, 0, 9));
    assert_eq!((world.tree.digest(), world.tree.last_zxid()), (digest, Zxid(0)));
}
