//! How a line falls into words: blanks separate, a pair of quotes holds a word together, there are no
//! escapes. The same lines give the same words as in zkCli, its oddities included.

/// Splits a line. A quote that opens no pair is dropped; a quote inside of a word is part of it.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        if matches!(first, '"' | '\'') {
            let inside = &rest[1..];
            match inside.find(first) {
                Some(end) => {
                    words.push(inside[..end].to_owned());
                    rest = &inside[end + 1..];
                }
                None => rest = inside,
            }
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(split("create /a \"two words\" 'and more'"), ["create", "/a", "two words", "and more"]);
        assert_eq!(split("  ls\t/  "), ["ls", "/"]);
        assert_eq!(split("create /a \"\""), ["create", "/a", ""]);
        assert_eq!(split("   "), [""; 0]);
    }

    #[test]
    fn quotes_inside_of_words_are_characters() {
        assert_eq!(split("create /a\"b c\"d e"), ["create", "/a\"b", "c\"d", "e"]);
        assert_eq!(split("set /a \"abc"), ["set", "/a", "abc"]);
        assert_eq!(split("'it''s'"), ["it", "s"]);
        assert_eq!(split("grüße \"漢 字\""), ["grüße", "漢 字"]);
    }
}
