//! Pictures of znodes: the sources `docs/pictures/*.znodes`.
//!
//! ```text
//! title TEXT
//! NAME | KIND | TEXT [| watches ROW]
//!   CHILD | KIND | TEXT
//! ```
//!
//! Two blanks are one level. KIND is a word of `KINDS`, or empty. ROW is the number of a row, counted from 1.

use anyhow::{Context, ensure};

use super::canvas::{Anchor, Area, Canvas, Point, Stroke, Tone};

const ROW: f64 = 34.0;
const TOP: f64 = 16.0;
const LEFT: f64 = 18.0;
const INDENT: f64 = 26.0;
const GAP: f64 = 14.0;

/// Kinds of nodes, in both languages, and their colours.
const KINDS: [(&str, Tone); 10] = [
    ("persistent", Tone::Apache),
    ("持久", Tone::Apache),
    ("持久顺序", Tone::Apache),
    ("ephemeral", Tone::Client),
    ("临时", Tone::Client),
    ("临时顺序", Tone::Client),
    ("container", Tone::Disk),
    ("容器", Tone::Disk),
    ("sequential", Tone::Apache),
    ("ttl", Tone::Disk),
];

struct Node<'a> {
    level: usize,
    name: &'a str,
    kind: &'a str,
    tone: Option<Tone>,
    text: &'a str,
    /// The row of the node that it watches, from 0.
    watches: Option<usize>,
}

/// Draws a source.
pub(super) fn draw(source: &str) -> anyhow::Result<String> {
    let mut title = "";
    let mut nodes = Vec::new();
    for (index, line) in source.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_prefix("title ") {
            Some(text) => title = text,
            None => nodes.push(node(line).with_context(|| format!("line {}: {line}", index + 1))?),
        }
    }
    let rows = nodes.len();
    ensure!(
        nodes.iter().all(|node| node.watches.is_none_or(|row| row < rows)),
        "a watch of a row that is not there"
    );
    Ok(render(title, &nodes))
}

fn node(line: &str) -> anyhow::Result<Node<'_>> {
    let level = (line.len() - line.trim_start().len()) / 2;
    let mut parts = line.split('|').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let kind = parts.next().unwrap_or_default();
    let tone = KINDS.iter().find(|(word, _)| *word == kind).map(|(_, tone)| *tone);
    ensure!(kind.is_empty() || tone.is_some(), "{kind:?} is no kind of node");
    let text = parts.next().unwrap_or_default();
    let watches = match parts.next() {
        None => None,
        Some(words) => {
            let row = words.strip_prefix("watches ").and_then(|row| row.parse::<usize>().ok());
            Some(row.and_then(|row| row.checked_sub(1)).context("watches needs the number of a row")?)
        }
    };
    Ok(Node { level, name, kind, tone, text, watches })
}

fn name_width(name: &str) -> f64 {
    let columns: f64 = name.chars().map(|letter| if u32::from(letter) >= 0x2e80 { 13.0 } else { 7.9 }).sum();
    columns + 18.0
}

fn render(title: &str, nodes: &[Node<'_>]) -> String {
    let left = |node: &Node<'_>| LEFT + INDENT * node.level as f64;
    let names_end = nodes.iter().map(|node| left(node) + name_width(node.name)).fold(0.0, f64::max);
    let kinds_width = nodes.iter().map(|node| Canvas::width_of(node.kind)).fold(0.0, f64::max);
    let texts = names_end + GAP + if kinds_width > 0.0 { kinds_width + 4.0 + GAP } else { 0.0 };
    let text_end = |node: &Node<'_>| texts + Canvas::width_of(node.text);
    let texts_end = nodes.iter().map(text_end).fold(0.0, f64::max) + 6.0;
    let has_watches = nodes.iter().any(|node| node.watches.is_some());
    let width = texts_end + if has_watches { 64.0 } else { 16.0 };
    let middle = |row: usize| TOP + ROW * row as f64 + 13.0;

    let mut canvas = Canvas::new();
    for (row, node) in nodes.iter().enumerate() {
        let parent = nodes[..row].iter().rposition(|above| above.level < node.level);
        if let Some(parent) = parent {
            let x = left(&nodes[parent]) + 12.0;
            canvas.line(Point { x, y: middle(parent) + 13.0 }, Point { x, y: middle(row) }, Stroke::Solid);
            canvas.line(Point { x, y: middle(row) }, Point { x: left(node), y: middle(row) }, Stroke::Solid);
        }
    }
    for (row, node) in nodes.iter().enumerate() {
        let area = Area { x: left(node), y: middle(row) - 13.0, width: name_width(node.name), height: 26.0 };
        canvas.rectangle(area, node.tone.unwrap_or(Tone::Zebu));
        let baseline = middle(row) + 4.5;
        canvas.text(Point { x: area.x + 9.0, y: baseline }, Anchor::Start, "mono", node.name);
        canvas.text(Point { x: names_end + GAP, y: baseline }, Anchor::Start, "small", node.kind);
        canvas.text(Point { x: texts, y: baseline }, Anchor::Start, "", node.text);
        if let Some(watched) = node.watches {
            let distance = (row.abs_diff(watched) as f64).min(4.0);
            let from = Point { x: texts_end, y: middle(row) - 4.0 };
            canvas.hook(from, Point { x: texts_end, y: middle(watched) + 4.0 }, 18.0 + 14.0 * distance);
        }
    }
    canvas.finish(width.max(Canvas::width_of(title)), TOP + ROW * nodes.len() as f64 + 8.0, title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lines_and_watches_become_shapes() {
        let svg = draw(
            "title T\n/a | container |\n  b-1 | ephemeral | holder\n  b-2 | ephemeral | waits | watches 2\n",
        )
        .expect("a good source");
        assert_eq!(svg.matches("rx=\"7\"").count(), 3, "{svg}");
        assert_eq!(svg.matches("url(#watch)\"/>").count(), 1, "{svg}");
        assert!(svg.contains(">waits</text>"), "{svg}");
    }

    #[test]
    fn a_wrong_line_is_named() {
        for source in ["/a | pink | x", "/a | ephemeral | x | watches many", "/a | ephemeral | x | watches 9"]
        {
            draw(source).expect_err(source);
        }
    }
}
