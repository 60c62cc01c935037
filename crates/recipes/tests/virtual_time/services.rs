//! Service discovery: whatever is picked was registered, and in the end everybody knows exactly what is
//! there.

use std::collections::BTreeSet;
use std::time::Duration;

use zebu_client::Parents;
use zebu_recipes::{ProviderStrategy, ServiceDiscovery, ServiceInstance, ServiceProvider};

use crate::answer::SECRET;
use crate::checks::until_empty;
use crate::for_each_seed;
use crate::server::Ways;

/// What a provider knows, as `id=payload`.
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
    for_each_seed(Ways::Expiry, async |server, clients| {
        let services: Vec<_> =
            clients.iter().map(|client| ServiceDiscovery::<String>::new(client, "/services")).collect();
        let (mut registrations, mut providers) = (Vec::new(), Vec::new());
        // Another service has put something there that nobody else may read.
        let secret = format!("/services/shop/{SECRET}");
        while server.state().tree.node(&secret).is_none() {
            // Whatever the answer is.
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
        // Another one of the same name takes its place; for good when the older one ends, which gets the name
        // back if the session of the newer one is lost before.
        let again = ServiceInstance::new("shop").id("1").payload("new".to_owned());
        let older = registrations.pop();
        let end = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(older);
        };
        let (again, ()) = tokio::join!(services[2].register(again), end);
        let again = again.expect("registered");
        until_known(&providers, &["0=7", "1=new"]).await;
        server.calm();
        // A session that was about to be lost may still take its instance away for a moment.
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
