//! Patience with observers: pings, and those who fell silent.

use zebu_proto::quorum::Packet;

use super::ObserverMaster;
use crate::action::{Action, CloseReason};
use crate::event::LinkId;
use crate::member::Member;

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
            let limit = if observer.is_up_to_date() { settings.sync_limit } else { settings.init_limit };
            if observer.heard_ms + limit * settings.tick_ms <= now_ms {
                self.close_if_wrong(link, Err(CloseReason::Silent), out);
            } else if observer.takes_pings() {
                observer.send(link, Packet::Ping { zxid: member.committed() }, out);
            }
        }
    }
}
