//! Shapes and texts of a picture as SVG: colours, fonts, the width of words. The callers decide the layout.

use std::fmt::Write;

/// Height of a line of text, in pixels.
pub(super) const LINE_HEIGHT: f64 = 18.0;

const FONT_SIZE: f64 = 13.0;
const INK: &str = "#1f2937";
const STYLE: &str = "\
text{font-family:'Noto Sans','DejaVu Sans',Verdana,'Noto Sans CJK SC','WenQuanYi Micro Hei',sans-serif;font-size:13px;\
fill:#1f2937}.small{font-size:11px;fill:#4b5563}.strong{font-weight:bold}.light{fill:#ffffff}\
.mono{font-family:'DejaVu Sans Mono','Noto Sans Mono','WenQuanYi Micro Hei Mono',monospace}";

/// The role of a shape, which decides its colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// A Zebu server, or the normal case.
    Zebu,
    /// An Apache ZooKeeper server.
    Apache,
    /// A client.
    Client,
    /// A file or a disk.
    Disk,
    /// A failure.
    Failure,
    /// A frame without a fill.
    Frame,
}

impl Tone {
    /// The tone of a word in a source.
    pub(super) fn from_word(word: &str) -> Option<Tone> {
        Some(match word {
            "zebu" => Tone::Zebu,
            "apache" => Tone::Apache,
            "client" => Tone::Client,
            "disk" => Tone::Disk,
            "failure" => Tone::Failure,
            "frame" => Tone::Frame,
            _ => return None,
        })
    }

    fn colours(self) -> (&'static str, &'static str) {
        match self {
            Tone::Zebu => ("#dbeafe", "#2563eb"),
            Tone::Apache => ("#f3f4f6", "#6b7280"),
            Tone::Client => ("#dcfce7", "#16a34a"),
            Tone::Disk => ("#fef3c7", "#d97706"),
            Tone::Failure => ("#fee2e2", "#dc2626"),
            Tone::Frame => ("none", "#9ca3af"),
        }
    }
}

/// Where a text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid,
    Dashed,
    /// Red and dashed: what does not arrive.
    Lost,
}

/// A point, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A rectangle, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn centre(self) -> Point {
        Point { x: self.x + self.width / 2.0, y: self.y + self.height / 2.0 }
    }

    /// The point of the edge at which a line from the centre to `to` leaves.
    pub(super) fn edge_towards(self, to: Point) -> Point {
        let centre = self.centre();
        let (dx, dy) = (to.x - centre.x, to.y - centre.y);
        let reach = |half: f64, delta: f64| if delta.abs() < 0.01 { f64::MAX } else { half / delta.abs() };
        let share = reach(self.width / 2.0 + 2.0, dx).min(reach(self.height / 2.0 + 2.0, dy));
        Point { x: centre.x + dx * share, y: centre.y + dy * share }
    }
}

/// A picture that grows by shapes.
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    pub(super) fn new() -> Canvas {
        Canvas { body: String::new() }
    }

    /// The width of a text in the ordinary size. Letters of East Asia are as wide as high.
    pub(super) fn width_of(text: &str) -> f64 {
        let em = |letter: char| match letter {
            'i' | 'l' | 'j' | '.' | ',' | ':' | '|' | '\'' | ' ' => 0.36,
            'm' | 'w' | 'M' | 'W' | '@' => 0.92,
            letter if letter.is_uppercase() => 0.72,
            letter if u32::from(letter) >= 0x2e80 => 1.0,
            _ => 0.6,
        };
        text.chars().map(em).sum::<f64>() * FONT_SIZE
    }

    pub(super) fn rectangle(&mut self, area: Area, tone: Tone) {
        let (fill, stroke) = tone.colours();
        let dashes = if tone == Tone::Frame { " stroke-dasharray=\"6 4\"" } else { "" };
        let Area { x, y, width, height } = area;
        self.line_of(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"7\" \
             fill=\"{fill}\" stroke=\"{stroke}\" stroke-width=\"1.5\"{dashes}/>"
        ));
    }

    /// A text in a class of the style sheet; the y is that of its baseline.
    pub(super) fn text(&mut self, at: Point, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
        };
        self.line_of(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
            at.x,
            at.y,
            escape(text)
        ));
    }

    /// A text on a white ground, so that a line below it does not cross the letters.
    pub(super) fn label(&mut self, at: Point, text: &str) {
        let width = Canvas::width_of(text) * 0.86 + 6.0;
        self.line_of(format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"15\" fill=\"#ffffff\"/>",
            at.x - width / 2.0,
            at.y - 11.5
        ));
        self.text(at, Anchor::Middle, "small", text);
    }

    pub(super) fn line(&mut self, from: Point, to: Point, stroke: Stroke) {
        self.path(from, to, stroke, "");
    }

    pub(super) fn arrow(&mut self, from: Point, to: Point, stroke: Stroke) {
        let head = if stroke == Stroke::Lost { "lost" } else { "head" };
        self.path(from, to, stroke, &format!(" marker-end=\"url(#{head})\""));
    }

    pub(super) fn two_way(&mut self, from: Point, to: Point, stroke: Stroke) {
        self.path(from, to, stroke, " marker-start=\"url(#head)\" marker-end=\"url(#head)\"");
    }

    /// A curve to the right, from a row to another one.
    pub(super) fn hook(&mut self, from: Point, to: Point, depth: f64) {
        self.line_of(format_args!(
            "<path d=\"M{:.1} {:.1} C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}\" fill=\"none\" stroke=\"#7c3aed\" \
             stroke-width=\"1.4\" stroke-dasharray=\"5 3\" marker-end=\"url(#watch)\"/>",
            from.x,
            from.y,
            from.x + depth,
            from.y,
            to.x + depth,
            to.y,
            to.x,
            to.y
        ));
    }

    /// A cross of a lost message or a stopped server.
    pub(super) fn cross(&mut self, at: Point) {
        for (dx, dy) in [(6.0, 6.0), (6.0, -6.0)] {
            self.line_of(format_args!(
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#dc2626\" stroke-width=\"2.5\"/>",
                at.x - dx,
                at.y - dy,
                at.x + dx,
                at.y + dy
            ));
        }
    }

    /// The whole picture.
    pub(super) fn finish(self, width: f64, height: f64, title: &str) -> String {
        let title = escape(title);
        let marker = |id: &str, colour: &str| {
            format!(
                "<marker id=\"{id}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" \
                 markerHeight=\"7\" orient=\"auto-start-reverse\"><path d=\"M0 0 L10 5 L0 10 z\" \
                 fill=\"{colour}\"/></marker>"
            )
        };
        let markers = [marker("head", INK), marker("lost", "#dc2626"), marker("watch", "#7c3aed")].concat();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n<defs>{markers}</defs>\n\
             <rect x=\"0\" y=\"0\" width=\"{width:.0}\" height=\"{height:.0}\" rx=\"10\" fill=\"#ffffff\"/>\n\
             {}</svg>\n",
            self.body
        )
    }

    fn path(&mut self, from: Point, to: Point, stroke: Stroke, markers: &str) {
        let look = match stroke {
            Stroke::Solid => "stroke=\"#1f2937\"",
            Stroke::Dashed => "stroke=\"#6b7280\" stroke-dasharray=\"5 4\"",
            Stroke::Lost => "stroke=\"#dc2626\" stroke-dasharray=\"5 4\"",
        };
        self.line_of(format_args!(
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {look} stroke-width=\"1.4\"{markers}/>",
            from.x, from.y, to.x, to.y
        ));
    }

    fn line_of(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.body, "{element}").expect("writing to a String");
    }
}

/// A text as SVG has it.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
