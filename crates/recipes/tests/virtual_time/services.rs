//! Service discovery: a picked instance was registered, and in the end each provider knows all instances.

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_client::Parents;
use zebu_recipes::{ProviderStrategy, ServiceDiscovery, ServiceInstance, ServiceProvider};

use crate::answer::SECRET;
use crate::checks::until_empty;
use crate::for_each_seed;
use crate::server::FaultKinds;

/// The instances that a provider knows, as `id=payload`.
fn known(provider: &ServiceProvider<String>) -> BTreeSet<String> {
    let text = |instance: &ServiceInstance<String>| {
        format!("{}={}", instance.id, instance.payload.as_deref().unwrap_or_default())
    };
    provider.instances().iter().map(|instance| text(instance)).collect()
}

async fn until_known(providers: &[ServiceProvider<String>], wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|&one| one.to_owned()).collect();
    for provider in providers {
        let mut changes = provider.changes();
        while known(provider) != wanted {
            changes.changed().await.expect("followed");
        }
        assert!(provider.failure().is_none());
    }
}

#[test]
fn providers_know_what_is_registered() {
    for_each_seed(FaultKinds::Expiry, async |server, clients| {
        let services: Vec<_> =
            clients.iter().map(|client| ServiceDiscovery::<String>::new(client, "/services")).collect();
        let (mut registrations, mut providers) = (Vec::new(), Vec::new());
        // A node of another service that no client may read.
        let secret = format!("/services/shop/{SECRET}");
        while server.state().tree.node(&secret).is_none() {
            // The tree is checked instead of the reply.
            let _ = clients[0].create(&secret).parents(Parents::Containers).await;
        }
        for (number, service) in services.iter().enumerate() {
            let instance = ServiceInstance::new("shop").id(number.to_string()).payload("0".to_owned());
            registrations.push(service.register(instance).await.expect("registered"));
            providers.push(service.provider("shop", ProviderStrategy::RoundRobin).await.expect("a provider"));
        }
        for round in 1..8 {
            for registration in &mut registrations {
                let change =
                    |instance: &mut ServiceInstance<String>| instance.payload = Some(round.to_string());
                registration.update(change).await.expect("updated");
            }
            for provider in &providers {
                if let Some(picked) = provider.pick() {
                    let payload: i32 =
                        picked.payload.as_deref().expect("a payload").parse().expect("a number");
                    assert!(["0", "1", "2"].contains(&&*picked.id) && payload <= round);
                }
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        until_known(&providers, &["0=7", "1=7", "2=7"]).await;
        registrations.pop().expect("the last").unregister().await.expect("taken away");
        until_known(&providers, &["0=7", "1=7"]).await;
        // A newer instance of the same id replaces the older one. The older one gets the id back if the newer
        // session is lost before the older instance ends.
        let again = ServiceInstance::new("shop").id("1").payload("new".to_owned());
        let older = registrations.pop();
        let end = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(older);
        };
        let (again, ()) = tokio::join!(services[2].register(again), end);
        let again = again.expect("registered");
        until_known(&providers, &["0=7", "1=new"]).await;
        server.stop_faults();
        // A session that was about to end may still remove its instance for a moment.
        loop {
            let found = services[0].instances("shop").await.expect("an answer");
            if found.iter().map(|one| &*one.id).eq(["0", "1"]) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        drop((registrations, again));
        until_known(&providers, &[]).await;
        clients[0].delete(&secret).await.expect("deleted");
        until_empty(server, "/services/shop").await;
    });
}
