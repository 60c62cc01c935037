//! SPDX license expressions: whether a list of allowed licenses satisfies one. Owns the grammar; knows no
//! license.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};

/// Whether the expression can be satisfied with these licenses. A `/` stands for OR, as older packages write
/// it.
pub(crate) fn is_satisfied(text: &str, allowed: &BTreeSet<String>) -> anyhow::Result<bool> {
    let text = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let result = parser.any()?;
    ensure!(parser.words.is_empty(), "{text:?} goes on after its end");
    Ok(result)
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a BTreeSet<String>,
}

impl Parser<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        let found = self.words.first().is_some_and(|next| next.eq_ignore_ascii_case(word));
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    /// Alternatives.
    fn any(&mut self) -> anyhow::Result<bool> {
        let mut result = self.all()?;
        while self.next_is("OR") {
            result |= self.all()?;
        }
        Ok(result)
    }

    /// Licenses that hold together.
    fn all(&mut self) -> anyhow::Result<bool> {
        let mut result = self.one()?;
        while self.next_is("AND") {
            result &= self.one()?;
        }
        Ok(result)
    }

    /// A license, with an exception or without, or an expression in parentheses.
    fn one(&mut self) -> anyhow::Result<bool> {
        if self.next_is("(") {
            let result = self.any()?;
            ensure!(self.next_is(")"), "a parenthesis is not closed");
            return Ok(result);
        }
        let [name, rest @ ..] = self.words else { bail!("a license is missing") };
        self.words = rest;
        if !self.next_is("WITH") {
            return Ok(self.allowed.contains(*name));
        }
        let [exception, rest @ ..] = self.words else { bail!("an exception is missing") };
        self.words = rest;
        // An exception only permits more than its license.
        Ok(self.allowed.contains(*name) || self.allowed.contains(&format!("{name} WITH {exception}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> bool {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        is_satisfied(text, &allowed.into()).unwrap()
    }

    #[test]
    fn one_of_several_is_enough_and_all_of_several_are_needed() {
        assert!(holds("MIT") && holds("GPL-3.0 OR MIT") && holds("GPL-3.0/MIT") && holds("MIT AND ISC"));
        assert!(!holds("GPL-3.0") && !holds("MIT AND GPL-3.0"));
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert!(holds("MIT OR ISC AND GPL-3.0"));
        assert!(!holds("(MIT OR ISC) AND GPL-3.0"));
        assert!(holds("(MIT OR GPL-3.0) AND (ISC)"));
    }

    #[test]
    fn an_exception_belongs_to_its_license() {
        assert!(holds("Apache-2.0 WITH LLVM-exception") && holds("MIT WITH Some-exception"));
        assert!(!holds("Apache-2.0") && !holds("Apache-2.0 WITH Another-exception"));
    }

    #[test]
    fn a_text_that_is_no_expression_is_an_error() {
        for text in ["", "MIT OR", "(MIT", "MIT ISC", "MIT WITH"] {
            assert!(is_satisfied(text, &BTreeSet::new()).is_err(), "{text}");
        }
    }
}
