//! `find`: the paths of a subtree that fit.

use zebu_client::{Client, ErrorCode, NodeData};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::{Given, switch, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;
use crate::shell::walk::{self, Depth};

pub(crate) const ENTRY: Entry = Entry {
    name: "find",
    syntax: "[path] [-name pattern] [-data text] [-larger bytes] [-ephemeral]",
    about: "Lists the nodes of a subtree whose name or data fits",
    examples: &[
        "find /apps -name \"*lock*\"",
        "find / -data jdbc:",
        "find / -larger 100000",
        "find /members -ephemeral",
    ],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[
        value("name", "The name fits; * stands for any characters, ? for one"),
        value("data", "The data contains this text"),
        value("larger", "The data has more bytes"),
        switch("ephemeral", "The node is ephemeral"),
    ],
    parse,
};

struct Find {
    path: String,
    name: Option<Vec<char>>,
    data: Option<Vec<u8>>,
    larger: Option<usize>,
    ephemeral: bool,
}

fn parse(given: &Given) -> Parsed {
    let larger = match given.value("larger") {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| Failure::text(format!("-larger takes a number of bytes, not {text:?}")))?,
        ),
    };
    Ok(Box::new(Find {
        path: given.word(0).unwrap_or("/").to_owned(),
        name: given.value("name").map(|pattern| pattern.chars().collect()),
        data: given.value("data").map(|text| text.as_bytes().to_vec()),
        larger,
        ephemeral: given.has("ephemeral"),
    }))
}

impl Command for Find {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let client = session.client()?;
            let mut found = walk::list(&client, &self.path, Depth::All).await?.depth_first();
            if let Some(pattern) = &self.name {
                let fits = |path: &String| {
                    let name: Vec<char> = path.rsplit('/').next().unwrap_or(path).chars().collect();
                    is_match(pattern, &name)
                };
                found.retain(fits);
            }
            if self.data.is_some() || self.larger.is_some() || self.ephemeral {
                found = self.by_content(&client, found).await?;
            }
            Ok(Reply::Paths(found))
        })
    }
}

impl Find {
    async fn by_content(&self, client: &Client, paths: Vec<String>) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        for batch in paths.chunks(128) {
            let reads: Vec<_> = batch.iter().map(|path| (path, client.get(path).send())).collect();
            for (path, read) in reads {
                match read.await {
                    Ok(node) if self.fits(&node) => found.push(path.clone()),
                    Ok(_) => {}
                    // It went meanwhile, or we may not look.
                    Err(error) if matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NoAuth)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(found)
    }

    fn fits(&self, node: &NodeData) -> bool {
        let contains =
            |text: &Vec<u8>| text.is_empty() || node.data.windows(text.len()).any(|part| part == text);
        self.data.as_ref().is_none_or(contains)
            && self.larger.is_none_or(|bytes| node.data.len() > bytes)
            && (!self.ephemeral || node.stat.ephemeral_owner != 0)
    }
}

/// Whether a name fits a pattern. Linear in memory and at worst quadratic in time: one star is retried at a
/// time.
fn is_match(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let fits = |pattern: &str, name: &str| {
            is_match(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
        };
        for (pattern, name) in
            [("*", ""), ("a*c", "abbc"), ("*lock*", "my-lock-1"), ("?b", "äb"), ("a**", "a")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("a*c", "abcd"), ("?", ""), ("", "a"), ("*b*c", "acb")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
