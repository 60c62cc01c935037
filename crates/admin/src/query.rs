//! Query strings and paths of requests: percent decoding and the first value of a parameter.

/// The first value of a parameter.
pub(crate) fn first_value(query: Option<&str>, name: &str) -> Option<String> {
    all_values(query, name).next()
}

/// All values of a parameter.
pub(crate) fn all_values<'a>(query: Option<&'a str>, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs.filter_map(move |pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(&key.replace('+', " ")) == name).then(|| decode(&value.replace('+', " ")))
    })
}

/// Decodes `%xx`; bytes that are no UTF-8 become replacement characters.
pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_counts() {
        let query = Some("a=1&traceMask=%33+6&traceMask=9&b&c=%zz");
        assert_eq!(first_value(query, "traceMask").as_deref(), Some("3 6"));
        assert_eq!(first_value(query, "b").as_deref(), Some(""));
        assert_eq!(first_value(query, "c").as_deref(), Some("%zz"));
        assert_eq!(first_value(query, "d"), None);
        assert_eq!(first_value(None, "a"), None);
        assert_eq!(all_values(Some("name[]=x&name%5B%5D=y"), "name[]").collect::<Vec<_>>(), ["x", "y"]);
    }
}
