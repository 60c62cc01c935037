//! The server of an example: the one in its first argument, or one that the example starts.

use zebu_testing::TestServer;

/// The server of an example.
pub(crate) struct ExampleServer {
    /// The connection string.
    pub(crate) servers: String,
    /// The started server; it ends with the example.
    _own: Option<TestServer>,
}

impl ExampleServer {
    pub(crate) async fn connect_or_start() -> anyhow::Result<ExampleServer> {
        if let Some(servers) = std::env::args().nth(1) {
            return Ok(ExampleServer { servers, _own: None });
        }
        let own = TestServer::start().await?;
        let servers = own.connect_string();
        println!("started a server at {servers}");
        Ok(ExampleServer { servers, _own: Some(own) })
    }
}
