//! Prints the table of families, as `docs/metrics.md` has it.

#[expect(clippy::print_stdout, reason = "the table is the output of this program")]
fn main() {
    print!("{}", zebu_metrics::family_table());
}
