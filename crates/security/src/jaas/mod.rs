//! JAAS login configuration files, as the JDK parses them.

mod login;
mod token;

use token::{JaasToken, JaasTokens};
use zeroize::Zeroizing;

use crate::secret::SecretText;

pub use login::{DigestLogin, JaasLogin, KerberosLogin};

/// Bytes of a file.
pub const JAAS_BYTES_MAX: usize = 1 << 20;

/// The file or one of its sections is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct JaasError {
    /// Line, from 1.
    pub line: usize,
    /// The problem and the remedy. It never contains a value.
    pub problem: String,
}

impl JaasError {
    fn new(line: usize, problem: impl Into<String>) -> JaasError {
        JaasError { line, problem: problem.into() }
    }
}

/// The control flag of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JaasFlag {
    /// `required`
    Required,
    /// `requisite`
    Requisite,
    /// `sufficient`
    Sufficient,
    /// `optional`
    Optional,
}

/// A login module with its options.
#[derive(Clone, Debug)]
pub struct JaasModule {
    /// Java class.
    pub class: String,
    /// Control flag.
    pub flag: JaasFlag,
    /// Keys and values in file order; the last value of a key counts.
    options: Vec<(String, SecretText)>,
    line: usize,
}

impl JaasModule {
    /// The value of an option. Any value may be a password.
    pub fn option(&self, key: &str) -> Option<&SecretText> {
        self.options().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All options. Keys are unique.
    pub fn options(&self) -> impl Iterator<Item = (&str, &SecretText)> {
        self.options.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// A section, which is one login context.
#[derive(Clone, Debug)]
pub struct JaasSection {
    /// Name.
    pub name: String,
    /// Modules; at least one.
    pub modules: Vec<JaasModule>,
}

/// A parsed file.
#[derive(Clone, Debug, Default)]
pub struct JaasFile {
    sections: Vec<JaasSection>,
}

impl JaasFile {
    /// Parses a file. `property` looks up a system property.
    pub fn parse(content: &[u8], property: &dyn Fn(&str) -> Option<String>) -> Result<JaasFile, JaasError> {
        if content.len() > JAAS_BYTES_MAX {
            return Err(JaasError::new(1, format!("the file has more than {JAAS_BYTES_MAX} bytes")));
        }
        let text = String::from_utf8_lossy(content);
        let mut parser = JaasParser { tokens: JaasTokens::new(&text), property };
        let mut sections: Vec<JaasSection> = Vec::new();
        while !parser.tokens.is_at_end() {
            let line = parser.tokens.next_line();
            let section = parser.section()?;
            if sections.iter().any(|known| known.name == section.name) {
                return Err(JaasError::new(line, format!("section {} stands twice", section.name)));
            }
            sections.push(section);
        }
        Ok(JaasFile { sections })
    }

    /// A section with at least one module. An empty section counts as absent.
    pub fn section(&self, name: &str) -> Option<&JaasSection> {
        self.sections.iter().find(|section| section.name == name && !section.modules.is_empty())
    }

    /// The names of all sections, for messages about a missing one.
    pub fn section_names(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.name.as_str())
    }
}

struct JaasParser<'a> {
    tokens: JaasTokens<'a>,
    property: &'a dyn Fn(&str) -> Option<String>,
}

impl JaasParser<'_> {
    fn section(&mut self) -> Result<JaasSection, JaasError> {
        let name = self.text("the name of a section")?;
        self.symbol('{')?;
        let mut modules = Vec::new();
        while !self.tokens.next_is('}') {
            modules.push(self.module()?);
        }
        self.symbol('}')?;
        self.symbol(';')?;
        Ok(JaasSection { name, modules })
    }

    fn module(&mut self) -> Result<JaasModule, JaasError> {
        let line = self.tokens.next_line();
        let class = self.text("the class of a login module")?;
        if class.is_empty() {
            return Err(JaasError::new(line, "the class of a login module is empty"));
        }
        let flag_line = self.tokens.next_line();
        let flag = match self.text("a control flag")?.to_ascii_lowercase().as_str() {
            "required" => JaasFlag::Required,
            "requisite" => JaasFlag::Requisite,
            "sufficient" => JaasFlag::Sufficient,
            "optional" => JaasFlag::Optional,
            _ => {
                let problem = "the control flag is none of required, requisite, sufficient and optional";
                return Err(JaasError::new(flag_line, problem));
            }
        };
        let mut options: Vec<(String, SecretText)> = Vec::new();
        while !self.tokens.next_is(';') {
            let key = self.text("an option or ;")?;
            self.symbol('=')?;
            let line = self.tokens.next_line();
            let value = Zeroizing::new(self.text("the value of an option, in quotes")?);
            let value = self.expand(&key, &value, line)?;
            match options.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = value,
                None => options.push((key, value)),
            }
        }
        self.symbol(';')?;
        Ok(JaasModule { class, flag, options, line })
    }

    /// A word or a quoted text.
    fn text(&mut self, what: &str) -> Result<String, JaasError> {
        let line = self.tokens.next_line();
        match self.tokens.take() {
            Some(JaasToken::Word(text) | JaasToken::Quoted(text)) => Ok(text),
            Some(JaasToken::Symbol(symbol)) => {
                Err(JaasError::new(line, format!("{what} is expected instead of {symbol:?}")))
            }
            None => Err(JaasError::new(line, format!("{what} is expected, but the file ends"))),
        }
    }

    fn symbol(&mut self, symbol: char) -> Result<(), JaasError> {
        let line = self.tokens.next_line();
        match self.tokens.take() {
            Some(JaasToken::Symbol(found)) if found == symbol => Ok(()),
            Some(_) => Err(JaasError::new(line, format!("{symbol:?} is expected"))),
            None => Err(JaasError::new(line, format!("{symbol:?} is expected, but the file ends"))),
        }
    }

    /// Replaces `${name}` by system properties. `${{...}}` and an open `${` stay.
    fn expand(&self, key: &str, value: &str, line: usize) -> Result<SecretText, JaasError> {
        // A buffer that grows would leave copies of a password behind.
        let mut out = String::with_capacity(value.len());
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let end =
                if after.starts_with('{') { after.find("}}").map(|at| at + 1) } else { after.find('}') };
            let Some(end) = end else { break };
            out.push_str(before);
            let name = &after[..end];
            if name.starts_with('{') {
                out.push_str("${");
                out.push_str(&after[..=end]);
            } else if name == "/" {
                out.push('/');
            } else {
                let property = (self.property)(name);
                let unknown = || JaasError::new(line, format!("option {key}: property {name} is not set"));
                out.push_str(&property.ok_or_else(unknown)?);
            }
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        if out.is_empty() && !value.is_empty() {
            return Err(JaasError::new(line, format!("option {key}: its property is empty")));
        }
        Ok(SecretText::new(out))
    }
}
