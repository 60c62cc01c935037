//! Ensembles of real server processes with SASL and TLS between the servers: they elect, serve and survive a
//! kill; a server without the right password or certificate stays out; settings change in rolling restarts.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;
#[path = "common/protected.rs"]
mod protected;

use ensemble::block_on;
use protected::{ProtectedEnsemble, SASL, TLS};

/// Elects, writes through each server, and goes on without the leader and with it again.
fn survives_a_kill(protected: &mut ProtectedEnsemble) {
    let leader = protected.ensemble.await_leader(3);
    block_on(protected.writes_through(&[0, 1, 2], "first"));
    protected.ensemble.kill(leader);
    protected.ensemble.await_leader(2);
    let rest: Vec<usize> = (0..3).filter(|&index| index != leader).collect();
    block_on(protected.writes_through(&rest, "second"));
    protected.ensemble.run(leader);
    protected.ensemble.await_leader(3);
    block_on(protected.writes_through(&[0, 1, 2], "third"));
}

#[test]
fn an_ensemble_with_sasl_survives_a_kill() {
    let mut protected = ProtectedEnsemble::start(SASL);
    protected.await_log(0, &["SASL (DIGEST-MD5) between servers is on", "required=true"]);
    survives_a_kill(&mut protected);
    assert_eq!(protected.metric(0, "quorum_auth_failed_count"), 0, "{}", protected.ensemble.logs());
}

#[test]
fn an_ensemble_with_tls_survives_a_kill() {
    let mut protected = ProtectedEnsemble::start(TLS);
    for line in ["Using TLS encrypted quorum communication", "Creating TLS-only quorum server socket"] {
        protected.await_log(0, &[line]);
    }
    let leader = protected.ensemble.await_leader(3);
    protected.await_log(leader, &["Accepted TLS connection from 127.0.0.1:", "- TLSv1.3 - TLS_"]);
    survives_a_kill(&mut protected);
}

#[test]
fn an_ensemble_with_both_survives_a_kill() {
    let mut protected =
        ProtectedEnsemble::start(&format!("{SASL}{TLS}ssl.quorum.enabledProtocols=TLSv1.2\n"));
    let leader = protected.ensemble.await_leader(3);
    protected.await_log(leader, &["Accepted TLS connection from", "- TLSv1.2 - TLS_"]);
    survives_a_kill(&mut protected);
}

#[test]
fn a_server_with_another_password_stays_out() {
    let mut protected = ProtectedEnsemble::prepare(SASL);
    protected.log_in(2, "other");
    (0..3).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(2);
    for index in 0..2 {
        protected.await_log(index, &["a connection of another server was refused", "wrong password"]);
        assert!(protected.metric(index, "quorum_auth_failed_count") > 0);
    }
    protected.await_log(2, &["a connection to another server failed", "the other side refused"]);
    protected.await_log(2, &["a connection of another server was refused", "wrong password"]);
    block_on(protected.writes_through(&[0, 1], "without"));
    assert_eq!(protected.ensemble.mode(2), None);
    assert!(!protected.ensemble.logs().contains("quorumpw"), "a password is in a log");
}

/// With `serverRequireSasl=false`, ZooKeeper lets a server in whose password is wrong. Zebu does not.
#[test]
fn a_wrong_password_is_refused_although_none_is_required() {
    let lines = SASL.replace("serverRequireSasl=true", "serverRequireSasl=false");
    let mut protected = ProtectedEnsemble::prepare(&lines);
    protected.log_in(2, "other");
    // One that does not authenticate itself at all is let in.
    protected.protect(1, "quorum.auth.enableSasl=true\n");
    (0..3).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(2);
    protected.await_log(0, &["a connection of another server was refused", "server=3", "wrong password"]);
    block_on(protected.writes_through(&[0, 1], "without"));
    assert_eq!(protected.ensemble.mode(2), None);
}

#[test]
fn a_server_with_the_certificate_of_another_host_stays_out() {
    let mut protected = ProtectedEnsemble::prepare(TLS);
    protected.certify(2, "stranger.example");
    (0..3).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(2);
    // No server dials it and it dials all others, because its id is the largest.
    for index in 0..2 {
        let names = "the certificate is for stranger.example, not for 127.0.0.1 or 127.0.0.2 or 127.0.0.3";
        protected.await_log(index, &["a connection of another server was refused", names]);
        assert!(protected.metric(index, "quorum_unsuccessful_handshake") > 0);
        assert!(protected.metric(index, "wrong_name_quorum_tls_handshake_failed") > 0);
    }
    protected.await_log(2, &["a connection to another server failed", "refused it with the alert"]);
    block_on(protected.writes_through(&[0, 1], "without"));
    assert_eq!(protected.ensemble.mode(2), None);

    // With the own name it joins, without a restart of the others.
    protected.certify(2, "127.0.0.3");
    protected.restart(2);
    protected.ensemble.await_leader(3);
    block_on(protected.writes_through(&[0, 1, 2], "with"));
}

/// A server cannot speak for another one with its own certificate.
#[test]
fn a_server_with_the_certificate_of_another_server_stays_out() {
    let mut protected = ProtectedEnsemble::prepare(TLS);
    protected.certify(2, "127.0.0.1");
    (0..3).for_each(|index| protected.ensemble.run(index));
    protected.ensemble.await_leader(2);
    let names = "the certificate is for 127.0.0.1, not for 127.0.0.3";
    protected.await_log(0, &["the certificate belongs to another server", "server=3", names]);
    // The others notice it as well where they dial it, because it answers with that certificate.
    protected.await_log(0, &["a connection to another server failed", names]);
    block_on(protected.writes_through(&[0, 1], "without"));
    assert_eq!(protected.ensemble.mode(2), None);

    let lines = format!("{TLS}ssl.quorum.hostnameVerification=false\n");
    for index in 0..3 {
        protected.protect(index, &lines);
        protected.restart(index);
    }
    protected.ensemble.await_leader(3);
}

/// Changes the settings of one server after the other, with all servers serving in between.
fn roll(protected: &mut ProtectedEnsemble, steps: &[&str]) {
    protected.ensemble.await_leader(3);
    for (step, lines) in steps.iter().enumerate() {
        for index in 0..3 {
            protected.protect(index, lines);
            protected.ensemble.kill(index);
            protected.ensemble.await_leader(2);
            let rest: Vec<usize> = (0..3).filter(|&other| other != index).collect();
            block_on(protected.writes_through(&rest, &format!("step-{step}-without-{index}")));
            protected.ensemble.run(index);
            protected.ensemble.await_leader(3);
            block_on(protected.writes_through(&[index], &format!("step-{step}-with-{index}")));
        }
    }
}

#[test]
fn tls_comes_in_three_rolling_restarts() {
    let mut protected = ProtectedEnsemble::start("");
    protected.await_log(0, &["Using insecure (non-TLS) quorum communication"]);
    let steps = ["sslQuorum=false\nportUnification=true\n", "sslQuorum=true\nportUnification=true\n", TLS];
    roll(&mut protected, &steps);
    for index in 0..3 {
        protected.await_log(index, &["Creating TLS-only quorum server socket"]);
    }
}

#[test]
fn sasl_comes_in_three_rolling_restarts() {
    let mut protected = ProtectedEnsemble::start("");
    let steps = [
        "quorum.auth.enableSasl=true\n",
        "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n",
        SASL,
    ];
    roll(&mut protected, &steps);
    for index in 0..3 {
        protected.await_log(index, &["SASL (DIGEST-MD5) between servers is on", "required=true"]);
    }
}
