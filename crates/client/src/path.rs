//! Paths: the rules that servers apply, and the translation between the caller's paths and the server's
//! paths. Pure text functions.

/// The reason why a text is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It does not start with `/`.
    #[error("it does not start with /")]
    NotAbsolute,
    /// It ends with `/`.
    #[error("it ends with /")]
    TrailingSlash,
    /// Two slashes in a row.
    #[error("it has an empty name between two slashes")]
    EmptyName,
    /// `.` or `..`.
    #[error("it has a name that is . or ..")]
    Relative,
    /// A character that no server accepts.
    #[error("it has the character {0:?}, which servers refuse")]
    BadCharacter(char),
}

/// Checks a path by the rules that servers apply to a write.
pub fn check_path(path: &str) -> Result<(), PathError> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err(if path.is_empty() { PathError::Empty } else { PathError::NotAbsolute });
    };
    if rest.is_empty() {
        return Ok(());
    }
    if rest.ends_with('/') {
        return Err(PathError::TrailingSlash);
    }
    for name in rest.split('/') {
        match name {
            "" => return Err(PathError::EmptyName),
            "." | ".." => return Err(PathError::Relative),
            _ => {}
        }
    }
    match rest.chars().find(|character| is_refused(*character)) {
        Some(character) => Err(PathError::BadCharacter(character)),
        None => Ok(()),
    }
}

/// Whether servers refuse the character: control characters, the private use area, U+FFF0 and above, and all
/// outside the basic plane.
fn is_refused(character: char) -> bool {
    matches!(character, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// The parent; `None` for the root.
pub fn parent(path: &str) -> Option<&str> {
    if path == "/" {
        return None;
    }
    match path.rfind('/')? {
        0 => Some("/"),
        at => Some(&path[..at]),
    }
}

/// The last name of a path; empty for the root.
pub fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A child's path.
pub fn join(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

/// Prepends a root to a path. The root is empty or a path without a trailing slash.
pub(crate) fn under(root: &str, path: &str) -> String {
    match (root, path) {
        ("", _) => path.to_owned(),
        (_, "/") => root.to_owned(),
        _ => format!("{root}{path}"),
    }
}

/// Removes the root from a path of the server. A path outside of the root is returned unchanged, because no
/// relative path names it.
pub(crate) fn without_root<'a>(root: &str, path: &'a str) -> &'a str {
    match path.strip_prefix(root) {
        Some("") => "/",
        Some(rest) if rest.starts_with('/') => rest,
        Some(_) | None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_judged_as_servers_judge_them() {
        for path in ["/", "/a", "/a/b", "/...", "/.a/b..", "/\u{20}", "/é/漢"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for (path, error) in [
            ("", PathError::Empty),
            ("a", PathError::NotAbsolute),
            ("/a/", PathError::TrailingSlash),
            ("/a//b", PathError::EmptyName),
            ("/./a", PathError::Relative),
            ("/a/..", PathError::Relative),
            ("/a\0", PathError::BadCharacter('\0')),
            ("/a\u{9f}", PathError::BadCharacter('\u{9f}')),
            ("/a\u{f000}", PathError::BadCharacter('\u{f000}')),
            ("/a\u{fffd}", PathError::BadCharacter('\u{fffd}')),
            ("/😀", PathError::BadCharacter('😀')),
        ] {
            assert_eq!(check_path(path), Err(error), "{path:?}");
        }
    }

    #[test]
    fn roots_come_and_go() {
        for (root, path, full) in [("", "/a", "/a"), ("/r", "/a", "/r/a"), ("/r", "/", "/r"), ("", "/", "/")]
        {
            assert_eq!(under(root, path), full);
            assert_eq!(without_root(root, full), path);
        }
        assert_eq!(without_root("/r", "/rest/x"), "/rest/x");
    }

    #[test]
    fn parents_names_and_children() {
        assert_eq!((parent("/"), parent("/a"), parent("/a/b")), (None, Some("/"), Some("/a")));
        assert_eq!((name("/"), name("/a/b")), ("", "b"));
        assert_eq!((join("/", "a"), join("/a", "b")), ("/a".to_owned(), "/a/b".to_owned()));
    }
}
