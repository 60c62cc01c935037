//! What Zebu wants to reach, beside what was measured: a floor that must hold and a goal.

use std::fmt;

use super::contender::Name;
use super::measured::Measured;
use super::side::Side;
use super::table::Table;
use super::throughput;

/// Which way is good, and in what unit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// Times better than Apache; more is better.
    Times,
    /// A part of one; more is better.
    Share,
    /// Bytes; fewer are better.
    Bytes,
    /// Milliseconds beyond something; fewer are better.
    MillisecondsBeyond,
    /// A part of something that should be small.
    AtMost,
}

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The goal.
    Goal,
    /// The floor.
    Floor,
    /// Not even the floor.
    Missed,
    /// Nothing was measured.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Goal => "goal",
            Verdict::Floor => "floor",
            Verdict::Missed => "**no**",
            Verdict::Unknown => "not measured",
        })
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    what: String,
    scale: Scale,
    floor: Option<f64>,
    goal: Option<f64>,
    measured: Option<f64>,
}

impl Target {
    fn new(what: impl Into<String>, scale: Scale, floor: f64, goal: f64, measured: Option<f64>) -> Target {
        Target { what: what.into(), scale, floor: Some(floor), goal: Some(goal), measured }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let Some(measured) = self.measured else { return Verdict::Unknown };
        let reaches = |bound: Option<f64>| {
            bound.is_some_and(|bound| match self.scale {
                Scale::Times | Scale::Share => measured >= bound,
                Scale::Bytes | Scale::MillisecondsBeyond | Scale::AtMost => measured <= bound,
            })
        };
        match (reaches(self.goal), reaches(self.floor)) {
            (true, _) => Verdict::Goal,
            (false, true) => Verdict::Floor,
            (false, false) => Verdict::Missed,
        }
    }

    fn show(&self, value: Option<f64>) -> String {
        let Some(value) = value else { return "-".to_owned() };
        match self.scale {
            Scale::Times => format!("{value:.1}x"),
            Scale::Share | Scale::AtMost => format!("{:.0} %", 100.0 * value),
            Scale::Bytes => format!("{value:.0} bytes"),
            Scale::MillisecondsBeyond => format!("{value:+.2} ms"),
        }
    }
}

/// All targets with what was measured for them.
pub(crate) fn targets(measured: &Measured) -> Vec<Target> {
    let mut targets = pipelined(measured);
    targets.extend(one_at_a_time(measured));
    targets.extend(latencies(measured));
    targets.extend(large_trees(measured));
    targets.extend(occasions(measured));
    targets.push(generator(measured));
    targets
}

fn times(outcome: Option<&throughput::Outcome>, of: impl Fn(&Side) -> f64) -> Option<f64> {
    outcome.map(|outcome| of(&outcome.apache) / of(&outcome.zebu).max(1e-9))
}

fn pipelined(measured: &Measured) -> Vec<Target> {
    let cpu = |side: &Side| side.cpu_us_per_operation;
    let mut targets = Vec::new();
    for (mix, floor, goal) in [("get", 8.0, 15.0), ("set", 5.0, 8.0), ("create", 6.0, 10.0)] {
        let what = format!("server CPU per {mix}, 32 x 32, standalone");
        targets.push(Target::new(what, Scale::Times, floor, goal, times(measured.load(mix, 32), cpu)));
    }
    for mix in ["get", "set", "create", "ephemeral", "get=9,set=1"] {
        let what = format!("server CPU per {mix}, 32 x 32, three servers, sum");
        targets.push(Target::new(what, Scale::Times, 6.0, 10.0, times(measured.ensemble(mix, 32), cpu)));
    }
    let share =
        measured.ceiling.iter().find(|outcome| outcome.in_flight > 1).map(super::ceiling::Outcome::share);
    let what = "get, 32 x 32, operations per CPU-second of the echo server's";
    targets.push(Target::new(what, Scale::Share, 0.5, 0.8, share));
    targets
}

fn one_at_a_time(measured: &Measured) -> Vec<Target> {
    let (cpu, p50) = (|side: &Side| side.cpu_us_per_operation, |side: &Side| side.p50_us);
    let mut targets = Vec::new();
    for mix in ["get", "set"] {
        let places = [("standalone", measured.load(mix, 1)), ("three servers", measured.ensemble(mix, 1))];
        for (place, outcome) in places {
            let what = |figure: &str| format!("{figure} of a {mix}, one at a time, {place}");
            let of = |what, floor, measured| Target {
                what,
                scale: Scale::Times,
                floor: Some(floor),
                goal: None,
                measured,
            };
            targets.push(of(what("CPU"), 4.0, times(outcome, cpu)));
            targets.push(of(what("median latency"), 2.0, times(outcome, p50)));
        }
    }
    let echo = measured.ceiling.iter().find(|outcome| outcome.in_flight == 1);
    let echo = echo.map(super::ceiling::Outcome::echo_p50_us);
    let sync = measured.fixed_rates.iter().find(|outcome| outcome.mix == "set");
    let sync = sync.map(super::fixed_rate::Outcome::bare_p50_us);
    let beyond = |mix, least: Option<f64>| {
        Some(measured.load(mix, 1)?.zebu.p50_us / least.filter(|least| *least > 0.0)? - 1.0)
    };
    let of = |what: &str, measured| Target {
        what: what.to_owned(),
        scale: Scale::AtMost,
        floor: None,
        goal: Some(0.3),
        measured,
    };
    let both = echo.zip(sync).map(|(echo, sync)| echo + sync);
    targets.push(of("median of a get, one at a time, beyond the echo server's", beyond("get", echo)));
    targets.push(of("median of a set, one at a time, beyond echo and one fdatasync", beyond("set", both)));
    targets
}

