//! Paths and query parameters of a request, decoded strictly: a wrong escape, bytes that are no UTF-8 and
//! unknown parameters are refused, because a misread parameter of a delete would do harm.

use zebu_tree::path;

use super::problem::Problem;

/// The query parameters of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Parses a query string.
    pub fn parse(query: Option<&str>) -> Result<Arguments, Problem> {
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        });
        decoded.collect::<Result<_, Problem>>().map(Arguments)
    }

    /// Refuses other parameters than these. A name that ends with `*` may come more than once.
    pub fn allow_only(&self, allowed: &[&str]) -> Result<(), Problem> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            let Some(entry) = allowed.iter().find(|entry| entry.trim_end_matches('*') == name) else {
                let known = allowed.join(", ").replace('*', "");
                let detail = match known.is_empty() {
                    true => format!("the parameter {name:?} is not known; this request has none"),
                    false => format!("the parameter {name:?} is not known; this request has {known}"),
                };
                return Err(Problem::bad_request(detail));
            };
            if !entry.ends_with('*') && self.0[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::bad_request(format!("the parameter {name:?} is given twice")));
            }
        }
        Ok(())
    }

    /// The value of a parameter; empty if it has none.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter without a value is given. `=true` and `=false` are understood, too.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.value(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(_) => Err(Problem::bad_request(format!("{name} takes no value but true and false"))),
        }
    }

    /// A number within limits.
    pub fn number(&self, name: &str, max: usize) -> Result<Option<usize>, Problem> {
        let Some(text) = self.value(name) else { return Ok(None) };
        let number = text.parse::<usize>().ok().filter(|number| (1..=max).contains(number));
        let refused = || Problem::bad_request(format!("{name} must be a number from 1 to {max}"));
        number.map(Some).ok_or_else(refused)
    }
}

/// The znode path of the part of a URL behind the route; the empty part is the root.
pub fn znode_path(encoded: &str) -> Result<String, Problem> {
    let path = decode(encoded)?;
    let path = if path.is_empty() { "/".to_owned() } else { path };
    check_path(&path)?;
    Ok(path)
}

/// Refuses a path that no client of ZooKeeper may use.
pub fn check_path(path: &str) -> Result<(), Problem> {
    path::validate(path).map_err(|_| {
        let detail = format!(
            "{path:?} is not the path of a node: it begins with a slash and has no empty, \".\" or \"..\" part and no \
             control character"
        );
        Problem::bad_request(detail)
    })
}

/// Decodes `%xx`.
fn decode(text: &str) -> Result<String, Problem> {
    let refused = |what| Problem::bad_request(format!("{what} in the URL"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| refused("a percent sign without two hexadecimal digits"))?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| refused("bytes that are no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_strictly() {
        for (encoded, path) in [
            ("", "/"),
            ("/", "/"),
            ("/a%20b", "/a b"),
            ("/%C3%A4", "/ä"),
            ("/a%2Fb", "/a/b"),
            ("/a+b", "/a+b"),
        ] {
            assert_eq!(znode_path(encoded).unwrap(), path, "{encoded}");
        }
        for encoded in
            ["/a/", "//a", "/a/../b", "/.", "/%2e%2e", "/%00", "/%", "/%4", "/%zz", "/%+1", "/%ff", "x"]
        {
            assert_eq!(znode_path(encoded).unwrap_err().status, 400, "{encoded}");
        }
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let parse = |query| Arguments::parse(Some(query)).unwrap();
        let arguments = parse("recursive&max=7&acl=a&acl=b");
        assert!(arguments.allow_only(&["recursive", "max", "acl*"]).is_ok());
        assert!(arguments.allow_only(&["recursive", "max", "acl"]).is_err(), "twice");
        assert!(arguments.allow_only(&["recursive", "acl*"]).is_err());
        assert_eq!(arguments.number("max", 10).unwrap(), Some(7));
        assert!(arguments.number("max", 6).is_err() && parse("max=0").number("max", 6).is_err());
        assert!(arguments.flag("recursive").unwrap() && !arguments.flag("stat").unwrap());
        assert!(parse("a=yes").flag("a").is_err() && Arguments::parse(Some("a=%f")).is_err());
        assert_eq!(parse("a=b+c%2B").value("a"), Some("b c+"));
    }
}
