//! The tokens of a JAAS file, by the rules of Java's stream tokenizer.

use std::iter::Peekable;
use std::str::Chars;

/// Characters for which a quoted text gets room at once. A buffer that grows leaves copies of a password
/// behind.
const QUOTED_CAPACITY_MAX: usize = 256;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JaasToken {
    Word(String),
    Quoted(String),
    /// Any other character. Digits, dots and signs at the start of a word are among them.
    Symbol(char),
}

/// Reads tokens with one token of lookahead.
pub(super) struct JaasTokens<'a> {
    characters: Peekable<Chars<'a>>,
    line: usize,
    next: Option<JaasToken>,
    next_line: usize,
}

impl<'a> JaasTokens<'a> {
    pub(super) fn new(text: &'a str) -> JaasTokens<'a> {
        let mut tokens =
            JaasTokens { characters: text.chars().peekable(), line: 1, next: None, next_line: 1 };
        tokens.advance();
        tokens
    }

    /// The line of the next token, or of the end.
    pub(super) fn next_line(&self) -> usize {
        self.next_line
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next.is_none()
    }

    pub(super) fn next_is(&self, symbol: char) -> bool {
        self.next == Some(JaasToken::Symbol(symbol))
    }

    pub(super) fn take(&mut self) -> Option<JaasToken> {
        let token = self.next.take();
        self.advance();
        token
    }

    fn advance(&mut self) {
        self.skip_blanks_and_comments();
        self.next_line = self.line;
        self.next = match self.characters.next() {
            None => None,
            Some('"') => Some(JaasToken::Quoted(self.quoted())),
            Some(first) if begins_word(first) => {
                let mut word = String::from(first);
                while let Some(character) = self.characters.next_if(|next| continues_word(*next)) {
                    word.push(character);
                }
                Some(JaasToken::Word(word))
            }
            Some(other) => Some(JaasToken::Symbol(other)),
        };
    }

    fn skip_blanks_and_comments(&mut self) {
        while let Some(&next) = self.characters.peek() {
            match next {
                '\n' => {
                    self.line += 1;
                    self.characters.next();
                }
                '\0'..=' ' => _ = self.characters.next(),
                '/' => {
                    self.characters.next();
                    self.skip_comment();
                }
                _ => break,
            }
        }
    }

    /// A single slash is a comment to the end of the line, as two are.
    fn skip_comment(&mut self) {
        if self.characters.next_if_eq(&'*').is_none() {
            while self.characters.next_if(|next| !matches!(next, '\n' | '\r')).is_some() {}
            return;
        }
        let mut was_star = false;
        for character in self.characters.by_ref() {
            if was_star && character == '/' {
                return;
            }
            if character == '\n' {
                self.line += 1;
            }
            was_star = character == '*';
        }
    }

    /// The rest of a quoted text. A line break ends it.
    fn quoted(&mut self) -> String {
        let line = self.characters.clone().take(QUOTED_CAPACITY_MAX);
        let line = line.take_while(|next| !matches!(next, '\n' | '\r'));
        let mut text = String::with_capacity(line.map(char::len_utf8).sum());
        while let Some(character) = self.characters.next_if(|next| !matches!(next, '\n' | '\r')) {
            match character {
                '"' => break,
                '\\' => {
                    if let Some(escaped) = self.escaped() {
                        text.push(escaped);
                    }
                }
                other => text.push(other),
            }
        }
        text
    }

    fn escaped(&mut self) -> Option<char> {
        let character = self.characters.next()?;
        Some(match character {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '0'..='7' => {
                let digits = if character <= '3' { 3 } else { 2 };
                let mut number = character.to_digit(8)?;
                for _ in 1..digits {
                    let Some(next) = self.characters.next_if(|next| next.is_digit(8)) else { break };
                    number = number * 8 + next.to_digit(8)?;
                }
                char::from_u32(number)?
            }
            other => {
                if other == '\n' {
                    self.line += 1;
                }
                other
            }
        })
    }
}

fn begins_word(character: char) -> bool {
    character.is_ascii_alphabetic() || matches!(character, '$' | '_' | '*') || character >= '\u{a0}'
}

fn continues_word(character: char) -> bool {
    begins_word(character) || character.is_ascii_digit() || matches!(character, '.' | '-')
}
