//! The error texts for invalid paths, as in zkCli, with the position. The client owns the rules.

use super::failure::Failure;

/// Why a text is not a path; `None` if it is one.
pub(crate) fn mistake(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some("Path length must be > 0".to_owned());
    }
    if !path.starts_with('/') {
        return Some("Path must start with / character".to_owned());
    }
    if path.len() == 1 {
        return None;
    }
    if path.ends_with('/') {
        return Some("Path must not end with / character".to_owned());
    }
    let (reason, at) = first_flaw(path)?;
    Some(format!("Invalid path string \"{path}\" caused by {reason} @{at}"))
}

/// Refuses what is not a path.
pub(crate) fn check(path: &str) -> Result<(), Failure> {
    mistake(path).map_or(Ok(()), |text| Err(Failure::text(text)))
}

/// Refuses what is not a path of a node to be created; a sequential one may end with a slash.
pub(crate) fn check_new(path: &str, naming: Naming) -> Result<(), Failure> {
    match naming {
        Naming::Exact => check(path),
        Naming::Sequential => check(&format!("{path}1")),
    }
}

/// Whether the server completes the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Exact,
    Sequential,
}

/// The first flaw behind the leading slash, and where, counted in units of UTF-16 as Java does.
fn first_flaw(path: &str) -> Option<(&'static str, usize)> {
    let units: Vec<u16> = path.encode_utf16().collect();
    let slash = u16::from(b'/');
    let dot = u16::from(b'.');
    let ends = |at: usize| units.get(at).is_none_or(|unit| *unit == slash);
    for (at, unit) in units.iter().enumerate().skip(1) {
        match *unit {
            0 => return Some(("null character not allowed", at)),
            unit if unit == slash && units[at - 1] == slash => {
                return Some(("empty node name specified", at));
            }
            unit if unit == dot && ends(at + 1) => {
                let alone = units[at - 1] == slash;
                let double = units[at - 1] == dot && units[at - 2] == slash;
                if alone || double {
                    return Some(("relative paths not allowed", at));
                }
            }
            1..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff => {
                return Some(("invalid character", at));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_have_a_place() {
        for (path, text) in [
            ("", "Path length must be > 0"),
            ("a", "Path must start with / character"),
            ("/r/", "Path must not end with / character"),
            ("/r//x", "Invalid path string \"/r//x\" caused by empty node name specified @3"),
            ("/r/./x", "Invalid path string \"/r/./x\" caused by relative paths not allowed @3"),
            ("/r/../x", "Invalid path string \"/r/../x\" caused by relative paths not allowed @4"),
            ("/r/..", "Invalid path string \"/r/..\" caused by relative paths not allowed @4"),
            ("/a\u{1}", "Invalid path string \"/a\u{1}\" caused by invalid character @2"),
            ("/ä😀", "Invalid path string \"/ä😀\" caused by invalid character @2"),
        ] {
            assert_eq!(mistake(path).as_deref(), Some(text));
        }
        for path in ["/", "/a", "/a.b/.c/d..", "/a/...", "/grüße"] {
            assert_eq!(mistake(path), None, "{path}");
        }
    }

    #[test]
    fn what_the_client_refuses_is_a_mistake_here_too() {
        for path in
            ["/a", "/", "", "x", "/a/", "/a//b", "/./a", "/a/..", "/a\0", "/a\u{9f}", "/\u{fffd}", "/😀"]
        {
            assert_eq!(mistake(path).is_none(), zebu_client::path::check_path(path).is_ok(), "{path:?}");
        }
    }
}