fn latencies(measured: &Measured) -> Vec<Target> {
    let of = |mix: &str| measured.fixed_rates.iter().find(|outcome| outcome.mix == mix);
    let reads = of("get").map(|outcome| outcome.apache.p99_us / outcome.zebu.p99_us.max(1e-9));
    let writes = of("set").map(|outcome| (outcome.zebu.p99_us - outcome.bare_p99_us()) / 1000.0);
    vec![
        Target::new("p99 of reads at half of Apache's maximum", Scale::Times, 4.0, 10.0, reads),
        Target::new(
            "p99 of writes at half of Apache's maximum, beyond fdatasync's p99",
            Scale::MillisecondsBeyond,
            1.0,
            0.3,
            writes,
        ),
    ]
}

fn large_trees(measured: &Measured) -> Vec<Target> {
    let find = |server, files| {
        measured.starts.iter().find(move |start| start.server == server && start.files_of == files)
    };
    let quicker = |files| Some(find(Name::Apache, files)?.seconds()? / find(Name::Zebu, files)?.seconds()?);
    let leaf = find(Name::Zebu, Name::Zebu).and_then(super::start::Outcome::bytes_per_leaf);
    let even = measured.flat_out.iter().find(|outcome| outcome.server == Name::Zebu);
    let leaves = measured.filling.first().map_or(1_000_000, |filling| filling.leaves);
    let start = |whose| format!("start with {leaves} nodes, files of {whose}");
    vec![
        Target::new(
            format!("memory per leaf of {leaves}, beyond name and data"),
            Scale::Bytes,
            120.0,
            60.0,
            leaf,
        ),
        Target::new(start(Name::Apache), Scale::Times, 4.0, 10.0, quicker(Name::Apache)),
        Target::new(start(Name::Zebu), Scale::Times, 4.0, 10.0, quicker(Name::Zebu)),
        Target::new(
            format!("worst second while snapshots of {leaves} nodes are written, of the average"),
            Scale::Share,
            0.7,
            0.95,
            even.map(super::flat_out::Outcome::worst_second_share),
        ),
    ]
}

fn occasions(measured: &Measured) -> Vec<Target> {
    let times = |of: fn(&super::occasions::Outcome) -> f64| {
        measured.occasions.as_ref().map(|both| of(&both.apache) / of(&both.zebu).max(1e-3))
    };
    vec![
        Target::new(
            "many sessions connecting at once",
            Scale::Times,
            3.0,
            10.0,
            times(super::occasions::Outcome::storm_ms),
        ),
        Target::new(
            "one change, until all watchers were told",
            Scale::Times,
            3.0,
            8.0,
            times(super::occasions::Outcome::fan_out_ms),
        ),
        idle("CPU of idle sessions", times(super::occasions::Outcome::idle_cpu_ms)),
        idle("memory of idle sessions", times(super::occasions::Outcome::idle_mib)),
    ]
}

/// The goal is that only the kernel's sockets remain, which is no ratio.
fn idle(what: &str, measured: Option<f64>) -> Target {
    Target { what: what.to_owned(), scale: Scale::Times, floor: Some(10.0), goal: None, measured }
}

/// The load must not be what is measured.
fn generator(measured: &Measured) -> Target {
    let worst = |most: Option<f64>, outcome: &throughput::Outcome| {
        let of = outcome.apache.generator_us_per_operation / outcome.apache.cpu_us_per_operation.max(1e-9);
        Some(most.map_or(of, |most| most.max(of)))
    };
    Target {
        what: "CPU of the load generator when it drives Apache, of Apache's, worst load".to_owned(),
        scale: Scale::AtMost,
        floor: Some(0.5),
        goal: None,
        measured: measured.loads.iter().chain(&measured.ensembles).fold(None, worst),
    }
}

/// All of them.
pub(crate) fn table(targets: &[Target]) -> Table {
    let mut table = Table::new(["target", "floor", "goal", "measured", "reached"]);
    for target in targets {
        table.row([
            target.what.clone(),
            target.show(target.floor),
            target.show(target.goal),
            target.show(target.measured),
            target.verdict().to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(scale: Scale, floor: f64, goal: f64, measured: Option<f64>) -> Verdict {
        Target::new("x", scale, floor, goal, measured).verdict()
    }

    #[test]
    fn more_is_better_or_worse() {
        assert_eq!(verdict(Scale::Times, 4.0, 10.0, Some(10.0)), Verdict::Goal);
        assert_eq!(verdict(Scale::Times, 4.0, 10.0, Some(9.9)), Verdict::Floor);
        assert_eq!(verdict(Scale::Share, 0.7, 0.95, Some(0.5)), Verdict::Missed);
        assert_eq!(verdict(Scale::Bytes, 120.0, 60.0, Some(100.0)), Verdict::Floor);
        assert_eq!(verdict(Scale::MillisecondsBeyond, 1.0, 0.3, Some(-0.1)), Verdict::Goal);
        assert_eq!(verdict(Scale::AtMost, 0.5, 0.3, None), Verdict::Unknown);
    }

    #[test]
    fn a_bound_that_is_not_set_is_not_reached() {
        let target = Target {
            what: String::new(),
            scale: Scale::AtMost,
            floor: None,
            goal: Some(0.3),
            measured: Some(0.4),
        };
        assert_eq!(target.verdict(), Verdict::Missed);
        assert_eq!(
            (target.show(target.floor), target.show(target.measured)),
            ("-".to_owned(), "40 %".to_owned())
        );
    }
}
