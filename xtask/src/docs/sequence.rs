//! Sequence diagrams: the sources `docs/pictures/*.sequence`.
//!
//! ```text
//! title TEXT
//! actor ID TONE NAME
//! A -> B TEXT          a message
//! A -x B TEXT          a message that does not arrive
//! A ~> B TEXT          a message that arrives late, or an event
//! note A TEXT          a remark at an actor
//! stop A TEXT          the actor ends
//! break TEXT           a line through all actors
//! ```

use anyhow::{Context, bail};

use super::canvas::{Anchor, Area, Canvas, Point, Stroke, Tone};

const TOP: f64 = 16.0;
const HEAD_HEIGHT: f64 = 32.0;
const STEP: f64 = 34.0;
const MARGIN: f64 = 20.0;

struct Actor<'a> {
    id: &'a str,
    tone: Tone,
    name: &'a str,
    /// Its line, in pixels from the left.
    x: f64,
    /// Where its line ends if it stops.
    end: Option<f64>,
}

enum Step<'a> {
    Message { from: usize, to: usize, stroke: Stroke, text: &'a str },
    Note { actor: usize, text: &'a str },
    Stop { actor: usize, text: &'a str },
    Break { text: &'a str },
}

/// Draws a source.
pub(super) fn draw(source: &str) -> anyhow::Result<String> {
    let mut title = "";
    let mut actors: Vec<Actor<'_>> = Vec::new();
    let mut steps = Vec::new();
    for (index, line) in source.lines().enumerate() {
        let line = line.trim();
        let wrong = || format!("line {}: {line}", index + 1);
        match line.split_once(' ') {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some(("title", text)) => title = text,
            Some(("actor", rest)) => {
                let mut words = rest.splitn(3, ' ');
                let (id, tone) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                let tone = Tone::from_word(tone).with_context(wrong)?;
                let name = words.next().with_context(wrong)?;
                actors.push(Actor { id, tone, name, x: 0.0, end: None });
            }
            Some(("break", text)) => steps.push(Step::Break { text }),
            Some(_) => steps.push(step(&actors, line).with_context(wrong)?),
            None => bail!("{}: no such word", wrong()),
        }
    }
    let width = place(&mut actors, &steps);
    Ok(render(title, actors, &steps, width))
}

fn step<'a>(actors: &[Actor<'a>], line: &'a str) -> anyhow::Result<Step<'a>> {
    let number =
        |id: &str| actors.iter().position(|actor| actor.id == id).with_context(|| format!("no actor {id:?}"));
    let mut words = line.splitn(3, ' ');
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let rest = words.next().unwrap_or_default();
    match first {
        "note" => return Ok(Step::Note { actor: number(second)?, text: rest }),
        "stop" => return Ok(Step::Stop { actor: number(second)?, text: rest }),
        _ => {}
    }
    let stroke = match second {
        "->" => Stroke::Solid,
        "-x" => Stroke::Lost,
        "~>" => Stroke::Dashed,
        _ => bail!("{second:?} is no arrow"),
    };
    let (to, text) = rest.split_once(' ').unwrap_or((rest, ""));
    Ok(Step::Message { from: number(first)?, to: number(to)?, stroke, text })
}

/// Places the actors so that each text fits between its ends; gives the width of the picture.
fn place(actors: &mut [Actor<'_>], steps: &[Step<'_>]) -> f64 {
    let half = |name: &str| Canvas::width_of(name) / 2.0 + 14.0;
    for index in 0..actors.len() {
        let mut x = match index.checked_sub(1).map(|before| &actors[before]) {
            None => MARGIN + half(actors[0].name),
            Some(before) => before.x + half(before.name) + half(actors[index].name) + 24.0,
        };
        for step in steps {
            let Step::Message { from, to, text, .. } = step else { continue };
            let (left, right) = (*from.min(to), *from.max(to));
            if right == index && left < right {
                x = x.max(actors[left].x + Canvas::width_of(text) * 0.86 + 30.0);
            }
        }
        for step in steps {
            let (Step::Note { actor, text } | Step::Stop { actor, text }) = step else { continue };
            // A remark may stand over both neighbours' gaps, not over their lines.
            let reach = note_width(text) / 2.0 + 8.0;
            if *actor == index && index > 0 {
                x = x.max(actors[index - 1].x + reach);
            } else if *actor == index {
                x = x.max(MARGIN / 2.0 + reach);
            } else if *actor + 1 == index {
                x = x.max(actors[*actor].x + reach);
            }
        }
        actors[index].x = x;
    }
    let last = actors.last().map_or(MARGIN, |actor| actor.x + half(actor.name) + MARGIN);
    let notes = steps.iter().map(|step| match step {
        Step::Note { actor, text } | Step::Stop { actor, text } => {
            actors[*actor].x + note_width(text) / 2.0 + MARGIN
        }
        Step::Break { text } => Canvas::width_of(text) + 2.0 * MARGIN,
        Step::Message { .. } => 0.0,
    });
    notes.fold(last, f64::max)
}

fn note_width(text: &str) -> f64 {
    text.split('|').map(Canvas::width_of).fold(0.0, f64::max) * 0.86 + 18.0
}

fn note_height(text: &str) -> f64 {
    8.0 + 16.0 * text.split('|').count() as f64
}

fn height_of(step: &Step<'_>) -> f64 {
    match step {
        Step::Message { .. } | Step::Break { .. } => STEP,
        Step::Note { text, .. } | Step::Stop { text, .. } => note_height(text) + 12.0,
    }
}

fn render(title: &str, mut actors: Vec<Actor<'_>>, steps: &[Step<'_>], width: f64) -> String {
    let first = TOP + HEAD_HEIGHT + 12.0;
    let mut y = first;
    for step in steps {
        if let Step::Stop { actor, text } = step {
            actors[*actor].end = Some(y + note_height(text) / 2.0);
        }
        y += height_of(step);
    }
    let bottom = y + 4.0;
    let mut canvas = Canvas::new();
    for actor in &actors {
        let half = Canvas::width_of(actor.name) / 2.0 + 12.0;
        let area = Area { x: actor.x - half, y: TOP, width: 2.0 * half, height: HEAD_HEIGHT };
        canvas.rectangle(area, actor.tone);
        let text = Point { x: actor.x, y: TOP + 21.0 };
        canvas.text(text, Anchor::Middle, "strong", actor.name);
        let top = Point { x: actor.x, y: TOP + HEAD_HEIGHT };
        canvas.line(top, Point { x: actor.x, y: actor.end.unwrap_or(bottom) }, Stroke::Dashed);
    }
    y = first;
    for step in steps {
        render_step(&mut canvas, &actors, step, y, width);
        y += height_of(step);
    }
    canvas.finish(width, bottom + 12.0, title)
}

fn render_step(canvas: &mut Canvas, actors: &[Actor<'_>], step: &Step<'_>, y: f64, width: f64) {
    match step {
        Step::Message { from, to, stroke, text } => {
            let (from, to) = (actors[*from].x, actors[*to].x);
            let line = y + 22.0;
            let gap = if to > from { 3.0 } else { -3.0 };
            let start = Point { x: from + gap, y: line };
            // A lost message ends in the middle, with a cross.
            let end = match stroke {
                Stroke::Lost => Point { x: f64::midpoint(from, to), y: line },
                Stroke::Solid | Stroke::Dashed => Point { x: to - gap, y: line },
            };
            canvas.arrow(start, end, *stroke);
            if *stroke == Stroke::Lost {
                canvas.cross(end);
            }
            // The cross of a lost message needs room below its text.
            let above = if *stroke == Stroke::Lost { 10.0 } else { 7.0 };
            let label = Point { x: f64::midpoint(from, to), y: line - above };
            canvas.text(label, Anchor::Middle, "small", text);
        }
        Step::Note { actor, text } => render_note(canvas, actors[*actor].x, y, text, Tone::Disk),
        Step::Stop { actor, text } => render_note(canvas, actors[*actor].x, y, text, Tone::Failure),
        Step::Break { text } => {
            let line = y + STEP / 2.0;
            canvas.line(
                Point { x: MARGIN / 2.0, y: line },
                Point { x: width - MARGIN / 2.0, y: line },
                Stroke::Dashed,
            );
            canvas.label(Point { x: width / 2.0, y: line + 4.0 }, text);
        }
    }
}

fn render_note(canvas: &mut Canvas, x: f64, y: f64, text: &str, tone: Tone) {
    let (width, height) = (note_width(text), note_height(text));
    canvas.rectangle(Area { x: x - width / 2.0, y, width, height }, tone);
    for (index, line) in text.split('|').enumerate() {
        let baseline = y + 17.0 + 16.0 * index as f64;
        canvas.text(Point { x, y: baseline }, Anchor::Middle, "small", line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_notes_and_ends_become_shapes() {
        let source = "title T\nactor a client A\nactor b zebu B\na -> b create\nb -x a reply\nnote a waits\nstop b dies\nbreak later\n";
        let svg = draw(source).expect("a good source");
        for expected in [">create</text>", ">waits</text>", ">dies</text>", ">later</text>", "url(#lost)"] {
            assert!(svg.contains(expected), "{expected}: {svg}");
        }
    }

    #[test]
    fn long_texts_push_the_actors_apart() {
        let width = |text: &str| {
            let source = format!("actor a client A\nactor b zebu B\na -> b {text}\n");
            let svg = draw(&source).expect("a good source");
            svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok())
        };
        assert!(width(&"long ".repeat(30)) > width("short"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for source in ["actor a pink A", "a -> b x", "nothing", "note z x"] {
            let error = draw(source).expect_err(source);
            assert!(format!("{error:#}").contains("line 1"), "{error:#}");
        }
    }
}
