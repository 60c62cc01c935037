//! Random schedules of faults: no write is lost, none is done twice, and callers are told the truth.

use proptest::prelude::*;
use zebu_client::{Client, Created, Error};

use crate::model::{Fault, Model, Server, TIMEOUT};
use crate::{client, virtually};

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        8 => Just(Fault::None),
        2 => Just(Fault::CutBefore),
        4 => Just(Fault::CutAfter),
        2 => Just(Fault::CutDuring),
        1 => Just(Fault::WrongXid),
        1 => Just(Fault::BadLength),
        1 => (0..25u8).prop_map(Fault::Slow),
        1 => Just(Fault::Expire),
        1 => (0..20u8).prop_map(Fault::Refuse),
    ]
}

fn count(model: &Model, what: &str, mark: &str) -> usize {
    model.log.iter().filter(|(kind, _, data)| *kind == what && data == mark.as_bytes()).count()
}

/// What a caller is told must agree with how often it happened.
fn check_once<R: std::fmt::Debug>(result: &Result<R, Error>, times: usize, what: &str) {
    match result {
        Ok(_) => assert_eq!(times, 1, "{what}: told done"),
        Err(error) if error.is_ambiguous() => assert!(times <= 1, "{what}: told unknown, done {times} times"),
        Err(error) => assert_eq!(times, 0, "{what}: told not done: {error}"),
    }
}

async fn plain_writes(client: &Client, server: &Server) {
    for number in 0..4 {
        let mark = format!("create {number}");
        let result = client.create("/plain-").sequential().data(mark.clone()).await;
        check_once(&result, count(&server.model(), "create", &mark), &mark);
        let mark = format!("set {number}");
        let result = client.set("/", mark.clone()).await;
        check_once(&result, count(&server.model(), "set", &mark), &mark);
    }
}

async fn protected_creates(client: &Client, server: &Server) -> Vec<Result<Created, Error>> {
    let mut results = Vec::new();
    for number in 0..5 {
        let mark = format!("protected {number}");
        let create = client.create("/protected-").data(mark.clone()).protected();
        let create = if number % 2 == 0 { create.sequential() } else { create };
        let result = create.await;
        check_once(&result, count(&server.model(), "create", &mark), &mark);
        if let Ok(created) = &result {
            let model = server.model();
            let node = model.nodes.get(&created.path).expect("it is there");
            assert_eq!((node.data.as_slice(), node.stat), (mark.as_bytes(), created.stat));
        }
        results.push(result);
    }
    results
}

async fn protected_ephemerals(client: &Client, server: &Server) {
    for number in 0..4 {
        let mark = format!("ephemeral {number}");
        let result = client.create("/e-").ephemeral().sequential().data(mark.clone()).protected().await;
        let model = server.model();
        let alive: Vec<_> = model.nodes.iter().filter(|(_, node)| node.data == mark.as_bytes()).collect();
        if let Ok(created) = result {
            // One at most: those of dead sessions went with them. None, if its session has just expired.
            assert!(alive.len() <= 1, "{alive:?}");
            for (path, node) in alive {
                assert_eq!((path, node.stat), (&created.path, created.stat));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plain_writes_happen_at_most_once(plan in proptest::collection::vec(fault(), 0..40)) {
        virtually(async {
            let server = Server::new(plan);
            let client = client(&server).await;
            plain_writes(&client, &server).await;
        });
    }

    #[test]
    fn protected_creates_happen_exactly_once(plan in proptest::collection::vec(fault(), 0..60)) {
        virtually(async {
            let server = Server::new(plan);
            let client = client(&server).await;
            let results = protected_creates(&client, &server).await;
            server.model().plan.clear();
            client.close().await.unwrap();
            // Unconfirmed creates are cleaned up: only the nodes that callers know of are left.
            let known = results.iter().flatten().count();
            prop_assert_eq!(server.model().nodes.len(), 1 + known);
            Ok(())
        })?;
    }

    #[test]
    fn protected_ephemerals_belong_to_the_session(plan in proptest::collection::vec(fault(), 0..60)) {
        virtually(async {
            let server = Server::new(plan);
            let client = client(&server).await;
            protected_ephemerals(&client, &server).await;
            server.model().plan.clear();
            client.close().await.unwrap();
            tokio::time::sleep(TIMEOUT * 2).await;
            server.model().expire_silent();
            prop_assert_eq!(server.model().nodes.len(), 1);
            Ok(())
        })?;
    }
}
