//! The leader goes: upgraded sessions live on, local ones do not.

use anyhow::{Context, Result, ensure};

use super::home::{Ensemble, Home, LONG_MS, close, ephemeral, exists, persistent, set, succeed};
use crate::client::Client;
use crate::trio::SERVERS;

pub(super) fn of_leader(ensemble: &mut Ensemble) -> Result<()> {
    let leader = SERVERS - 1;
    Home { ensemble, index: 0 }.await_rest()?;
    let mut sessions = Vec::new();
    for index in 0..leader {
        let home = Home { ensemble, index };
        let (local, mut upgraded) = (home.client(LONG_MS)?, home.client(LONG_MS)?);
        succeed(&mut upgraded, &ephemeral(&home.path("survivor")))?;
        sessions.push((local.session(), upgraded.session()));
    }
    ensemble.trio.kill(leader)?;
    ensemble.trio.reap(leader)?;
    ensemble.trio.await_service()?;
    for (index, (local, upgraded)) in sessions.into_iter().enumerate() {
        let home = Home { ensemble, index };
        let address = home.address();
        ensure!(Client::resume(address, local, LONG_MS)?.is_none(), "server {} kept it", index + 1);
        let mut client =
            Client::resume(address, upgraded, LONG_MS)?.context("an upgraded session is lost")?;
        let path = home.path("survivor");
        ensure!(exists(&mut client, &path)?, "{path} is gone");
        succeed(&mut client, &set(&path))?;
        close(client)?;
        let mut client = home.client(LONG_MS)?;
        succeed(&mut client, &persistent(&home.path("afterwards")))?;
        close(client)?;
    }
    ensemble.trio.start(leader)?;
    ensemble.trio.await_service()?;
    Home { ensemble, index: leader }.await_rest().map(|_| ())
}
