//! Scenarios in `testdata/scripts`: what comes above the line of dashes is run, what comes below is what has
//! to be shown. With `UPDATE=1` in the environment the files are written anew; look at the difference before
//! you keep it.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;

use zebu_sim::run_script;

const LINE: &str = "----\n";

#[test]
fn scripts_show_what_they_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scripts");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10);
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (script, expected) = text.split_once(LINE).unwrap_or((&text, ""));
        let shown = run_script(script).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(shown.ends_with("holds\n"), "{}: {shown}", file.display());
        if update {
            std::fs::write(&file, format!("{script}{LINE}{shown}")).unwrap();
        } else if shown != expected {
            println!("{} shows\n{shown}instead of\n{expected}", file.display());
            wrong.push(file);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}: run with UPDATE=1 if this is meant");
}
