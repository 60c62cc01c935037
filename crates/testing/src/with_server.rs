//! A server for one piece of code, with a runtime around it: for examples, and for tests that have none.

use std::error::Error;

use crate::in_process::TestServer;

/// Starts a server, runs the code with it and ends the server. An error of the code ends the test.
///
/// ```
/// zebu_testing::with_server(async |server| {
///     let client = zebu_client::Client::connect(&server.connect_string()).await?;
///     client.create("/greeting").await?;
///     Ok(())
/// });
/// ```
///
/// # Panics
/// If there is no server, or if the code returns an error.
pub fn with_server(code: impl AsyncFnOnce(&TestServer) -> Result<(), Box<dyn Error>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            let server = TestServer::start().await?;
            code(&server).await
        })
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}
