//! A Rust file as the rules see it: comments and literals blanked, test code told from shipped code, and the
//! paths that the code mentions. A small scanner, not a parser: it does not expand macros and does not follow
//! `pub use`, so that a rule built on it finds honest mistakes and not a determined hiding.

use super::paths::is_test_only;

/// Whether a file ends up in a released binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Shipped,
    Test,
}

/// A file, with its path below the project's top.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) role: Role,
    blanked: String,
}

/// How the code mentions a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Import,
    Expression,
    Macro,
    Method,
}

/// One path in the code: `std::fs::read` is three segments; a `use` with braces gives one mention per leaf.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    pub(crate) form: Form,
}

impl SourceFile {
    /// Scans a file.
    pub(crate) fn new(path: &str, text: &str) -> SourceFile {
        let role = if is_test_only(path) { Role::Test } else { Role::Shipped };
        SourceFile { path: path.to_owned(), text: text.to_owned(), role, blanked: blank_literals(text) }
    }

    /// The code with comments and literals blanked, tests included. Lines keep their numbers.
    pub(crate) fn code_with_tests(&self) -> &str {
        &self.blanked
    }

    /// The shipped code: `#[cfg(test)]` items are blanked too. Empty for a test file.
    pub(crate) fn shipped_code(&self) -> String {
        match self.role {
            Role::Shipped => split_tests(&self.blanked).0,
            Role::Test => String::new(),
        }
    }

    /// Lines up to the first `#[cfg(test)]`.
    pub(crate) fn lines_before_tests(&self) -> usize {
        self.blanked.lines().take_while(|line| !line.trim_start().starts_with(TEST_ATTRIBUTE)).count()
    }

