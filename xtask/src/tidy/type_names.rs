//! Names of types: a name that is defined in many places cannot be looked up. Tests name their fixtures
//! freely.

use std::collections::BTreeMap;

use super::Violation;
use super::source::SourceFile;
use super::words::declared_type;

const DEFINITIONS_MAX: usize = 2;
const WHY: &str =
    "a type's name is unique in the workspace, or says what the type is about (LeaderStep, not Step)";

/// Names a library of the ecosystem or the wire gives, or that mean the same thing in each command.
const COMMON: [&str; 4] = ["Arguments", "Error", "Output", "Item"];

/// Checks how often each name is defined in shipped code.
pub(crate) fn check(files: &[SourceFile]) -> Vec<Violation> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_checked(&file.path)) {
        for (index, line) in file.shipped_code().lines().enumerate() {
            // An associated type is indented and belongs to its trait.
            let is_definition = !line.trim_start().starts_with("type ") || !line.starts_with(' ');
            if let Some(name) = declared_type(line).filter(|_| is_definition && begins_definition(line)) {
                places.entry(name.to_owned()).or_default().push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    let crowded = places
        .iter()
        .filter(|(name, places)| places.len() > DEFINITIONS_MAX && !COMMON.contains(&name.as_str()));
    crowded
        .map(|(name, places)| {
            let others = places[1..].join(", ");
            Violation::new(&*places[0], format!("a type named {name}, as in {others}"), WHY)
        })
        .collect()
}

/// A command is named as the user types it.
fn is_checked(path: &str) -> bool {
    path.starts_with("crates/") && !path.contains("/commands/")
}

fn begins_definition(line: &str) -> bool {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|character| character != ' ').trim_start(),
        None => line,
    };
    ["struct ", "enum ", "trait ", "type ", "union "].iter().any(|word| line.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> SourceFile {
        SourceFile::new(&format!("crates/x/src/{name}.rs"), text)
    }

    #[test]
    fn a_name_may_be_defined_twice() {
        let twice = [file("a", "pub(crate) struct Step;"), file("b", "enum Step {}")];
        assert_eq!(check(&twice), []);
        let thrice = [file("a", "struct Step;"), file("b", "enum Step {}"), file("c", "pub trait Step {}")];
        assert_eq!(check(&thrice).len(), 1);
    }

    #[test]
    fn uses_associated_types_and_tests_do_not_count() {
        let text = "impl X for Y {\n    type Step = u8;\n}\nlet x: Step = 1;\n#[cfg(test)]\nmod tests {\n    struct Step;\n}\n";
        assert_eq!(check(&[file("a", text), file("b", text), file("c", text)]), []);
    }
}
