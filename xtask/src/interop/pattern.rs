//! Patterns in which `*` stands for any characters: lines of the zkCli script, test names of the allowed
//! list.

/// Whether the text fits the pattern.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(matches("cZxid = 0x*", "cZxid = 0x1f"));
        assert!(matches("[*, *]", "[/a, /b]"));
        assert!(matches("*", ""));
        assert!(!matches("cZxid = 0x*", "mZxid = 0x1f"));
        assert!(!matches("hello", "hello there"));
        assert!(!matches("a*bc", "abcd"));
        assert!(!matches("ab*ba", "aba"));
    }
}
