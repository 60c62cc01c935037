//! Pictures of boxes and arrows at given places: the sources `docs/pictures/*.boxes`.
//!
//! ```text
//! size WIDTH HEIGHT
//! title TEXT
//! box ID X Y WIDTH HEIGHT TONE TEXT|TEXT      a box with lines; TONE is a word of `Tone`
//! text X Y TEXT                                a centred text
//! arrow FROM TO [TEXT]                         also `dashed`, `both` and `lost`
//! ```

use anyhow::{Context, bail};

use super::canvas::{Anchor, Area, Canvas, LINE_HEIGHT, Point, Stroke, Tone};

struct Placed {
    id: String,
    area: Area,
}

/// Draws a source.
pub(super) fn draw(source: &str) -> anyhow::Result<String> {
    let mut canvas = Canvas::new();
    let mut placed: Vec<Placed> = Vec::new();
    let mut size = Point { x: 760.0, y: 300.0 };
    let mut title = "";
    for (index, line) in source.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let wrong = || format!("line {}: {line}", index + 1);
        match verb {
            "size" => {
                let (numbers, _) = numbers(rest, 2).with_context(wrong)?;
                size = Point { x: numbers[0], y: numbers[1] };
            }
            "title" => title = rest,
            "box" => placed.push(draw_box(&mut canvas, rest).with_context(wrong)?),
            "text" => {
                let (numbers, text) = numbers(rest, 2).with_context(wrong)?;
                canvas.text(Point { x: numbers[0], y: numbers[1] }, Anchor::Middle, "small", text);
            }
            "arrow" | "dashed" | "both" | "lost" => {
                draw_arrow(&mut canvas, &placed, verb, rest).with_context(wrong)?;
            }
            _ => bail!("{}: no such word", wrong()),
        }
    }
    Ok(canvas.finish(size.x, size.y, title))
}

fn numbers(text: &str, count: usize) -> anyhow::Result<(Vec<f64>, &str)> {
    let mut rest = text;
    let mut found = Vec::new();
    for _ in 0..count {
        let (number, after) = rest.split_once(' ').unwrap_or((rest, ""));
        found.push(number.parse().with_context(|| format!("{number:?} is no number"))?);
        rest = after;
    }
    Ok((found, rest))
}

fn draw_box(canvas: &mut Canvas, text: &str) -> anyhow::Result<Placed> {
    let (id, rest) = text.split_once(' ').context("a box needs an id")?;
    let (numbers, rest) = numbers(rest, 4)?;
    let (tone, text) = rest.split_once(' ').unwrap_or((rest, ""));
    let tone = Tone::from_word(tone).with_context(|| format!("{tone:?} is no tone"))?;
    let area = Area { x: numbers[0], y: numbers[1], width: numbers[2], height: numbers[3] };
    canvas.rectangle(area, tone);
    if tone == Tone::Frame {
        canvas.text(Point { x: area.x + 12.0, y: area.y + 18.0 }, Anchor::Start, "small", text);
        return Ok(Placed { id: id.to_owned(), area });
    }
    let lines: Vec<&str> = text.split('|').collect();
    let centre = area.centre();
    let mut y = centre.y + 4.5 - LINE_HEIGHT * (lines.len() as f64 - 1.0) / 2.0;
    for (index, line) in lines.iter().enumerate() {
        let class = if index == 0 { "strong" } else { "small" };
        canvas.text(Point { x: centre.x, y }, Anchor::Middle, class, line);
        y += LINE_HEIGHT;
    }
    Ok(Placed { id: id.to_owned(), area })
}

fn draw_arrow(canvas: &mut Canvas, placed: &[Placed], verb: &str, text: &str) -> anyhow::Result<()> {
    let mut words = text.splitn(3, ' ');
    let mut area = || {
        let id = words.next().unwrap_or_default();
        let found = placed.iter().find(|placed| placed.id == id);
        found.map(|placed| placed.area).with_context(|| format!("no box {id:?}"))
    };
    let (from, to) = (area()?, area()?);
    // Boxes above each other get a vertical arrow, boxes side by side a horizontal one.
    let aim = |from: Area, to: Area| {
        let (own, other) = (from.centre(), to.centre());
        if own.x > to.x && own.x < to.x + to.width {
            Point { x: own.x, y: other.y }
        } else if own.y > to.y && own.y < to.y + to.height {
            Point { x: other.x, y: own.y }
        } else {
            other
        }
    };
    let end = to.edge_towards(from.centre());
    let start = from.edge_towards(to.centre());
    let (start, end) = match aim(from, to) {
        aim if aim == to.centre() => (start, end),
        aim => {
            let start = from.edge_towards(aim);
            let upright = (aim.x - from.centre().x).abs() < 0.01;
            let end = if upright {
                let y = if aim.y > start.y { to.y - 2.0 } else { to.y + to.height + 2.0 };
                Point { x: start.x, y }
            } else {
                let x = if aim.x > start.x { to.x - 2.0 } else { to.x + to.width + 2.0 };
                Point { x, y: start.y }
            };
            (start, end)
        }
    };
    match verb {
        "both" => canvas.two_way(start, end, Stroke::Solid),
        "dashed" => canvas.arrow(start, end, Stroke::Dashed),
        "lost" => canvas.arrow(start, end, Stroke::Lost),
        _ => canvas.arrow(start, end, Stroke::Solid),
    }
    let middle = Point { x: (start.x + end.x) / 2.0, y: (start.y + end.y) / 2.0 + 4.0 };
    if verb == "lost" {
        canvas.cross(Point { x: middle.x, y: middle.y - 4.0 });
    }
    if let Some(label) = words.next() {
        canvas.label(middle, label);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_arrows_become_shapes() {
        let svg =
            draw("title A <b>\nbox a 10 10 80 40 zebu one|two\nbox b 200 10 80 40 client x\narrow a b go\n")
                .expect("a good source");
        assert!(svg.contains("<title>A &lt;b&gt;</title>"), "{svg}");
        assert_eq!(svg.matches("rx=\"7\"").count(), 2, "{svg}");
        assert!(svg.contains("x1=\"92.0\" y1=\"30.0\" x2=\"198.0\" y2=\"30.0\""), "{svg}");
        assert!(svg.contains(">go</text>"), "{svg}");
    }

    #[test]
    fn a_wrong_line_is_named() {
        for source in ["box a 1 2 3", "arrow a b", "size x y", "circle 1", "box a 1 2 3 4 pink x"] {
            let error = draw(source).expect_err(source);
            assert!(format!("{error:#}").contains("line 1"), "{error:#}");
        }
    }
}
