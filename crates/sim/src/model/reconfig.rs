//! A change of the members in the model: what it comes to at its place in the history. Two things only the leader
//! knows, and they are taken from what it has decided: whether an earlier change is still under way, and whether
//! those who follow it could decide in the new list.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use zebu_proto::txn::Txn;
use zebu_proto::{ErrorCode, Permissions, Zxid};

use super::write::Change;
use super::{Effect, Model, Place, Standing};
use crate::members::{CONFIG, Chronicle, List, Wish};
use crate::operation::Path;

/// What was asked for, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) wish: &'a Wish,
    pub(crate) version: i64,
    /// The latest transaction that any client had an answer for when it was asked for.
    pub(crate) acked_before: i64,
    /// `None` if members may not change.
    pub(crate) voters_min: Option<usize>,
}

impl Model {
    /// What the change must come to, given what the leader has made of it.
    pub(crate) fn reconfigure(
        &mut self,
        place: Place,
        request: Request<'_>,
        chronicle: &Chronicle,
        found: &Txn,
    ) -> Vec<Effect> {
        let Some(voters_min) = request.voters_min else {
            return vec![Effect::Error(ErrorCode::ReconfigDisabled)];
        };
        let is_open = self.session(place.session).is_some_and(|life| life.closed.is_none());
        if !is_open {
            return vec![Effect::Error(ErrorCode::SessionExpired)];
        }
        let effect = match self.judge(place, request, voters_min, chronicle, found) {
            Err(code) => Effect::Error(code),
            Ok(list) => self.show_list(place, &list, found),
        };
        vec![effect]
    }

    fn judge(
        &self,
        place: Place,
        request: Request<'_>,
        voters_min: usize,
        chronicle: &Chronicle,
        found: &Txn,
    ) -> Result<List, ErrorCode> {
        let said = |code: ErrorCode| *found == Txn::error(code);
        let before = chronicle.before(place.zxid);
        // One that was answered, or behind which something was, is not under way any more.
        let may_be_pending = before.is_some_and(|list| list.version > request.acked_before);
        if may_be_pending && said(ErrorCode::ReconfigInProgress) {
            return Err(ErrorCode::ReconfigInProgress);
        }
        let matches = match before {
            _ if request.version == -1 => true,
            Some(list) => request.version == list.version,
            // The first list gets the version of its first leader, which no transaction has.
            None => Zxid(request.version).counter() == 0 && !said(ErrorCode::BadVersion),
        };
        if !matches {
            return Err(ErrorCode::BadVersion);
        }
        let before = before.unwrap_or(chronicle.first());
        let next = request.wish.applied(before, place.zxid, voters_min)?;
        if said(ErrorCode::NewConfigNoQuorum) {
            return Err(ErrorCode::NewConfigNoQuorum);
        }
        let open = self.now(CONFIG).is_some_and(|node| node.permissions & Permissions::WRITE != 0);
        if !open && place.standing == Standing::Common {
            return Err(ErrorCode::NoAuth);
        }
        Ok(next)
    }

    fn show_list(&mut self, place: Place, list: &List, found: &Txn) -> Effect {
        let Some(node) = self.now(CONFIG) else { return Effect::Error(ErrorCode::NoNode) };
        let mut node = (**node).clone();
        // Lines may come in any order.
        let data: Arc<[u8]> = match found {
            Txn::Reconfig(set) => set.data.clone(),
            _ => None,
        }
        .filter(|data| std::str::from_utf8(data).ok().and_then(List::read).as_ref() == Some(list))
        .unwrap_or_else(|| list.text().into_bytes().into());
        node.data = Some(data.clone());
        node.version = -1;
        node.modified = (place.zxid, place.time_ms);
        let stat = node.stat();
        let path = Path::from(CONFIG);
        let changed = BTreeMap::from([(path.clone(), Some(Rc::new(node)))]);
        self.commit(place.zxid, changed, vec![(path, Change::Data)]);
        Effect::Reconfigured { data, stat }
    }
}
