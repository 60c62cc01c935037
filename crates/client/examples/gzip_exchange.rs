//! Writes compressed data for another client to read, and reads what that client has written; each node has a
//! twin that holds the same data as it is. `gzip_exchange write|read HOST:PORT`
//!
//! interop/rust-client/compression.sh runs it with Curator as the other client.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use zebu_client::{Client, Compression, Parents};

/// Where both sides meet.
const ROOT: &str = "/gzip-exchange";

/// Empty, short, like itself, and nothing that could be made smaller.
fn samples() -> [(&'static str, Vec<u8>); 4] {
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    [
        ("empty", Vec::new()),
        ("short", b"word".to_vec()),
        ("long", b"word ".repeat(40_000)),
        ("noise", noise.take(100_000).collect()),
    ]
}

async fn write(client: &Client) -> Result<(), zebu_client::Error> {
    for (name, data) in samples() {
        let (plain, packed) = (format!("{ROOT}/rust/{name}"), format!("{ROOT}/rust/{name}.gz"));
        client.create(&plain).data(data.clone()).parents(Parents::Persistent).await?;
        client.create(&packed).data(data).compression(Compression::Gzip).await?;
    }
    Ok(())
}

async fn read(client: &Client) -> Result<(), zebu_client::Error> {
    let names = client.children(&format!("{ROOT}/curator")).await?.names;
    for packed in names.iter().filter(|name| name.ends_with(".gz")) {
        let packed = format!("{ROOT}/curator/{packed}");
        let plain = client.get(packed.trim_end_matches(".gz")).await?.data;
        let name = format!("compression: {packed} of Curator is read");
        let raw = client.get(&packed).await?.data;
        match client.get(&packed).compression(Compression::Gzip).await {
            Ok(node) if node.data == plain && raw != plain => println!("ok {name}"),
            Ok(_) if raw == plain => println!("not ok {name}: it is not compressed"),
            Ok(_) => println!("not ok {name}: it is not what was written"),
            Err(error) => println!("not ok {name}: {error}"),
        }
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (work, server) = match &arguments[..] {
        [work, server] => (work.as_str(), server),
        _ => return Err("usage: gzip_exchange write|read HOST:PORT".into()),
    };
    let client = Client::connect(server).await?;
    match work {
        "write" => write(&client).await?,
        "read" => read(&client).await?,
        _ => return Err("the work is write or read".into()),
    }
    client.close().await?;
    Ok(())
}
