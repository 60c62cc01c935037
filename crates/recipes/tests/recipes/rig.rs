//! A server, clients, and the questions that every recipe is asked: was there ever more than one, and is
//! anything left behind.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use zebu_client::{Client, ErrorCode, Retry, Version};
use zebu_recipes::{Fenced, FencingToken, is_fenced_out};
use zebu_testing::TestServer;

use crate::fault::{Fault, FaultyConnector, Plan};

/// How long anything in a test may take.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Faults that a recipe must get over by itself.
pub(crate) const BREAKS: [Fault; 3] = [Fault::CutBefore, Fault::CutAfter, Fault::Kill];

/// A bound for the number of requests of any scenario.
const STEPS_MAX: usize = 100;

/// Fails a test that waits too long.
pub(crate) async fn soon<F: IntoFuture>(future: F) -> F::Output {
    tokio::time::timeout(TIME_LIMIT, future).await.expect("it should have happened by now")
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
    // Recipes go on by themselves: the retry policy of the client must not matter.
    let builder = builder.session_timeout(Duration::from_secs(30)).retry(Retry::Never);
    builder.connect_with(FaultyConnector(plan.clone())).await.expect("a session")
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
    /// The client whose requests fail.
    pub(crate) victim: Client,
    /// A client without faults.
    pub(crate) other: Client,
    /// A node for this run alone; it does not exist yet.
    pub(crate) path: String,
}

/// The number of concurrent runs of a scenario; they mostly wait.
const AT_ONCE: usize = 5;

/// A server for runs that may crash it, and a client without faults.
struct FaultServer {
    server: Arc<TestServer>,
    other: Client,
}

impl FaultServer {
    async fn start() -> FaultServer {
        let server = Arc::new(server().await);
        let other = client(&server).await;
        FaultServer { server, other }
    }
}

/// Runs a scenario again and again, with the fault at its first request, its second, and so on until it
/// makes no more. Nodes in `leftovers` are below the path of the run and must have no children at its end.
pub(crate) async fn at_every_step(faults: &[Fault], leftovers: &[&str], scenario: impl AsyncFn(&Rig) -> ()) {
    // A server that crashes has no other run on it.
    let count = if faults.contains(&Fault::Kill) { AT_ONCE } else { 1 };
    let stages = all((0..count).map(|_| FaultServer::start())).await;
    for &fault in faults {
        let mut struck = 0;
        for first in (1..=STEPS_MAX).step_by(AT_ONCE) {
            let run = |number: usize| {
                let stage = &stages[if fault == Fault::Kill { number } else { 0 }];
                with_fault_at(stage, fault, first + number, leftovers, &scenario)
            };
            let fired = all((0..AT_ONCE).map(run)).await.into_iter().filter(|fired| *fired).count();
            struck += fired;
            if fired < AT_ONCE {
                break;
            }
        }
        assert!(struck > 0 && struck < STEPS_MAX, "{struck} requests in the scenario");
    }
}

/// One run; whether there was such a request.
async fn with_fault_at(
    stage: &FaultServer,
    fault: Fault,
    step: usize,
    leftovers: &[&str],
    scenario: &impl AsyncFn(&Rig) -> (),
) -> bool {
    println!("{fault:?} at request {step}");
    let plan = Plan::new(fault);
    let victim = faulty_client(&stage.server, &plan).await;
    let path = format!("/run-{fault:?}-{step}");
    let (server, other) = (stage.server.clone(), stage.other.clone());
    let rig = Rig { server, plan: plan.clone(), victim, other, path };
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
            Fault::CutBefore | Fault::CutAfter | Fault::Hold | Fault::HoldTransaction => {}
        }
    });
    if tokio::time::timeout(TIME_LIMIT, scenario(&rig)).await.is_err() {
        panic!("{fault:?} at request {step}: it should have happened by now");
    }
    // Not before this is over: without the fault, a request that waits for it would wait until the client
    // gives up.
    for leftover in leftovers {
        until_children(&stage.other, &format!("{}{leftover}", rig.path), 0).await;
    }
    if plan.has_fired() {
        striking.await.expect("the fault was made");
    } else {
        striking.abort();
    }
    plan.has_fired()
}

/// Waits for all of them at once.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, output) in &mut waiting {
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *output = Some(ready);
            }
        }
        let done = waiting.iter().all(|(_, output)| output.is_some());
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, output)| output).collect()
}

/// A node that only holders may write, in the order of their tokens.
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
            Err(error) if is_fenced_out(&error, 0) => false,
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
