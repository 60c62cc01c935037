//! Kerberos names, `auth_to_local` rules and the ids of scheme `sasl`.
//!
//! A name to which no rule applies has no id. ZooKeeper takes the client's own wish as id in this case.

use std::fmt;

use regex::Regex;

/// The reason why a name has no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// The name has not the shape `service[/host][@realm]`.
    #[error("the name is not of the form service[/host][@realm]")]
    Shape,
    /// No rule applies.
    #[error("no rule of auth_to_local applies to the name")]
    NoRule,
    /// A rule produced a name with a slash or an at sign.
    #[error("a rule of auth_to_local produced a name with / or @")]
    NotSimple,
}

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KerberosName {
    /// First component, or the whole text of a DIGEST-MD5 user.
    pub service: String,
    /// Second component.
    pub host: Option<String>,
    /// Realm.
    pub realm: Option<String>,
}

impl KerberosName {
    /// Parses a name. A text without `@` is one component, whatever it contains.
    pub fn parse(text: &str) -> Result<KerberosName, PrincipalError> {
        if text.is_empty() {
            return Err(PrincipalError::Shape);
        }
        let Some((name, realm)) = text.split_once('@') else {
            return Ok(KerberosName { service: text.to_owned(), host: None, realm: None });
        };
        let (service, host) = match name.split_once('/') {
            Some((service, host)) => (service, Some(host)),
            None => (name, None),
        };
        let is_component = |part: &str| !part.is_empty() && !part.contains(['/', '@']);
        if !is_component(service) || !is_component(realm) || !host.is_none_or(is_component) {
            return Err(PrincipalError::Shape);
        }
        let (host, realm) = (host.map(str::to_owned), Some(realm.to_owned()));
        Ok(KerberosName { service: service.to_owned(), host, realm })
    }
}

impl fmt::Display for KerberosName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.service)?;
        if let Some(host) = &self.host {
            write!(formatter, "/{host}")?;
        }
        match &self.realm {
            Some(realm) => write!(formatter, "@{realm}"),
            None => Ok(()),
        }
    }
}

/// Whether a text is a valid id of a `sasl` ACL entry.
pub fn is_sasl_id(text: &str) -> bool {
    KerberosName::parse(text).is_ok()
}

/// The parts of a name that stay in the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// The part stays.
    Keep,
    /// The part is removed: `kerberos.removeHostFromPrincipal`, `kerberos.removeRealmFromPrincipal`.
    Remove,
}

/// The text of `security.auth_to_local` is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule {position} of auth_to_local, \"{rule}\": {problem}")]
pub struct RuleError {
    position: usize,
    rule: String,
    problem: String,
}

/// Rules from Kerberos names to ids. The default is Java's, without a default realm.
#[derive(Clone, Debug)]
pub struct PrincipalRules {
    text: String,
    rules: Vec<Rule>,
    default_realm: Option<String>,
    host: NamePart,
    realm: NamePart,
}

#[derive(Clone, Debug)]
enum Rule {
    Default,
    Pattern(PatternRule),
}

#[derive(Clone, Debug)]
struct PatternRule {
    components: usize,
    format: String,
    matches: Option<Regex>,
    substitution: Option<Substitution>,
}

#[derive(Clone, Debug)]
struct Substitution {
    from: Regex,
    to: Vec<ReplacementPiece>,
    replaces_all: bool,
}

#[derive(Clone, Debug)]
enum ReplacementPiece {
    Text(String),
    Group(usize),
}

impl Default for PrincipalRules {
    fn default() -> PrincipalRules {
        let (host, realm) = (NamePart::Keep, NamePart::Keep);
        PrincipalRules {
            text: "DEFAULT".to_owned(),
            rules: vec![Rule::Default],
            default_realm: None,
            host,
            realm,
        }
    }
}

/// Rules of one text are equal.
impl PartialEq for PrincipalRules {
    fn eq(&self, other: &PrincipalRules) -> bool {
        (&self.text, &self.default_realm, self.host, self.realm)
            == (&other.text, &other.default_realm, other.host, other.realm)
    }
}

impl PrincipalRules {
    /// Parses `security.auth_to_local`. `default_realm` is that of krb5.conf.
    pub fn parse(
        text: &str,
        default_realm: Option<&str>,
        host: NamePart,
        realm: NamePart,
    ) -> Result<PrincipalRules, RuleError> {
        let mut rules = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let position = rules.len() + 1;
            let error =
                |problem: String| RuleError { position, rule: rest.chars().take(80).collect(), problem };
            let (rule, after) = parse_rule(rest).map_err(error)?;
            rules.push(rule);
            rest = after.trim_start();
        }
        let default_realm = default_realm.map(str::to_owned);
        Ok(PrincipalRules { text: text.to_owned(), rules, default_realm, host, realm })
    }

    /// The id of an authenticated name.
    pub fn id_of(&self, name: &str) -> Result<String, PrincipalError> {
        let name = KerberosName::parse(name)?;
        let mut id = self.short_name(&name)?;
        if let (Some(host), NamePart::Keep) = (&name.host, self.host) {
            id.push('/');
            id.push_str(host);
        }
        if let (Some(realm), NamePart::Keep) = (&name.realm, self.realm) {
            id.push('@');
            id.push_str(realm);
        }
        Ok(id)
    }

    fn short_name(&self, name: &KerberosName) -> Result<String, PrincipalError> {
        let Some(realm) = &name.realm else { return Ok(name.service.clone()) };
        let mut parameters = vec![realm.as_str(), name.service.as_str()];
        parameters.extend(name.host.as_deref());
        let apply = |rule: &Rule| match rule {
            Rule::Default => (self.default_realm.as_ref() == Some(realm)).then(|| name.service.clone()),
            Rule::Pattern(rule) => rule.apply(&parameters),
        };
        let short = self.rules.iter().find_map(apply).ok_or(PrincipalError::NoRule)?;
        if short.is_empty() || short.contains(['/', '@']) {
            return Err(PrincipalError::NotSimple);
        }
        Ok(short)
    }
}

