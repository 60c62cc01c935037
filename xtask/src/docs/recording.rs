//! Recordings of a terminal: the sources `docs/pictures/*.recording` as animated SVG.
//!
//! ```text
//! title TEXT
//! # a comment
//! $ COMMAND           typed, run by bash, its output shown
//! & COMMAND           run without being shown
//! ```
//!
//! The commands run in one bash in an empty directory, with `zebu` in the path. A viewer without animation
//! shows all lines at once, as one does whose user wants no motion.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::canvas::escape;
use super::{Generated, PICTURES, list};

/// Seconds for a whole recording.
const LIMIT_SECONDS: &str = "120";

/// Printed before the output of each command.
const MARK: &str = "@@recording";

const COLUMN: f64 = 7.85;
const ROW: f64 = 19.0;
const TOP: f64 = 52.0;

/// Records all sources.
pub(super) fn record_all(root: &Path, zebu: &Path) -> anyhow::Result<Vec<Generated>> {
    let mut files = Vec::new();
    for path in list(root, PICTURES)? {
        let Some(stem) = path.strip_suffix(".recording") else { continue };
        let source = fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        let outputs = run(&source, zebu).with_context(|| path.clone())?;
        files.push(Generated { path: format!("{stem}.svg"), text: draw(&source, &outputs) });
    }
    Ok(files)
}

fn commands(source: &str) -> impl Iterator<Item = (bool, &str)> {
    source.lines().filter_map(|line| {
        let shown = line.strip_prefix("$ ").map(|command| (true, command));
        shown.or_else(|| line.strip_prefix("& ").map(|command| (false, command)))
    })
}

/// Runs the commands; the lines that each of them printed.
fn run(source: &str, zebu: &Path) -> anyhow::Result<Vec<Vec<String>>> {
    let home = tempfile::tempdir()?;
    fs::create_dir(home.path().join("bin"))?;
    symlink(zebu, home.path().join("bin/zebu"))?;
    // The servers end with the recording, whether or not it succeeds.
    let mut script = String::from("exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n");
    for (_, command) in commands(source) {
        writeln!(script, "echo '{MARK}'\n{command}")?;
    }
    let path = format!("{}:{}", home.path().join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args([LIMIT_SECONDS, "bash", "-eu", "-c", &script])
        .current_dir(home.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .context("cannot run bash")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "a command failed: {text}");
    let mut outputs: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        if line == MARK {
            outputs.push(Vec::new());
        } else if let Some(last) = outputs.last_mut() {
            last.push(line.trim_end().to_owned());
        }
    }
    Ok(outputs)
}

/// A line on the screen: what it is, its text, and the second at which it appears.
struct Shown {
    class: &'static str,
    text: String,
    at: f64,
}

fn draw(source: &str, outputs: &[Vec<String>]) -> String {
    let title = source.lines().find_map(|line| line.strip_prefix("title ")).unwrap_or("recording");
    let mut lines = Vec::new();
    let mut at = 0.3;
    let mut comments = source.lines();
    for ((shown, command), output) in commands(source).zip(outputs) {
        // Comments in front of this command; those behind the last one are added at the end.
        for line in comments.by_ref() {
            if let Some(comment) = line.strip_prefix("# ") {
                at += 0.6;
                lines.push(Shown { class: "c", text: format!("# {comment}"), at });
            } else if line.strip_prefix("$ ").or_else(|| line.strip_prefix("& ")).is_some() {
                break;
            }
        }
        if !shown {
            continue;
        }
        at += 0.8;
        lines.push(Shown { class: "p", text: format!("$ {command}"), at });
        at += 0.6;
        for text in output.iter().filter(|text| !text.is_empty()) {
            lines.push(Shown { class: "o", text: text.clone(), at });
            at += 0.12;
        }
    }
    for comment in comments.filter_map(|line| line.strip_prefix("# ")) {
        at += 0.8;
        lines.push(Shown { class: "c", text: format!("# {comment}"), at });
    }
    render(title, &lines)
}

fn render(title: &str, lines: &[Shown]) -> String {
    let columns = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0).max(60) as f64;
    let (width, height) = (columns * COLUMN + 40.0, TOP + ROW * lines.len() as f64 + 12.0);
    let title = escape(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>\
         text{{font-family:'DejaVu Sans Mono','Noto Sans Mono',Menlo,Consolas,monospace;font-size:13px;fill:#e5e7eb;\
         white-space:pre}}.p{{fill:#86efac}}.c{{fill:#9ca3af}}.t{{fill:#9ca3af;font-size:12px}}\
         @keyframes show{{from{{opacity:0}}to{{opacity:1}}}}.l{{animation:show 0.15s both}}\
         @media (prefers-reduced-motion:reduce){{.l{{animation:none}}}}</style>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" rx=\"10\" fill=\"#111827\"/>\n"
    );
    for (index, colour) in ["#ef4444", "#f59e0b", "#22c55e"].iter().enumerate() {
        let x = 22.0 + 18.0 * index as f64;
        svg.push_str(&format!("<circle cx=\"{x:.0}\" cy=\"20\" r=\"5.5\" fill=\"{colour}\"/>\n"));
    }
    svg.push_str(&format!(
        "<text class=\"t\" x=\"{:.0}\" y=\"24\" text-anchor=\"middle\">{title}</text>\n",
        width / 2.0
    ));
    for (row, line) in lines.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        svg.push_str(&format!(
            "<text class=\"l {}\" style=\"animation-delay:{:.2}s\" x=\"20\" y=\"{y:.0}\" xml:space=\"preserve\">{}</text>\n",
            line.class,
            line.at,
            escape(&line.text)
        ));
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_outputs_become_lines() {
        let source = "title T\n# first\n$ echo a\n& sleep 0\n$ echo b\n";
        let svg = draw(source, &[vec!["a".into()], vec!["hidden".into()], vec!["b <c>".into()]]);
        for expected in ["# first", "$ echo a", "$ echo b", "b &lt;c&gt;"] {
            assert!(svg.contains(expected), "{expected}: {svg}");
        }
        assert!(!svg.contains("hidden") && !svg.contains("sleep"), "{svg}");
    }
}
