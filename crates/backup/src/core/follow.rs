//! The order of zxids: whether a transaction can directly follow another one.

use zebu_proto::Zxid;

/// Whether `zxid` can directly follow `last`: the next one, or the first of a later epoch. Some releases log
/// an error under counter zero.
pub fn follows(last: Zxid, zxid: Zxid) -> bool {
    last.next() == Some(zxid) || (zxid.epoch() > last.epoch() && zxid.counter() <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_no_successor() {
        let last = Zxid::new(2, 7);
        assert!(follows(last, Zxid::new(2, 8)));
        assert!(follows(last, Zxid::new(4, 1)));
        assert!(!follows(last, Zxid::new(2, 9)));
        assert!(!follows(last, Zxid::new(3, 2)));
        assert!(!follows(last, last));
        assert!(!follows(last, Zxid::new(1, 8)));
    }
}
