//! A server, clients, and the questions that every recipe is asked: was there ever more than one, and is
//! anything left behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zebu_client::{Client, ErrorCode, Version};
use zebu_recipes::{Fenced, FencingToken, fenced_out};
use zebu_testing::TestServer;

use crate::fault::{Fault, Faulty, Plan};

/// How long anything in a test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Faults that a recipe must get over by itself.
pub(crate) const BREAKS: [Fault; 3] = [Fault::CutBefore, Fault::CutAfter, Fault::Kill];

/// A bound for the number of requests of any scenario.
const STEPS_MAX: usize = 60;

/// Fails a test that waits for something that never comes.
pub(crate) async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it should have happened by now")
}

pub(crate) async fn server() -> TestServer {
    TestServer::start().await.expect("a server")
}

pub(crate) async fn client(server: &TestServer) -> Client {
    client_of(server, Duration::from_secs(30)).await
}

pub(crate) async fn client_of(server: &TestServer, timeout: Duration) -> Client {
    let builder = Client::builder(&server.connect_string()).expect("an address");
    builder.session_timeout(timeout).connect().await.expect("a session")
}

/// A client whose requests are counted and can be made to fail.
pub(crate) async fn faulty_client(server: &TestServer, plan: &Arc<Plan>) -> Client {
    let builder = Client::builder(&server.connect_string()).expect("an address");
    let builder = builder.session_timeout(Duration::from_secs(30));
    builder.connect_with(Faulty(plan.clone())).await.expect("a session")
}

/// The children of a node; none if it is not there.
pub(crate) async fn children(client: &Client, path: &str) -> Vec<String> {
    match client.children(path).await {
        Ok(list) => list.names,
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Waits until a node has so many children.
pub(crate) async fn until_children(client: &Client, path: &str, count: usize) {
    soon(async {
        while children(client, path).await.len() != count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// One run of a scenario.
pub(crate) struct Rig {
    pub(crate) server: Arc<TestServer>,
    pub(crate) plan: Arc<Plan>,
    /// Whose requests fail.
    pub(crate) victim: Client,
    /// Somebody without trouble.
    pub(crate) other: Client,
    /// A node for this run alone; it does not exist yet.
    pub(crate) path: String,
}

/// Runs a scenario again and again, with the fault at its first request, its second, and so on until it
/// makes no more. Nodes in `leftovers` are below the path of the run and must have no children at its end.
pub(crate) async fn at_every_step(faults: &[Fault], leftovers: &[&str], scenario: impl AsyncFn(&Rig) -> ()) {
    let server = Arc::new(server().await);
    let other = client(&server).await;
    for fault in faults {
        let mut struck = 0;
        // A crash takes its time; at every third request it meets every kind of them.
        let stride = if *fault == Fault::Kill { 3 } else { 1 };
        for step in (1..=STEPS_MAX).step_by(stride) {
            println!("{fault:?} at request {step}");
            let plan = Plan::new(*fault);
            let victim = faulty_client(&server, &plan).await;
            let path = format!("/run-{fault:?}-{step}");
            let rig = Rig { server: server.clone(), plan: plan.clone(), victim, other: other.clone(), path };
            plan.arm(step);
            // On its own: what a scenario leaves to the background may be struck too.
            let (server, session) = (rig.server.clone(), rig.victim.session().id);
            let fired = plan.clone();
            let striking = tokio::spawn(async move {
                fired.fires().await;
                match fired.fault() {
                    Fault::Expire => server.expire(session).await.expect("expired"),
                    Fault::Kill => {
                        server.kill().await.expect("killed");
                        server.restart().await.expect("started again");
                    }
                    Fault::CutBefore | Fault::CutAfter | Fault::Hold => {}
                }
            });
            soon(scenario(&rig)).await;
            if plan.has_fired() {
                striking.await.expect("the fault was made");
            } else {
                striking.abort();
            }
            for leftover in leftovers {
                until_children(&other, &format!("{}{leftover}", rig.path), 0).await;
            }
            if !plan.has_fired() {
                break;
            }
            struck += 1;
        }
        assert!(struck > 0 && struck < STEPS_MAX, "{struck} requests in the scenario");
    }
}

/// Something that only holders may write, and only in their order.
#[derive(Clone, Debug)]
pub(crate) struct Register {
    path: String,
    writes: Arc<Mutex<Vec<(i64, FencingToken)>>>,
}

impl Register {
    pub(crate) async fn create(client: &Client, path: &str) -> Register {
        client.create(path).await.expect("a register");
        Register { path: path.to_owned(), writes: Arc::default() }
    }

    /// Writes if the guard is still good for it, and says whether it was.
    pub(crate) async fn write(&self, guard: &impl Fenced) -> bool {
        let mut transaction = guard.transaction();
        let set = transaction.set(&self.path, guard.token().to_string(), Version::Any);
        match transaction.await {
            Ok(results) => {
                let written = results.get(set).mzxid;
                self.writes.lock().expect("not poisoned").push((written, guard.token()));
                true
            }
            Err(error) if fenced_out(&error, 0) => false,
            // Whether it was carried out is unknown; it does not count as a proof of anything.
            Err(error) if error.is_ambiguous() || error.is_not_sent() => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// In the order in which the ensemble carried them out, tokens never fall.
    pub(crate) fn check(&self) -> usize {
        let mut writes = self.writes.lock().expect("not poisoned").clone();
        writes.sort_unstable();
        for pair in writes.windows(2) {
            assert!(pair[0].1 <= pair[1].1, "a former holder wrote after a later one: {pair:?}");
        }
        writes.len()
    }
}
