//! Patience with observers: pings, and those who fell silent.

use zebu_proto::quorum::Packet;

use super::ObserverMaster;
use crate::action::Action;
use crate::event::LinkId;
use crate::member::Member;
use crate::teaching::Patience;

impl ObserverMaster {
    pub(crate) fn deadline(&self) -> i64 {
        self.next_beat_ms
    }

    pub(crate) fn timeout(&mut self, member: &Member, now_ms: i64, out: &mut Vec<Action>) {
        if self.next_beat_ms > now_ms {
            return;
        }
        let settings = &member.settings;
        self.next_beat_ms = now_ms + (settings.tick_ms / 2).max(1);
        let links: Vec<LinkId> = self.links().collect();
        for link in links {
            let Some(observer) = self.observers.get_mut(&link) else { continue };
            let ends = (member.committed(), member.committed());
            if let Some(reason) = observer.patience_ended(Patience::of(settings), ends, now_ms) {
                self.close_if_wrong(link, Err(reason), out);
            } else if observer.takes_pings() {
                observer.send(link, Packet::Ping { zxid: member.committed() }, out);
            }
        }
    }
}
