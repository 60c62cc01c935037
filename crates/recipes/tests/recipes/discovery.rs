//! Service discovery: what is registered is found, what fails is found out, and nothing stays behind.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zebu_client::{Acl, Permissions, digest_id};
use zebu_recipes::{
    ProviderStrategy, RecipeError, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType,
};

use crate::fault::Fault;
use crate::rig::{Rig, at_every_step, children, client, server, soon, until_children};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Zone {
    zone: String,
}

async fn until_ports<P>(provider: &ServiceProvider<P>, wanted: &[u16]) {
    soon(async {
        loop {
            let ports: BTreeSet<u16> = provider.instances().iter().filter_map(|one| one.port).collect();
            if ports.iter().eq(wanted) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_or_session_may_end_at_every_request_of_discovery() {
    let faults = [Fault::CutBefore, Fault::CutAfter, Fault::Kill, Fault::Expire];
    at_every_step(&faults, &["/shop"], async |rig: &Rig| {
        let (mine, theirs) = (
            ServiceDiscovery::<Zone>::new(&rig.victim, &rig.path),
            ServiceDiscovery::<Zone>::new(&rig.other, &rig.path),
        );
        let one = theirs.register(ServiceInstance::new("shop").at("a", 1)).await.expect("registered");
        let mut two = mine.register(ServiceInstance::new("shop").at("b", 2)).await.expect("registered");
        let (near, far) = (
            mine.provider("shop", ProviderStrategy::RoundRobin).await.expect("a provider"),
            theirs.provider("shop", ProviderStrategy::Random).await.expect("a provider"),
        );
        until_ports(&near, &[1, 2]).await;
        until_ports(&far, &[1, 2]).await;
        two.update(|shop| shop.payload = Some(Zone { zone: "z".into() })).await.expect("updated");
        soon(async {
            while !far.instances().iter().any(|shop| shop.payload.is_some()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(mine.names().await.expect("names"), ["shop"]);
        one.unregister().await.expect("unregistered");
        until_ports(&near, &[2]).await;
        two.unregister().await.expect("unregistered");
        until_ports(&near, &[]).await;
        assert!(near.pick().is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_are_selected_by_the_strategy() {
    let server = server().await;
    let one = client(&server).await;
    let services = ServiceDiscovery::<String>::new(&one, "/services");
    let mut registrations = Vec::new();
    for port in 1..=3 {
        let instance = ServiceInstance::new("shop").id(format!("id-{port}")).at("a", port);
        registrations.push(services.register(instance).await.expect("registered"));
    }
    let round = services.provider("shop", ProviderStrategy::RoundRobin).await.expect("a provider");
    let sticky = services.provider("shop", ProviderStrategy::Sticky).await.expect("a provider");
    let random = services.provider("shop", ProviderStrategy::Random).await.expect("a provider");
    let pick = |provider: &ServiceProvider<String>| provider.pick().expect("one").port.expect("a port");
    let picked: Vec<u16> = (0..6).map(|_| pick(&round)).collect();
    assert_eq!(picked, [1, 2, 3, 1, 2, 3]);
    let stuck = pick(&sticky);
    assert!((0..20).all(|_| pick(&sticky) == stuck));
    let seen: BTreeSet<u16> = (0..200).map(|_| pick(&random)).collect();
    assert_eq!(seen.len(), 3);
    // One that does not want to be chosen is not; one that fails is left alone.
    registrations[0].update(|shop| shop.enabled = false).await.expect("updated");
    soon(async {
        while round.instances().iter().all(|shop| shop.enabled) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!((0..6).all(|_| pick(&round) != 1));
    let failing = round.instances()[1].clone();
    round.report_failure(&failing);
    round.report_failure(&failing);
    assert!((0..6).all(|_| pick(&round) == 3));
    let gone = usize::from(stuck) - 1;
    registrations.remove(gone).unregister().await.expect("unregistered");
    soon(async {
        while pick(&sticky) == stuck {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    drop(registrations);
    until_children(&one, "/services/shop", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_registration_takes_the_name_and_static_ones_stay() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (old, new) =
        (ServiceDiscovery::<String>::new(&one, "/s"), ServiceDiscovery::<String>::new(&two, "/s"));
    let first = old.register(ServiceInstance::new("shop").id("7").at("old", 1)).await.expect("registered");
    let second = new.register(ServiceInstance::new("shop").id("7").at("new", 2)).await.expect("registered");
    let found = old.instance("shop", "7").await.expect("an answer").expect("registered");
    assert_eq!(found.address.as_deref(), Some("new"));
    first.unregister().await.expect("nothing of its own is there");
    assert_eq!(new.instances("shop").await.expect("instances").len(), 1);
    second.unregister().await.expect("unregistered");
    let mut fixed = ServiceInstance::new("shop").id("fixed");
    fixed.service_type = ServiceType::Static;
    let registration = old.register(fixed.clone()).await.expect("registered");
    server.expire(one.session().id).await.expect("expired");
    drop(registration);
    one.ready().await.expect("a session");
    assert_eq!(children(&two, "/s/shop").await, ["fixed"]);
    let registration = new.register(fixed).await.expect("registered");
    registration.unregister().await.expect("unregistered");
    assert!(children(&two, "/s/shop").await.is_empty());
    let mut numbered = ServiceInstance::new("shop");
    numbered.service_type = ServiceType::DynamicSequential;
    assert!(matches!(new.register(numbered).await, Err(RecipeError::Invalid(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_instance_is_left_out() {
    let server = server().await;
    let one = client(&server).await;
    one.ensure_path("/s/shop").await.expect("made");
    one.create("/s/shop/bad").data("{").await.expect("created");
    let services = ServiceDiscovery::<String>::new(&one, "/s");
    let provider = services.provider("shop", ProviderStrategy::RoundRobin).await.expect("a provider");
    let good = services.register(ServiceInstance::new("shop").at("a", 1)).await.expect("registered");
    until_ports(&provider, &[1]).await;
    assert_eq!(services.instances("shop").await.expect("instances").len(), 1);
    assert!(matches!(services.instance("shop", "bad").await, Err(RecipeError::BadData { .. })));
    // The copy stays while there is no server, and follows again afterwards.
    server.kill().await.expect("killed");
    assert_eq!(provider.instances().len(), 1);
    server.restart().await.expect("started again");
    one.delete("/s/shop/bad").await.expect("deleted");
    good.unregister().await.expect("unregistered");
    until_ports(&provider, &[]).await;
    assert!(provider.failure().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_may_not_be_read_does_not_hide_the_others() {
    let server = server().await;
    let (one, other) = (client(&server).await, client(&server).await);
    let services = ServiceDiscovery::<String>::new(&one, "/services");
    let first = services.register(ServiceInstance::new("shop").id("1")).await.expect("registered");
    other.add_auth("digest", "user:secret").await.expect("authenticated");
    let acl = [Acl::new(Permissions::ALL, "digest", digest_id("user", "secret"))];
    other.create("/services/shop/secret").data("x").acl(acl).await.expect("created");
    let shops = services.provider("shop", ProviderStrategy::RoundRobin).await.expect("a provider");
    assert_eq!(shops.pick().expect("the other one").id, "1");
    let known = services.instances("shop").await.expect("an answer");
    assert_eq!(known.iter().map(|instance| &*instance.id).collect::<Vec<_>>(), ["1"]);
    server.kill().await.expect("killed");
    server.restart().await.expect("started again");
    let second = services.register(ServiceInstance::new("shop").id("2")).await.expect("registered");
    let mut changes = shops.changes();
    soon(changes.wait_for(|instances| instances.len() == 2)).await.expect("followed");
    assert!(shops.failure().is_none());
    drop((first, second));
}
