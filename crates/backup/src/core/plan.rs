//! Which objects give the state at a point: one base and the segments behind it.

use zebu_proto::Zxid;

use super::manifest::{Base, Manifest, Segment};

/// A point in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The last transaction of the backup.
    Latest,
    /// After this transaction.
    Zxid(Zxid),
    /// After the last transaction that is not later, milliseconds since 1970.
    Time(i64),
}

/// The objects for a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The state to begin with.
    pub base: Base,
    /// The segments to replay, oldest first. The first one may begin before the base.
    pub segments: Vec<Segment>,
    /// No later transaction is applied.
    pub point: Point,
}

/// Why there is no state at a point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The backup has no base.
    #[error("the backup has no base yet; let zebu backup run write one")]
    Empty,
    /// The point is before the first base.
    #[error("the backup begins later: at {zxid}, {time_ms} ms since 1970")]
    BeforeFirst {
        /// The first state of the backup.
        zxid: Zxid,
        /// Its time, milliseconds since 1970.
        time_ms: i64,
    },
    /// The point is behind the end.
    #[error("the backup ends earlier: at {zxid}, {time_ms} ms since 1970")]
    BehindLast {
        /// The last transaction of the backup.
        zxid: Zxid,
        /// Its time, milliseconds since 1970.
        time_ms: i64,
    },
    /// The point is where the backup lacks history.
    #[error(
        "the backup has a hole there: nothing is known between {before} and {after}; choose one of these two"
    )]
    Hole {
        /// The last transaction before the hole.
        before: Zxid,
        /// The first state behind it.
        after: Zxid,
    },
}

/// One chain of a backup.
struct Chain<'a> {
    bases: Vec<&'a Base>,
    segments: Vec<&'a Segment>,
}

impl Chain<'_> {
    fn end(&self) -> (Zxid, i64) {
        let of_base = self.bases.last().map_or((Zxid::ZERO, 0), |base| (base.zxid, base.time_ms));
        let of_log = self.segments.last().map_or(of_base, |segment| (segment.last, segment.last_ms));
        of_base.max(of_log)
    }

    fn plan(&self, base: &Base, point: Point) -> Plan {
        let wanted = |segment: &Segment| match point {
            Point::Latest => true,
            Point::Zxid(zxid) => segment.first <= zxid,
            Point::Time(time_ms) => segment.first_ms <= time_ms,
        };
        let behind = self.segments.iter().filter(|segment| segment.last > base.zxid && wanted(segment));
        Plan { base: base.clone(), segments: behind.map(|segment| (*segment).clone()).collect(), point }
    }
}

fn chains<'a>(manifest: &'a Manifest, segments: &'a [Segment]) -> Vec<Chain<'a>> {
    let mut numbers: Vec<u32> = manifest.bases.iter().map(|base| base.chain).collect();
    numbers.dedup();
    let chain = |number: &u32| Chain {
        bases: manifest.bases.iter().filter(|base| base.chain == *number).collect(),
        segments: segments.iter().filter(|segment| segment.chain == *number).collect(),
    };
    numbers.iter().map(chain).collect()
}

