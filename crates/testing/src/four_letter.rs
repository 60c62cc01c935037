//! Four-letter words: one word out, one text back, then the server closes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use zebu_proto::Zxid;

/// Sends `word` on a connection of its own and returns the whole answer.
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let address = server.address();
/// use std::time::Duration;
/// use zebu_testing::four_letter;
///
/// # let text = tokio::task::spawn_blocking(move || {
/// let text = four_letter::ask(address, "srvr", Duration::from_secs(5))?;
/// # Ok::<_, std::io::Error>(text) }).await??;
/// assert!(four_letter::is_serving(&text));
/// # Ok(()) });
/// ```
pub fn ask(address: SocketAddr, word: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether an answer to `srvr` comes from a server that serves clients.
pub fn is_serving(srvr: &str) -> bool {
    last_zxid_in(srvr).is_some()
}

/// The last zxid that the server reports in `srvr`.
pub fn last_zxid(address: SocketAddr, patience: Duration) -> io::Result<Zxid> {
    let answer = ask(address, "srvr", patience)?;
    last_zxid_in(&answer)
        .ok_or_else(|| io::Error::other(format!("srvr at {address} names no zxid; it answered: {answer:?}")))
}

fn last_zxid_in(srvr: &str) -> Option<Zxid> {
    let text = srvr.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
    u64::from_str_radix(text.trim(), 16).ok().map(|zxid| Zxid(zxid as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxid_is_found_in_the_answer() {
        let answer =
            "Zookeeper version: x, built on y\nOutstanding: 0\nZxid: 0x1000000ff\nMode: standalone\n";
        assert_eq!(last_zxid_in(answer), Some(Zxid(0x1_0000_00ff)));
        assert!(!is_serving("This ZooKeeper instance is not currently serving requests\n"));
        assert!(!is_serving(""));
    }
}
