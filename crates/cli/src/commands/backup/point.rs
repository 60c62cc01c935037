//! A point in the history, as the command line names it, and the state there.

use clap::Args;
use jiff::Timestamp;
use zebu_backup::core::plan::{Plan, PlanError, Point, plan};
use zebu_backup::core::replay::{RebuiltState, rebuild};
use zebu_proto::Zxid;

use super::location::{OpenedBackup, failure, hash_seed};
use super::progress::{BytesRead, DigestRule};
use crate::offline::{Failure, Screen, time};

/// The point of a command that needs one state.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PointArguments {
    /// The last transaction that is not later than this time: 2026-11-18T12:00:00Z, or milliseconds since
    /// 1970
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "to_zxid")]
    to_time: Option<i64>,
    /// This transaction, in hexadecimal
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    to_zxid: Option<Zxid>,
}

impl PointArguments {
    /// The point; the end of the backup without an argument.
    pub(super) fn point(self) -> Point {
        match (self.to_time, self.to_zxid) {
            (Some(time_ms), _) => Point::Time(time_ms),
            (None, Some(zxid)) => Point::Zxid(zxid),
            (None, None) => Point::Latest,
        }
    }
}

/// Reads a time with its zone, or milliseconds since 1970.
pub(super) fn parse_time(text: &str) -> Result<i64, String> {
    if let Ok(milliseconds) = text.parse::<i64>() {
        return Ok(milliseconds);
    }
    let time: Timestamp = text
        .parse()
        .map_err(|error| format!("{error}; write 2026-11-18T12:00:00Z or milliseconds since 1970"))?;
    Ok(time.as_millisecond())
}

/// Reads a zxid in hexadecimal, with 0x or without.
pub(super) fn parse_zxid(text: &str) -> Result<Zxid, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match i64::from_str_radix(digits, 16) {
        Ok(zxid) if zxid >= 0 => Ok(Zxid(zxid)),
        Ok(_) | Err(_) => Err("a zxid is a hexadecimal number, as 0x100000010".to_owned()),
    }
}

/// Reads a zxid, a time, or `latest`.
pub(super) fn parse_point(text: &str) -> Result<Point, String> {
    if text == "latest" {
        return Ok(Point::Latest);
    }
    if text.starts_with("0x") {
        return parse_zxid(text).map(Point::Zxid);
    }
    parse_time(text).map(Point::Time)
}

/// Plans a point.
pub(super) fn planned(backup: &OpenedBackup, point: Point) -> Result<Plan, Failure> {
    plan(&backup.manifest, &backup.segments, point).map_err(|error| match error {
        PlanError::BeforeFirst { zxid, time_ms } => {
            Failure::Text(format!("the backup begins later, with transaction {zxid} of {}", time(time_ms)))
        }
        PlanError::BehindLast { zxid, time_ms } => {
            Failure::Text(format!("the backup ends earlier, with transaction {zxid} of {}", time(time_ms)))
        }
        error @ (PlanError::Empty | PlanError::Hole { .. }) => failure(error),
    })
}

/// Rebuilds the state at a point, with a progress bar.
pub(super) fn state_at(backup: &OpenedBackup, point: Point) -> Result<RebuiltState, Failure> {
    Ok(state_by_rule(backup, point, DigestRule::Compare)?.0)
}

/// Rebuilds the state at a point, and returns the number of wrong digests too.
pub(super) fn state_by_rule(
    backup: &OpenedBackup,
    point: Point,
    digests: DigestRule,
) -> Result<(RebuiltState, u64), Failure> {
    let plan = planned(backup, point)?;
    let mut bar = BytesRead::of_plan(&plan, Screen::Free, digests);
    let state = rebuild(&backup.target, &plan, hash_seed()?, &mut bar).map_err(failure)?;
    Ok((state, bar.wrong_digests))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_the_command_line() {
        assert_eq!(parse_point("latest"), Ok(Point::Latest));
        assert_eq!(parse_point("0x100000010"), Ok(Point::Zxid(Zxid::new(1, 16))));
        assert_eq!(parse_point("1700000000123"), Ok(Point::Time(1_700_000_000_123)));
        assert_eq!(parse_point("2023-11-14T22:13:20.123Z"), Ok(Point::Time(1_700_000_000_123)));
        assert_eq!(parse_point("2023-11-14T23:13:20.123+01:00"), Ok(Point::Time(1_700_000_000_123)));
        assert_eq!(parse_zxid("100000010"), Ok(Zxid::new(1, 16)));
        for wrong in ["yesterday", "0xg", "0x-1", "2023-11-14T22:13:20"] {
            assert!(parse_point(wrong).is_err(), "{wrong}");
        }
    }
}