    /// Files that hold the test modules which this file declares as `#[cfg(test)] mod name;`.
    pub(crate) fn test_module_files(&self) -> Vec<String> {
        let (directory, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = name.trim_end_matches(".rs");
        let base = match stem {
            "mod" | "lib" | "main" => directory.to_owned(),
            _ => format!("{directory}/{stem}"),
        };
        let modules = split_tests(&self.blanked).1;
        modules.into_iter().map(|module| format!("{base}/{module}.rs")).collect()
    }
}

const TEST_ATTRIBUTE: &str = "#[cfg(test)]";

/// Replaces comments and the contents of literals with blanks; every newline stays.
fn blank_literals(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < characters.len() {
        let end = literal_end(&characters, at);
        if end == at {
            out.push(characters[at]);
            at += 1;
        } else {
            out.extend(characters[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(text: &[char], at: usize) -> usize {
    let next = text.get(at + 1);
    match text[at] {
        '/' if next == Some(&'/') => find(text, at, |rest| rest[0] == '\n').unwrap_or(text.len()),
        '/' if next == Some(&'*') => block_comment_end(text, at),
        '"' => string_end(text, at + 1),
        '\'' => character_end(text, at),
        'r' | 'b' | 'c' if !follows_identifier(text, at) => prefixed_string_end(text, at),
        _ => at,
    }
}

fn find(text: &[char], from: usize, matches: impl Fn(&[char]) -> bool) -> Option<usize> {
    (from..text.len()).find(|index| matches(&text[*index..]))
}

fn follows_identifier(text: &[char], at: usize) -> bool {
    at > 0 && (text[at - 1].is_alphanumeric() || text[at - 1] == '_')
}

fn block_comment_end(text: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut index = at;
    while index + 1 < text.len() {
        match (text[index], text[index + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                index += 1;
                continue;
            }
        }
        index += 2;
        if depth == 0 {
            return index;
        }
    }
    text.len()
}

fn string_end(text: &[char], inside: usize) -> usize {
    let mut index = inside;
    while index < text.len() {
        match text[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    text.len()
}

/// A character literal, or nothing for a lifetime.
fn character_end(text: &[char], at: usize) -> usize {
    match (text.get(at + 1), text.get(at + 2)) {
        (Some('\\'), _) => find(text, at + 3, |rest| rest[0] == '\'').map_or(text.len(), |end| end + 1),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// `b"…"`, `c"…"`, `b'…'`, `r"…"`, `br#"…"#`; nothing for an identifier that begins with these letters.
fn prefixed_string_end(text: &[char], at: usize) -> usize {
    let letters = text[at..].iter().take(2).take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let raw = text[at..at + letters].contains(&'r');
    let hashes = text[at + letters..].iter().take_while(|c| **c == '#').count();
    match text.get(at + letters + hashes) {
        Some('"') if raw => {
            let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
            let inside = at + letters + hashes + 1;
            find(text, inside, |rest| rest.starts_with(&closing))
                .map_or(text.len(), |end| end + closing.len())
        }
        Some('"') if hashes == 0 => string_end(text, at + letters + 1),
        Some('\'') if hashes == 0 && !raw => match character_end(text, at + letters) {
            end if end == at + letters => at,
            end => end,
        },
        _ => at,
    }
}

/// Blanks every `#[cfg(test)]` item; also the names of test modules that live in files of their own.
fn split_tests(code: &str) -> (String, Vec<String>) {
    let mut bytes = code.as_bytes().to_vec();
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(start) = code[from..].find(TEST_ATTRIBUTE).map(|offset| from + offset) {
        let end = item_end(code.as_bytes(), start);
        let item = &code[start..end];
        if let Some(declaration) = item.trim_end().strip_suffix(';') {
            let mut words = declaration.split_whitespace().rev();
            if let (Some(name), Some("mod")) = (words.next(), words.next()) {
                modules.push(name.to_owned());
            }
        }
        // Whole bytes of an item are overwritten, so that the text stays UTF-8.
        for byte in &mut bytes[start..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        from = end;
    }
    (String::from_utf8_lossy(&bytes).into_owned(), modules)
}

/// The end of the item whose attribute starts at `start`: its closing brace or its semicolon.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut brackets = 0usize;
    let mut braces = 0usize;
    for (offset, byte) in code[start..].iter().enumerate() {
        match byte {
            b'[' | b'(' => brackets += 1,
            b']' | b')' => brackets = brackets.saturating_sub(1),
            b'{' => braces += 1,
            b'}' if braces <= 1 => return start + offset + 1,
            b'}' => braces -= 1,
            b';' if braces == 0 && brackets == 0 => return start + offset + 1,
            _ => {}
        }
    }
    code.len()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    PathSeparator,
    Mark(char),
}

fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let (token, length) = if word > 0 {
                (Token::Word(&rest[..word]), word)
            } else if rest.starts_with("::") {
                (Token::PathSeparator, 2)
            } else {
                (Token::Mark(first), first.len_utf8())
            };
            tokens.push((index + 1, token));
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

/// Every path that the code mentions.
pub(crate) fn mentions(code: &str) -> Vec<Mention> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].1 {
            Token::Word("use") => at = import(&tokens, at + 1, &[], &mut found),
            Token::Word(_) => at = expression(&tokens, at, &mut found),
            Token::PathSeparator | Token::Mark(_) => at += 1,
        }
    }
    found
}

/// One branch of a `use` tree, which starts at `at` below `prefix`; gives the index after it.
fn import(
    tokens: &[(usize, Token<'_>)],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<Mention>,
) -> usize {
    let mut segments = prefix.to_vec();
    while let Some((line, token)) = tokens.get(at) {
        match token {
            Token::Word("as") => at += 2,
            Token::Word(word) => {
                segments.push((*word).to_owned());
                at += 1;
            }
            Token::Mark('*') => {
                segments.push("*".to_owned());
                at += 1;
            }
            Token::PathSeparator => at += 1,
            Token::Mark('{') => {
                at += 1;
                while !matches!(tokens.get(at), None | Some((_, Token::Mark('}')))) {
                    at = import(tokens, at, &segments, found);
                    if matches!(tokens.get(at), Some((_, Token::Mark(',')))) {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Token::Mark(_) => {
                let before = at.checked_sub(1).map_or(*line, |index| tokens[index].0);
                found.push(Mention { line: before, segments, form: Form::Import });
                // A mark that no `use` contains would stall the loop above; step over it.
                return if matches!(token, Token::Mark(',' | '}')) { at } else { at + 1 };
            }
        }
    }
    at
}

fn expression(tokens: &[(usize, Token<'_>)], start: usize, found: &mut Vec<Mention>) -> usize {
    let mut segments = Vec::new();
    let mut at = start;
    while let Some((_, Token::Word(word))) = tokens.get(at) {
        segments.push((*word).to_owned());
        at += 1;
        match (tokens.get(at), tokens.get(at + 1)) {
            (Some((_, Token::PathSeparator)), Some((_, Token::Word(_)))) => at += 1,
            _ => break,
        }
    }
    let mark = |index: usize| match tokens.get(index) {
        Some((_, Token::Mark(mark))) => Some(*mark),
        _ => None,
    };
    let form = if mark(at) == Some('!') && mark(at + 1) != Some('=') {
        Form::Macro
    } else if start > 0 && mark(start - 1) == Some('.') && !(start > 1 && mark(start - 2) == Some('.')) {
        Form::Method
    } else {
        Form::Expression
    };
    found.push(Mention { line: tokens[start].0, segments, form });
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        mentions(code).into_iter().map(|mention| mention.segments.join("::")).collect()
    }

    #[test]
    fn comments_and_literals_are_blanked_and_lines_stay() {
        let text =
            "a // std::fs\n/* std::net /* nested */ x\n*/ b \"std::thread \\\" \" c r#\"tokio \" \"# d";
        let code = blank_literals(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(code.lines().count(), 3);
    }

    #[test]
    fn lifetimes_are_not_character_literals() {
        let code = blank_literals("fn f<'a>(s: &'a str) { q('\"'); e('\\''); b(b'x'); g(b\"y\") }");
        assert_eq!(code, "fn f<'a>(s: &'a str) { q(   ); e(    ); b(    ); g(    ) }");
    }

    #[test]
    fn identifiers_that_look_like_prefixes_survive() {
        assert_eq!(blank_literals("r#type bar br c rb(b, r)"), "r#type bar br c rb(b, r)");
        assert_eq!(blank_literals("number\"x\" y").trim_end(), "number    y");
    }

    #[test]
    fn test_items_are_cut_out_and_the_rest_stays() {
        let file = SourceFile::new(
            "crates/x/src/a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { c() }\n}\nfn d() {}\n",
        );
        let code = file.shipped_code();
        assert!(code.contains("fn a()") && code.contains("fn d()") && !code.contains("fn b()"));
        assert_eq!(code.lines().count(), 6);
        assert_eq!(file.lines_before_tests(), 1);
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_named() {
        let declared = |path| {
            SourceFile::new(path, "#[cfg(test)]\n#[allow(x)]\nmod checks;\nmod real;\n").test_module_files()
        };
        assert_eq!(declared("crates/x/src/lib.rs"), ["crates/x/src/checks.rs"]);
        assert_eq!(declared("crates/x/src/prep/mod.rs"), ["crates/x/src/prep/checks.rs"]);
        assert_eq!(declared("crates/x/src/prep.rs"), ["crates/x/src/prep/checks.rs"]);
    }

    #[test]
    fn imports_are_unfolded() {
        let code = "use std::{fs, io::{self, Read as R}, collections::*};\nuse tokio;\npub use a::b::C;";
        assert_eq!(
            paths(code),
            ["std::fs", "std::io::self", "std::io::Read", "std::collections::*", "tokio", "pub", "a::b::C"]
        );
        assert_eq!(mentions(code)[4].line, 2);
    }

    #[test]
    fn expressions_macros_and_methods() {
        let found =
            mentions("let now = std::time::Instant::now();\nprintln!(x);\nstart.elapsed();\nif a != b {}");
        let form =
            |name: &str| found.iter().find(|mention| mention.segments.join("::") == name).unwrap().form;
        assert_eq!(form("std::time::Instant::now"), Form::Expression);
        assert_eq!(form("println"), Form::Macro);
        assert_eq!(form("elapsed"), Form::Method);
        assert_eq!(form("a"), Form::Expression);
    }

    #[test]
    fn broken_code_ends() {
        for code in
            ["use", "use {", "use a::{b", "use ;", "use ) x", "#[cfg(test)]", "\"", "'", "r#\"", "/*", "b'"]
        {
            mentions(&SourceFile::new("crates/x/src/a.rs", code).shipped_code());
        }
    }
}
