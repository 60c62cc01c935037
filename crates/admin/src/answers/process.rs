//! `environment`, `system_properties`, `initial_configuration` and the trace mask. Secrets are hidden.

use zebu_server::views::{EnvironmentView, ServerViews};

use super::{AnswerError, Entries, entry};
use crate::json::Json;
use crate::query;

/// The text in place of a secret.
const HIDDEN: &str = "(hidden)";

pub(super) fn environment() -> Entries {
    let values = EnvironmentView::collect().0;
    values.into_iter().map(|(name, value)| entry(name, Json::Text(value))).collect()
}

/// The settings in force as Java properties, and those of the process that Java would show.
pub(super) fn system_properties(views: &ServerViews) -> Entries {
    let mut values: Vec<(String, String)> = EnvironmentView::collect()
        .0
        .into_iter()
        .filter(|(name, value)| {
            let is_property = name.starts_with("os.") && !name.starts_with("os.memory.");
            (is_property || name.starts_with("user.") || *name == "java.io.tmpdir") && value != "<NA>"
        })
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    for (key, value) in &views.config().written_settings.0 {
        let value = if is_secret(key) { HIDDEN.to_owned() } else { value.clone() };
        values.push((format!("zookeeper.{key}"), value));
    }
    values.sort();
    values.into_iter().map(|(name, value)| (name, Json::Text(value))).collect()
}

pub(super) fn initial_configuration(views: &ServerViews) -> Entries {
    let text: String = views.config().original_text.0.split_inclusive('\n').map(hide_secret).collect();
    vec![entry("initial_configuration", Json::Text(text))]
}

pub(super) fn trace_mask(views: &ServerViews) -> Entries {
    vec![entry("tracemask", Json::Integer(views.trace_mask()))]
}

pub(super) fn set_trace_mask(views: &ServerViews, query: Option<&str>) -> Result<Entries, AnswerError> {
    let wanted = "setTraceMask requires long traceMask argument";
    let Some(value) = query::first_value(query, "traceMask") else {
        return Err(AnswerError::Reported(wanted.to_owned()));
    };
    match value.parse::<i64>() {
        Ok(mask) => {
            views.set_trace_mask(mask);
            Ok(trace_mask(views))
        }
        Err(_) => Err(AnswerError::Reported(format!("{wanted}, got {value}"))),
    }
}

/// Whether the value of this key must not be shown.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_path = key.ends_with("passwordpath");
    !is_path && ["password", "superdigest", "secret", "credential"].iter().any(|word| key.contains(word))
}

/// A line of the file, without the value of a secret.
fn hide_secret(line: &str) -> String {
    let Some(end) = line.find(['=', ':']) else { return line.to_owned() };
    if !is_secret(&line[..end]) {
        return line.to_owned();
    }
    let new_line = if line.ends_with('\n') { "\n" } else { "" };
    format!("{}{HIDDEN}{new_line}", &line[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden() {
        for (line, shown) in [
            ("tickTime=2000\n", "tickTime=2000\n"),
            ("ssl.keyStore.password = abc\n", "ssl.keyStore.password =(hidden)\n"),
            (
                "DigestAuthenticationProvider.superDigest=super:xyz",
                "DigestAuthenticationProvider.superDigest=(hidden)",
            ),
            ("ssl.keyStore.passwordPath=/a\n", "ssl.keyStore.passwordPath=/a\n"),
            ("# password: none\n", "# password:(hidden)\n"),
        ] {
            assert_eq!(hide_secret(line), shown);
        }
    }
}
