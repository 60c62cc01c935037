//! Reads single variables: defaults, switches, secrets from files, and the errors of all of them.

use std::path::{Path, PathBuf};

use zebu_server::config::Environment;

use super::{ConfigLine, ContainerPlan, ContainerStyle, ContainerSystem};

/// The variables of one image.
pub(super) struct Variables<'a> {
    environment: &'a Environment,
    style: ContainerStyle,
    system: &'a dyn ContainerSystem,
    errors: Vec<String>,
    pub(super) warnings: Vec<String>,
    lines: Vec<ConfigLine>,
}

impl<'a> Variables<'a> {
    pub(super) fn read(
        environment: &'a Environment,
        style: ContainerStyle,
        system: &'a dyn ContainerSystem,
    ) -> Variables<'a> {
        Variables { environment, style, system, errors: Vec::new(), warnings: Vec::new(), lines: Vec::new() }
    }

    pub(super) fn error(&mut self, text: String) {
        self.errors.push(text);
    }

    /// The value of a variable that is set and not empty. Bitnami's variables may be in files.
    pub(super) fn get(&mut self, name: &str) -> Option<String> {
        if self.style == ContainerStyle::Bitnami
            && let Some(path) = self.environment.get(&format!("{name}_FILE")).filter(|path| !path.is_empty())
        {
            // As the shell does it: line ends at the end of the file are no part of the value.
            match self.system.read(path) {
                Ok(text) => return Some(text.trim_end_matches(['\n', '\r']).to_owned()),
                Err(why) => self.error(format!("{name}_FILE={path}: {why}")),
            }
        }
        self.environment.get(name).filter(|value| !value.is_empty()).map(str::to_owned)
    }

    /// The value, or a default.
    pub(super) fn get_or(&mut self, name: &str, default: &str) -> String {
        self.get(name).unwrap_or_else(|| default.to_owned())
    }

    /// A switch by Bitnami's rule: `yes`, `true` and `1` are on.
    pub(super) fn is_on(&mut self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| ["yes", "true", "1"].contains(&value.to_ascii_lowercase().as_str()))
    }

    /// All variables whose names begin with this.
    pub(super) fn with_prefix(&self, prefix: &str) -> Vec<(String, String)> {
        let named =
            self.environment.0.iter().filter(|(name, value)| name.starts_with(prefix) && !value.is_empty());
        named.map(|(name, value)| (name[prefix.len()..].to_owned(), value.clone())).collect()
    }

    /// A directory.
    pub(super) fn directory(&mut self, name: &str, default: &str) -> PathBuf {
        PathBuf::from(self.get_or(name, default))
    }

    /// Adds the line `key=value`. A value with a line end would become two lines.
    pub(super) fn set(&mut self, key: &str, name: &str, value: &str) {
        self.set_with(key, name, value, false);
    }

    /// Adds a line whose value no log may show. A backslash stays one.
    pub(super) fn set_secret(&mut self, key: &str, name: &str, value: &str) {
        self.set_with(key, name, &value.replace('\\', "\\\\"), true);
    }

    fn set_with(&mut self, key: &str, name: &str, value: &str, is_secret: bool) {
        if value.contains(['\n', '\r']) {
            return self.error(format!("{name} has a line end in its value"));
        }
        let line = ConfigLine { text: format!("{key}={value}"), is_secret };
        let before = self.lines.iter().position(|known| known.text.split('=').next() == Some(key));
        match before {
            Some(at) => self.lines[at] = line,
            None => self.lines.push(line),
        }
    }

    /// Adds `key=value` from a variable, or from its default.
    pub(super) fn copy(&mut self, key: &str, name: &str, default: &str) {
        let value = self.get_or(name, default);
        self.set(key, name, &value);
    }

    /// Adds `key=value` if the variable is set.
    pub(super) fn copy_if_set(&mut self, key: &str, name: &str) {
        if let Some(value) = self.get(name) {
            self.set(key, name, &value);
        }
    }

    /// Removes the line of a key.
    pub(super) fn unset(&mut self, key: &str) {
        self.lines.retain(|line| line.text.split('=').next() != Some(key));
    }

    /// Adds a line as it stands.
    pub(super) fn add_line(&mut self, text: &str) {
        let is_secret =
            text.split('=').next().is_some_and(|key| key.to_ascii_lowercase().contains("password"));
        self.lines.push(ConfigLine { text: text.to_owned(), is_secret });
    }

    /// A server id.
    pub(super) fn id(&mut self, name: &str, default: &str) -> String {
        let id = self.get_or(name, default);
        if id.parse::<i64>().is_err() {
            self.error(format!("{name}=\"{id}\" is not a server id; it is a number, for example 1"));
        }
        id
    }

    /// The `-D` words of a variable.
    pub(super) fn properties(&mut self, name: &str) -> Vec<String> {
        let words = self.get(name).unwrap_or_default();
        words.split_ascii_whitespace().filter_map(|word| word.strip_prefix("-D")).map(str::to_owned).collect()
    }

    /// A plan with the lines that were added so far.
    pub(super) fn plan(&mut self, conf_dir: &Path, data_dir: &Path) -> ContainerPlan {
        ContainerPlan {
            style: self.style,
            conf_dir: conf_dir.to_path_buf(),
            data_dir: data_dir.to_path_buf(),
            directories: Vec::new(),
            lines: std::mem::take(&mut self.lines),
            my_id: None,
            jaas: None,
            properties: Vec::new(),
            log_filter: None,
            warnings: Vec::new(),
        }
    }

    /// The plan, unless there were errors.
    pub(super) fn finish(self, mut plan: ContainerPlan) -> Result<ContainerPlan, Vec<String>> {
        plan.warnings = self.warnings;
        if self.errors.is_empty() { Ok(plan) } else { Err(self.errors) }
    }
}