impl PatternRule {
    fn apply(&self, parameters: &[&str]) -> Option<String> {
        if parameters.len() != self.components + 1 {
            return None;
        }
        let base = fill_format(&self.format, parameters);
        if self.matches.as_ref().is_some_and(|pattern| !pattern.is_match(&base)) {
            return None;
        }
        Some(match &self.substitution {
            None => base,
            Some(substitution) => substitution.apply(&base),
        })
    }
}

impl Substitution {
    fn apply(&self, text: &str) -> String {
        let replace = |captures: &regex::Captures<'_>| {
            let piece = |piece: &ReplacementPiece| match piece {
                ReplacementPiece::Text(text) => text.clone(),
                ReplacementPiece::Group(index) => {
                    captures.get(*index).map_or(String::new(), |group| group.as_str().to_owned())
                }
            };
            self.to.iter().map(piece).collect::<String>()
        };
        if self.replaces_all {
            self.from.replace_all(text, replace).into_owned()
        } else {
            self.from.replace(text, replace).into_owned()
        }
    }
}

/// Replaces `$0` (realm), `$1` and `$2`. The parser has checked the numbers.
fn fill_format(format: &str, parameters: &[&str]) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let index: Option<usize> = after[..digits].parse().ok();
        out.push_str(index.and_then(|index| parameters.get(index)).copied().unwrap_or_default());
        rest = &after[digits..];
    }
    out + rest
}

/// Parses one rule and returns the text after it.
fn parse_rule(text: &str) -> Result<(Rule, &str), String> {
    if let Some(rest) = text.strip_prefix("DEFAULT") {
        return Ok((Rule::Default, rest));
    }
    let head = text.strip_prefix("RULE:[").ok_or("neither DEFAULT nor RULE:[n:format]")?;
    let (head, mut rest) = head.split_once(']').ok_or("] is missing")?;
    let (count, format) = head.split_once(':').ok_or("[n:format] has no colon")?;
    let components: usize = count.parse().map_err(|_| "[n:format] has no number of components".to_owned())?;
    check_format(format, components)?;
    let mut matches = None;
    if let Some(inner) = rest.strip_prefix('(') {
        let (pattern, after) = inner.split_once(')').ok_or(") is missing")?;
        matches = Some(compile(&format!("^(?:{pattern})$"))?);
        rest = after;
    }
    let mut substitution = None;
    if let Some(inner) = rest.strip_prefix("s/") {
        let (from, inner) = inner.split_once('/').ok_or("s/from/to/ has no second /")?;
        let (to, after) = inner.split_once('/').ok_or("s/from/to/ has no third /")?;
        let from = compile(from)?;
        let to = parse_replacement(to, from.captures_len())?;
        let after_flag = after.strip_prefix('g');
        substitution = Some(Substitution { from, to, replaces_all: after_flag.is_some() });
        rest = after_flag.unwrap_or(after);
    }
    Ok((Rule::Pattern(PatternRule { components, format: format.to_owned(), matches, substitution }), rest))
}

fn compile(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern)
        .map_err(|_| format!("\"{pattern}\" is no pattern, or uses look-around or back references"))
}

fn check_format(format: &str, components: usize) -> Result<(), String> {
    for part in format.split('$').skip(1) {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        match part[..digits].parse::<usize>() {
            Ok(index) if index <= components => {}
            _ => return Err(format!("${} names no component", &part[..digits])),
        }
    }
    Ok(())
}

/// Reads a replacement of Java: `$1` is a group, a backslash takes the next character as it is.
fn parse_replacement(text: &str, groups: usize) -> Result<Vec<ReplacementPiece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => literal.push(characters.next().ok_or("the replacement ends with a backslash")?),
            '$' => {
                let digit = |next: Option<&char>| next.and_then(|next| next.to_digit(10));
                let first = digit(characters.peek()).ok_or("$ in the replacement needs a number")?;
                let mut group = first as usize;
                characters.next();
                if group >= groups {
                    return Err(format!("the replacement names group {group}, which does not exist"));
                }
                // Further digits belong to the number as long as such a group exists.
                while let Some(next) = digit(characters.peek()) {
                    let longer = group * 10 + next as usize;
                    if longer >= groups {
                        break;
                    }
                    group = longer;
                    characters.next();
                }
                pieces.push(ReplacementPiece::Text(std::mem::take(&mut literal)));
                pieces.push(ReplacementPiece::Group(group));
            }
            other => literal.push(other),
        }
    }
    pieces.push(ReplacementPiece::Text(literal));
    Ok(pieces)
}
