//! Which events the requests of clients leave in the audit trail, on the primary and on a learner.

use zebu_node::{AuditOperation, AuditResult};
use zebu_proto::ErrorCode;
use zebu_proto::txn::Txn;

use crate::client::{EPHEMERAL, close_session, create, delete, get, set};
use crate::learner::{created, learner_and_client};
use crate::node_fixture::NodeFixture;

/// Operation, path and result of all events.
fn summary(fixture: &NodeFixture) -> Vec<(AuditOperation, Option<&str>, AuditResult)> {
    let summary = fixture.audit.iter().map(|event| (event.operation, event.path.as_deref(), event.result));
    summary.collect()
}

#[test]
fn a_closed_connection_does_not_hide_its_write() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.send(connection, create("/a", "", 0));
    fixture.disconnect(connection);
    assert_eq!(summary(&fixture), [], "nothing has happened yet");
    fixture.persist();
    assert_eq!(summary(&fixture), [(AuditOperation::Create, Some("/a"), AuditResult::Success)]);
}

#[test]
fn writes_are_refused_and_reads_are_served_while_the_log_fails() {
    let mut fixture = NodeFixture::new();
    let connection = fixture.client();
    fixture.call(connection, create("/a", "0", EPHEMERAL));
    fixture.node.refuse_unaudited_writes(true);
    assert_eq!(fixture.call(connection, set("/a", "1")).error, Some(ErrorCode::NotReadOnly));
    assert_eq!(fixture.call(connection, get("/a")).data(), "0");
    fixture.node.refuse_unaudited_writes(false);
    fixture.call(connection, set("/a", "2"));
    fixture.node.refuse_unaudited_writes(true);
    // A session may end: the client asks for no change that is audited.
    fixture.call(connection, close_session());
    assert_eq!(
        summary(&fixture),
        [
            (AuditOperation::Create, Some("/a"), AuditResult::Success),
            (AuditOperation::SetData, Some("/a"), AuditResult::Success),
            (AuditOperation::EphemeralDeletion, Some("/a"), AuditResult::Success),
        ]
    );
}

#[test]
fn a_learner_records_its_own_clients_and_the_sessions_of_all() {
    let (mut member, connection, session) = learner_and_client();
    assert_eq!(summary(&member.fixture), [], "the create of another server's client");
    let xid = member.fixture.send(connection, delete("/a"));
    member.deliver(session, xid, Txn::Delete("/a".into()));
    let xid = member.fixture.send(connection, delete("/a"));
    member.deliver(session, xid, Txn::error(ErrorCode::NoNode));
    let mut ephemeral = created("/e", "");
    ephemeral.ephemeral = true;
    let elsewhere = zebu_proto::SessionId(0x0300_0000_0000_0001);
    member.deliver(elsewhere, 2, Txn::Create(ephemeral));
    member.deliver(elsewhere, 3, Txn::CloseSession(Some(vec!["/e".into(), "/none".into()])));
    assert_eq!(
        summary(&member.fixture),
        [
            (AuditOperation::Delete, Some("/a"), AuditResult::Success),
            (AuditOperation::Delete, Some("/a"), AuditResult::Failure),
            (AuditOperation::EphemeralDeletion, Some("/e"), AuditResult::Success),
        ]
    );
}
