//! Two builds of Zebu under the same load, in turn. The table has the change of each figure from the older
//! build to the newer one.

use std::path::Path;

use anyhow::Result;
use tokio::runtime::Runtime;
use zebu_bench::Report;

use super::contender::Contender;
use super::ensembles;
use super::middle::median;
use super::side::Side;
use super::table::{Table, figure};
use super::throughput::{self, Outcome, Plan};

/// Runs the loads on one server and on three servers of each build, and prints both tables.
pub(super) fn run(plan: &Plan, before: &Path, after: &Path, runtime: &Runtime) -> Result<()> {
    let contenders = [Contender::zebu(before)?, Contender::zebu(after)?];
    let one = throughput::run(plan, &contenders, runtime)?;
    println!("\nOne server; the first figure is of {}.\n\n{}", before.display(), table(&one));
    let plan = Plan { scenarios: ensembles::scenarios(), ..plan.clone() };
    let three = ensembles::run(&plan, &contenders, runtime)?;
    println!("\nThree servers.\n\n{}", table(&three));
    Ok(())
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new([
        "load",
        "sessions",
        "bytes",
        "CPU us/op before",
        "after",
        "change",
        "rounds differ by",
        "operations/s before",
        "after",
        "change",
    ]);
    for outcome in outcomes {
        let (before, after) = (&outcome.apache, &outcome.zebu);
        let cpu = |report: &Report| report.cpu_us_per_operation.unwrap_or_default();
        table.row([
            outcome.name().to_owned(),
            outcome.shape(),
            outcome.data_bytes.to_string(),
            figure(before.cpu_us_per_operation),
            figure(after.cpu_us_per_operation),
            signed_percent(change(before, after, cpu)),
            format!("{:.1} %", 100.0 * spread(before.rounds.iter().map(cpu))),
            format!("{:.0}", before.operations_per_second),
            format!("{:.0}", after.operations_per_second),
            signed_percent(change(before, after, |report| report.operations_per_second)),
        ]);
    }
    table
}

/// The median change between a round of the older build and the round of the newer one that followed it.
/// The machine's speed changes slowly, so that it touches both rounds of a pair alike.
fn change(before: &Side, after: &Side, figure: impl Fn(&Report) -> f64) -> f64 {
    let pairs = before.rounds.iter().zip(&after.rounds);
    median(pairs.map(|(before, after)| figure(after) / figure(before).max(1e-9) - 1.0))
}

/// The distance between the largest and the smallest value, as a part of the median.
fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::MIN, f64::max);
    let smallest = values.clone().fold(f64::MAX, f64::min);
    (largest - smallest) / median(values).max(1e-9)
}

fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_relative_to_the_median() {
        assert_eq!(spread([9.0, 10.0, 12.0].into_iter()), 0.3);
        assert_eq!(signed_percent(0.031), "+3.1 %");
        assert_eq!(signed_percent(-0.2), "-20.0 %");
    }
}
