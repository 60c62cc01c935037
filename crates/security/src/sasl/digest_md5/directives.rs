//! The syntax of DIGEST-MD5 tokens: `key=value` pairs between commas or blanks.

use super::super::SaslFailure;

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The directives of a token, keys in lower case, in order.
#[derive(Debug)]
pub(super) struct Directives {
    pairs: Vec<(String, Vec<u8>)>,
}

impl Directives {
    pub(super) fn parse(token: &[u8]) -> Result<Directives, SaslFailure> {
        let mut parser = DirectiveParser { rest: token };
        let mut pairs = Vec::new();
        while let Some(pair) = parser.next_pair()? {
            pairs.push(pair);
        }
        Ok(Directives { pairs })
    }

    /// The value of a directive that may appear once.
    pub(super) fn single(&self, key: &'static str) -> Result<Option<&[u8]>, SaslFailure> {
        let mut values = self.all(key);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(SaslFailure::Directive(key)),
            (value, None) => Ok(value),
        }
    }

    /// The value of a directive that must appear once.
    pub(super) fn required(&self, key: &'static str) -> Result<&[u8], SaslFailure> {
        self.single(key)?.ok_or(SaslFailure::Directive(key))
    }

    pub(super) fn all(&self, key: &'static str) -> impl Iterator<Item = &[u8]> {
        self.pairs.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_slice())
    }
}

struct DirectiveParser<'a> {
    rest: &'a [u8],
}

impl DirectiveParser<'_> {
    fn skip_blanks(&mut self) {
        let blanks = self.rest.iter().take_while(|byte| is_blank(**byte)).count();
        self.rest = &self.rest[blanks..];
    }

    fn next_pair(&mut self) -> Result<Option<(String, Vec<u8>)>, SaslFailure> {
        self.skip_blanks();
        while let [b',', rest @ ..] = self.rest {
            self.rest = rest;
            self.skip_blanks();
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let Some(key) = self.key()? else { return Ok(None) };
        let value = self.value()?;
        Ok(Some((key, value)))
    }

    /// Java lets a key at the very end stand without value; it has no effect.
    fn key(&mut self) -> Result<Option<String>, SaslFailure> {
        let end = self.rest.iter().position(|byte| matches!(byte, b',' | b'=') || is_blank(*byte));
        let Some(end) = end else {
            self.rest = &[];
            return Ok(None);
        };
        let key = String::from_utf8_lossy(&self.rest[..end]).to_ascii_lowercase();
        self.rest = &self.rest[end..];
        self.skip_blanks();
        match self.rest {
            [b'=', rest @ ..] if !key.is_empty() => self.rest = rest,
            _ => return Err(SaslFailure::Malformed("a directive has no value or no key")),
        }
        self.skip_blanks();
        if self.rest.is_empty() {
            return Err(SaslFailure::Malformed("a directive has no value"));
        }
        Ok(Some(key))
    }

    fn value(&mut self) -> Result<Vec<u8>, SaslFailure> {
        let [b'"', quoted @ ..] = self.rest else {
            let end = self.rest.iter().position(|byte| *byte == b',' || is_blank(*byte));
            let (value, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
            self.rest = rest.get(1..).unwrap_or_default();
            return Ok(value.to_vec());
        };
        let mut value = Vec::new();
        let mut bytes = quoted.iter();
        loop {
            match bytes.next() {
                Some(b'"') => break,
                Some(b'\\') => {
                    value.push(*bytes.next().ok_or(SaslFailure::Malformed("a quote does not end"))?);
                }
                Some(byte) => value.push(*byte),
                None => return Err(SaslFailure::Malformed("a quote does not end")),
            }
        }
        self.rest = match bytes.as_slice() {
            [] => &[],
            [separator, rest @ ..] if *separator == b',' || is_blank(*separator) => rest,
            _ => return Err(SaslFailure::Malformed("no separator follows a quote")),
        };
        Ok(value)
    }
}