/// Plans the state at a point. `segments` are all segments of the manifest, oldest first. If two chains have
/// the point, the newer chain is meant.
pub fn plan(manifest: &Manifest, segments: &[Segment], point: Point) -> Result<Plan, PlanError> {
    let chains = chains(manifest, segments);
    let (Some(oldest), Some(newest)) = (chains.first(), chains.last()) else { return Err(PlanError::Empty) };
    let is_not_later = |base: &Base| match point {
        Point::Latest => true,
        Point::Zxid(zxid) => base.zxid <= zxid,
        Point::Time(time_ms) => base.time_ms <= time_ms,
    };
    let is_within = |chain: &Chain<'_>| match point {
        Point::Latest => true,
        Point::Zxid(zxid) => zxid <= chain.end().0,
        Point::Time(time_ms) => time_ms <= chain.end().1,
    };
    for (index, chain) in chains.iter().enumerate().rev() {
        let Some(base) = chain.bases.iter().rfind(|base| is_not_later(base)) else { continue };
        let is_newest = index + 1 == chains.len();
        if is_within(chain) {
            return Ok(chain.plan(base, point));
        }
        if is_newest {
            // An ensemble without writes has no later transaction, so that a later time is no error.
            if let Point::Time(_) = point {
                return Ok(chain.plan(base, point));
            }
            let (zxid, time_ms) = newest.end();
            return Err(PlanError::BehindLast { zxid, time_ms });
        }
        let after = chains[index + 1].bases.first().map_or(Zxid::ZERO, |base| base.zxid);
        return Err(PlanError::Hole { before: chain.end().0, after });
    }
    let first = oldest.bases.first().map_or((Zxid::ZERO, 0), |base| (base.zxid, base.time_ms));
    Err(PlanError::BeforeFirst { zxid: first.0, time_ms: first.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(chain: u32, zxid: i64) -> Base {
        let (name, sha256) = (format!("b{zxid}"), String::new());
        Base {
            name,
            chain,
            zxid: Zxid(zxid),
            time_ms: zxid * 10,
            bytes: 0,
            sha256,
            nodes: 0,
            digest: 0,
            local_time: false,
        }
    }

    fn segment(chain: u32, first: i64, last: i64) -> Segment {
        Segment {
            name: format!("s{first}"),
            chain,
            after: Zxid(first - 1),
            first: Zxid(first),
            last: Zxid(last),
            first_ms: first * 10,
            last_ms: last * 10,
            transactions: 0,
            bytes: 0,
            sha256: String::new(),
        }
    }

    /// Chain 1 from 10 to 40 with a base at 30; chain 2 from 60 to 80.
    fn manifest() -> Manifest {
        let mut manifest = Manifest::empty();
        manifest.bases = vec![base(1, 10), base(1, 30), base(2, 60)];
        manifest.segments =
            vec![segment(1, 11, 20), segment(1, 21, 30), segment(1, 31, 40), segment(2, 61, 80)];
        manifest
    }

    fn planned(point: Point) -> Result<(i64, Vec<i64>), PlanError> {
        let manifest = manifest();
        let plan = plan(&manifest, &manifest.segments, point)?;
        Ok((plan.base.zxid.0, plan.segments.iter().map(|segment| segment.first.0).collect()))
    }

    #[test]
    fn the_newest_base_before_the_point_and_the_log_behind_it() {
        assert_eq!(planned(Point::Zxid(Zxid(10))), Ok((10, vec![])));
        assert_eq!(planned(Point::Zxid(Zxid(21))), Ok((10, vec![11, 21])));
        assert_eq!(planned(Point::Zxid(Zxid(30))), Ok((30, vec![])));
        assert_eq!(planned(Point::Zxid(Zxid(35))), Ok((30, vec![31])));
        assert_eq!(planned(Point::Latest), Ok((60, vec![61])));
        assert_eq!(planned(Point::Time(299)), Ok((10, vec![11, 21])));
        assert_eq!(planned(Point::Time(9_000)), Ok((60, vec![61])));
    }

    #[test]
    fn points_without_a_state() {
        let hole = PlanError::Hole { before: Zxid(40), after: Zxid(60) };
        assert_eq!(planned(Point::Zxid(Zxid(41))), Err(hole.clone()));
        assert_eq!(planned(Point::Time(401)), Err(hole));
        assert_eq!(
            planned(Point::Zxid(Zxid(9))),
            Err(PlanError::BeforeFirst { zxid: Zxid(10), time_ms: 100 })
        );
        assert_eq!(
            planned(Point::Zxid(Zxid(81))),
            Err(PlanError::BehindLast { zxid: Zxid(80), time_ms: 800 })
        );
        assert_eq!(plan(&Manifest::empty(), &[], Point::Latest), Err(PlanError::Empty));
    }

    #[test]
    fn two_chains_with_the_same_zxids() {
        // The ensemble was set back from 40 to 20.
        let mut manifest = manifest();
        manifest.bases[2] = base(2, 20);
        manifest.segments[3] = segment(2, 21, 25);
        let at =
            |zxid| plan(&manifest, &manifest.segments, Point::Zxid(Zxid(zxid))).map(|plan| plan.base.chain);
        assert_eq!(at(22), Ok(2));
        assert_eq!(at(15), Ok(1));
    }
}
