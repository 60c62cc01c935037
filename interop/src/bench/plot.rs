//! Charts as SVG: bars for comparisons, lines for growth. Colours follow the light or dark theme of the page.
//! Each bar and point has its number.

use std::fmt::Write;

/// Room for the names of the rows, for the bars, and for figures behind them.
const NAMES: f64 = 150.0;
const BARS: f64 = 480.0;
const FIGURES: f64 = 90.0;
const BAR: f64 = 16.0;
const GAP: f64 = 14.0;
const HEAD: f64 = 56.0;

const STYLE: &str = "<style>\
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:15px;font-weight:600}.quiet{fill:#656d76}\
.a{fill:#bc4c00}.b{fill:#0969da}.c{fill:#1a7f37}\
.la{stroke:#bc4c00}.lb{stroke:#0969da}.lc{stroke:#1a7f37}.line{fill:none;stroke-width:2}\
.axis{stroke:#8c959f;stroke-width:1}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}\
.a{fill:#f0883e}.b{fill:#58a6ff}.c{fill:#3fb950}.la{stroke:#f0883e}.lb{stroke:#58a6ff}.lc{stroke:#3fb950}}\
</style>";

/// The classes of the series, in order.
const CLASSES: [&str; 3] = ["a", "b", "c"];

/// Rows of bars, one per series.
pub(crate) struct BarChart {
    pub(crate) title: String,
    pub(crate) series: Vec<String>,
    /// Name and a value for each series.
    pub(crate) rows: Vec<(String, Vec<f64>)>,
}

impl BarChart {
    pub(crate) fn svg(&self, show: impl Fn(f64) -> String) -> String {
        let most = self.rows.iter().flat_map(|(_, values)| values).copied().fold(0.0, f64::max).max(1e-9);
        let row_height = BAR * self.series.len() as f64 + GAP;
        let height = HEAD + row_height * self.rows.len() as f64;
        let mut svg = open(NAMES + BARS + FIGURES, height, &self.title, &self.series);
        for (row, (name, values)) in self.rows.iter().enumerate() {
            let top = HEAD + row_height * row as f64;
            let middle = top + BAR * values.len() as f64 / 2.0 + 4.0;
            text(&mut svg, NAMES - 8.0, middle, "end", name);
            for (index, value) in values.iter().enumerate() {
                let (y, width) = (top + BAR * index as f64, BARS * value / most);
                let class = CLASSES[index % CLASSES.len()];
                writeln!(
                    svg,
                    "<rect class=\"{class}\" x=\"{NAMES}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"2\"/>",
                    width.max(1.0),
                    BAR - 2.0
                )
                .expect(INTO_A_STRING);
                text(&mut svg, NAMES + width.max(1.0) + 6.0, y + 12.0, "start", &show(*value));
            }
        }
        svg + "</svg>\n"
    }
}

/// Lines over a logarithmic width.
pub(crate) struct LineChart {
    pub(crate) title: String,
    /// Names with points of increasing width.
    pub(crate) series: Vec<(String, Vec<(f64, f64)>)>,
}

const PLOT_HEIGHT: f64 = 240.0;
const FOOT: f64 = 34.0;

impl LineChart {
    pub(crate) fn svg(&self, show: impl Fn(f64) -> String) -> String {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let most = points().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.1;
        let least_x = points().map(|point| point.0).fold(f64::MAX, f64::min).max(1.0).log10();
        let most_x = points().map(|point| point.0).fold(1.0, f64::max).log10();
        let x = |value: f64| {
            40.0 + (BARS + NAMES - 40.0) * (value.log10() - least_x) / (most_x - least_x).max(1e-9)
        };
        let y = |value: f64| HEAD + PLOT_HEIGHT * (1.0 - value / most);
        let names: Vec<String> = self.series.iter().map(|(name, _)| name.clone()).collect();
        let mut svg = open(NAMES + BARS + FIGURES, HEAD + PLOT_HEIGHT + FOOT, &self.title, &names);
        let (bottom, right) = (y(0.0), NAMES + BARS + 10.0);
        writeln!(svg, "<line class=\"axis\" x1=\"30\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>")
            .expect(INTO_A_STRING);
        let mut counts: Vec<f64> = points().map(|point| point.0).collect();
        counts.sort_by(f64::total_cmp);
        counts.dedup();
        for count in counts {
            text(&mut svg, x(count), bottom + 18.0, "middle", &thousands(count));
        }
        for (index, (_, points)) in self.series.iter().enumerate() {
            let class = CLASSES[index % CLASSES.len()];
            let path: Vec<String> =
                points.iter().map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1))).collect();
            writeln!(svg, "<polyline class=\"line l{class}\" points=\"{}\"/>", path.join(" "))
                .expect(INTO_A_STRING);
            for point in points {
                let (x, y) = (x(point.0), y(point.1));
                writeln!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>")
                    .expect(INTO_A_STRING);
                text(&mut svg, x + 6.0, y - 6.0, "start", &show(point.1));
            }
        }
        svg + "</svg>\n"
    }
}

const INTO_A_STRING: &str = "a string takes everything";

/// The head of a chart: what it shows and what the colours mean.
fn open(width: f64, height: f64, title: &str, series: &[String]) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-label=\"{}\">\n{STYLE}\n",
        escaped(title)
    );
    writeln!(svg, "<text class=\"title\" x=\"8\" y=\"20\">{}</text>", escaped(title)).expect(INTO_A_STRING);
    let mut x = 8.0;
    for (index, name) in series.iter().enumerate() {
        let class = CLASSES[index % CLASSES.len()];
        writeln!(svg, "<rect class=\"{class}\" x=\"{x}\" y=\"31\" width=\"11\" height=\"11\" rx=\"2\"/>")
            .expect(INTO_A_STRING);
        text(&mut svg, x + 16.0, 41.0, "start", name);
        x += 40.0 + 7.5 * name.chars().count() as f64;
    }
    svg
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>", escaped(words))
        .expect(INTO_A_STRING);
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

/// 5000000 as `5 million`.
fn thousands(count: f64) -> String {
    match count {
        large if large >= 1e6 => format!("{} million", large / 1e6),
        large if large >= 1e3 => format!("{} thousand", large / 1e3),
        small => small.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_value_says() {
        let rows = vec![("get < set".to_owned(), vec![20.0, 5.0])];
        let series = vec!["Apache".to_owned(), "Zebu".to_owned()];
        let svg = BarChart { title: "CPU".to_owned(), series, rows }.svg(|value| format!("{value:.1}"));
        assert!(svg.contains("width=\"480.0\"") && svg.contains("width=\"120.0\""), "{svg}");
        assert!(svg.contains("get &lt; set") && svg.contains(">5.0<") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_line_has_a_point_for_every_count() {
        let series = vec![("get".to_owned(), vec![(1e3, 1.0), (1e5, 1.5), (5e6, 2.0)])];
        let svg = LineChart { title: "CPU".to_owned(), series }.svg(|value| format!("{value:.1}"));
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("5 million") && svg.contains("100 thousand"));
    }
}
