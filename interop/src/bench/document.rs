//! The part of docs/benchmarks.md that is made by a run, between two marks, and the plots beside it. Whatever
//! people wrote around it stays.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::contender::Name;
use super::measured::Measured;
use super::plot::{BarChart, LineChart};
use super::table::figure;
use super::{ceiling, fixed_rate, flat_out, occasions, scaling, snapshots, start, targets, throughput};

const BEGIN: &str = "<!-- What follows is written by `cargo xtask bench --full`. -->";
const END: &str = "<!-- Here ends what is written by `cargo xtask bench --full`. -->";

/// Puts the figures into the document, and the plots into `plots` beside it.
pub(crate) fn write(measured: &Measured, document: &Path) -> Result<()> {
    let directory = document.parent().unwrap_or(Path::new(".")).join("plots");
    fs::create_dir_all(&directory).with_context(|| format!("make {}", directory.display()))?;
    for (name, svg) in plots(measured) {
        let path = directory.join(name);
        fs::write(&path, svg).with_context(|| format!("write {}", path.display()))?;
    }
    let old = fs::read_to_string(document).with_context(|| format!("read {}", document.display()))?;
    let new = replaced(&old, &body(measured))
        .with_context(|| format!("{} does not have the two marks {BEGIN} and {END}", document.display()))?;
    fs::write(document, new).with_context(|| format!("write {}", document.display()))
}

/// `old` with another text between the marks.
fn replaced(old: &str, text: &str) -> Option<String> {
    let begin = old.find(BEGIN)? + BEGIN.len();
    let end = begin + old[begin..].find(END)?;
    Some(format!("{}\n\n{}\n\n{}", &old[..begin], text.trim(), &old[end..]))
}

fn body(measured: &Measured) -> String {
    let mut text = head(measured);
    let mut section = |title: &str, words: &str, parts: &[String]| {
        if parts.iter().any(|part| !part.is_empty()) {
            write!(text, "\n### {title}\n\n{words}\n").expect("a string takes everything");
            parts.iter().for_each(|part| write!(text, "\n{part}").expect("a string takes everything"));
        }
    };
    let plot = |name: &str, words: &str| format!("![{words}](plots/{name}.svg)\n");
    section("Targets", TARGETS, &[targets::table(&targets::targets(measured)).to_string()]);
    if !measured.loads.is_empty() {
        let parts = [
            plot("cpu-standalone", "CPU per operation, one server"),
            plot("operations-standalone", "operations per second, one server"),
            throughput::table(&measured.loads).to_string(),
            throughput::latency_table(&measured.loads).to_string(),
        ];
        section("One server", STANDALONE, &parts);
    }
    if !measured.ensembles.is_empty() {
        let parts = [
            plot("cpu-three", "CPU per operation, three servers"),
            plot("operations-three", "operations per second, three servers"),
            throughput::table(&measured.ensembles).to_string(),
            throughput::latency_table(&measured.ensembles).to_string(),
        ];
        section("Three servers", ENSEMBLES, &parts);
    }
    if !measured.fixed_rates.is_empty() {
        section("An equal rate", FIXED_RATE, &[fixed_rate::table(&measured.fixed_rates).to_string()]);
    }
    if !measured.ceiling.is_empty() {
        section("Against the ceiling", CEILING, &[ceiling::table(&measured.ceiling).to_string()]);
    }
    if let Some(scaling) = &measured.scaling {
        let left_out = scaling.left_out.iter().map(|what| format!("- Left out: {what}.\n")).collect();
        let parts = [
            plot("scaling-nodes", "CPU per operation and nodes"),
            scaling::table("nodes", &scaling.by_nodes).to_string(),
            plot("scaling-sessions", "CPU per operation and sessions"),
            scaling::table("sessions", &scaling.by_sessions).to_string(),
            scaling::growth_table(&scaling.growth).to_string(),
            left_out,
        ];
        section("Size", SCALING, &parts);
    }
    if !measured.starts.is_empty() {
        let parts =
            [start::filling_table(&measured.filling).to_string(), start::table(&measured.starts).to_string()];
        section("Start and memory", STARTS, &parts);
    }
    let mut parts = Vec::new();
    if !measured.snapshots.is_empty() {
        parts.push(snapshots::table(&measured.snapshots).to_string());
    }
    if !measured.flat_out.is_empty() {
        parts.push(flat_out::table(&measured.flat_out).to_string());
    }
    section("While snapshots are written", SNAPSHOTS, &parts);
    if let Some(outcomes) = &measured.occasions {
        section("Occasions", OCCASIONS, &[occasions::table(outcomes).to_string()]);
    }
    text
}

