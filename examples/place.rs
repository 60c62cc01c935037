//! Where an example runs: with the servers that its first argument names, or with one that it starts for itself.

use zebu_testing::TestServer;

/// The servers of an example.
pub(crate) struct Place {
    /// What clients connect to.
    pub(crate) servers: String,
    /// Ends with the example.
    _own: Option<TestServer>,
}

impl Place {
    pub(crate) async fn find() -> anyhow::Result<Place> {
        if let Some(servers) = std::env::args().nth(1) {
            return Ok(Place { servers, _own: None });
        }
        let own = TestServer::start().await?;
        let servers = own.connect_string();
        println!("started a server of its own at {servers}");
        Ok(Place { servers, _own: Some(own) })
    }
}