fn head(measured: &Measured) -> String {
    let Measured { machine, versions, load_average_after, failures, .. } = measured;
    let mut text = format!(
        "## Figures of {}\n\n{versions}.\nOn {} cores ({}), {} MiB of memory, {}, Linux {}. Load average before: {}; \
         after: {load_average_after}.\n",
        machine.day,
        machine.cores,
        machine.processor,
        machine.memory_mib,
        machine.file_system,
        machine.kernel,
        machine.load_average
    );
    for failure in failures {
        writeln!(text, "\nNot measured: {failure}.").expect("a string takes everything");
    }
    text
}

const TARGETS: &str = "Times better than Apache in the same run, unless a unit says something else. *reached* names the \
higher of the two that holds.";
const STANDALONE: &str = "Medians of the rounds, ratios above 1 in favour of Zebu. *worst second, of average* is the second \
with fewest answers; *generator's share* is the load's part of all CPU time.";
const ENSEMBLES: &str = "Three servers of one kind on the same machine and disk, sessions spread over all three, the leader \
too; CPU and memory are the sum of the three processes.";
const FIXED_RATE: &str = "Half of what Apache does at most with 32 sessions and 32 requests in flight, sent by 8 sessions \
whether or not answers come; latency from when each request was due. *fdatasync alone* overwrites 512 bytes of a file \
on the same disk, before each round; *machine stands still* is the part of the time in which a thread per core that only \
looks at the clock is held up for half a millisecond or longer, just as often.";
const CEILING: &str =
    "A server that decodes nothing and answers every frame with a constant of the size of a real reply.";
const SCALING: &str = "By nodes: 32 sessions with 32 requests in flight on one server whose tree grows, all leaves used. \
By sessions: each waits for its answer. The last table is the growth to the largest size: creates in a pipeline of 500, \
and reads of another session meanwhile, which show every pause that is not the disk's. Without snapshots.";
const STARTS: &str = "From the launch of the process until `srvr` is answered, medians, files in the page cache; bytes per \
node beyond its name of 12 and its data of 100 bytes.";
const SNAPSHOTS: &str = "First at a fixed rate of sets and of gets, then as much as the server can (half sets, half gets, \
32 x 32), each with and without snapshots of the large tree.";
const OCCASIONS: &str = "Medians; each on a server that has been warmed up, idle sessions on a fresh one. *Sends alone*: a packet of the \
same size for each of as many connections, by as many threads as there are processors, and nothing else.";

/// File names and contents.
fn plots(measured: &Measured) -> Vec<(&'static str, String)> {
    let mut plots = Vec::new();
    let places = [
        ("one server", &measured.loads, "cpu-standalone.svg", "operations-standalone.svg"),
        ("three servers", &measured.ensembles, "cpu-three.svg", "operations-three.svg"),
    ];
    for (place, outcomes, cpu, operations) in places {
        let pipelined: Vec<&throughput::Outcome> =
            outcomes.iter().filter(|outcome| outcome.in_flight > 1 && outcome.data_bytes == 100).collect();
        if pipelined.is_empty() {
            continue;
        }
        let title = format!("CPU microseconds per operation, 32 sessions x 32 in flight, {place}");
        plots.push((cpu, bars(title, &pipelined, |side| side.cpu_us_per_operation)));
        let title = format!("Operations per second, 32 sessions x 32 in flight, {place}");
        plots.push((operations, bars(title, &pipelined, |side| side.operations_per_second)));
    }
    if let Some(scaling) = &measured.scaling {
        let title = |what: &str| format!("Zebu: CPU microseconds per operation by number of {what}");
        plots.push(("scaling-nodes.svg", lines(title("nodes"), &scaling.by_nodes)));
        plots.push(("scaling-sessions.svg", lines(title("sessions"), &scaling.by_sessions)));
    }
    plots
}

fn bars(title: String, outcomes: &[&throughput::Outcome], of: impl Fn(&super::side::Side) -> f64) -> String {
    let row = |outcome: &&throughput::Outcome| {
        (outcome.name().to_owned(), vec![of(&outcome.apache), of(&outcome.zebu)])
    };
    let series = [Name::Apache, Name::Zebu].map(|name| name.to_string()).to_vec();
    BarChart { title, series, rows: outcomes.iter().map(row).collect() }.svg(figure)
}

fn lines(title: String, outcomes: &[scaling::Outcome]) -> String {
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for outcome in outcomes.iter().filter(|outcome| outcome.server == Name::Zebu) {
        let name = outcome.mix.trim_end_matches("=1");
        let point = (outcome.count as f64, outcome.side.cpu_us_per_operation);
        match series.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push(point),
            None => series.push((name.to_owned(), vec![point])),
        }
    }
    LineChart { title, series }.svg(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let old = format!("# A\n{BEGIN}\nold\n{END}\nmore\n");
        let new = replaced(&old, "new\n").unwrap();
        assert_eq!(new, format!("# A\n{BEGIN}\n\nnew\n\n{END}\nmore\n"));
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("# A\n", "new"), None);
    }
}
