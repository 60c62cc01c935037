//! The watchers of one path in one table. Most paths have one, so one takes no allocation.

use std::collections::BTreeMap;

use crate::watch::WatcherId;
use crate::watch::modes::Modes;

#[derive(Debug, Default)]
pub(super) enum Watchers {
    #[default]
    Nobody,
    One(WatcherId, Modes),
    Many(BTreeMap<WatcherId, Modes>),
}

impl Watchers {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Watchers::Nobody)
    }

    pub(super) fn modes_of(&self, watcher: WatcherId) -> Modes {
        match self {
            Watchers::One(one, modes) if *one == watcher => *modes,
            Watchers::Nobody | Watchers::One(..) => Modes::NONE,
            Watchers::Many(watchers) => watchers.get(&watcher).copied().unwrap_or(Modes::NONE),
        }
    }

    /// Replaces the modes of a watcher; none removes it.
    pub(super) fn set(&mut self, watcher: WatcherId, modes: Modes) {
        match self {
            Watchers::Nobody if modes.is_empty() => {}
            Watchers::Nobody => *self = Watchers::One(watcher, modes),
            Watchers::One(one, _) if *one == watcher => {
                *self = if modes.is_empty() { Watchers::Nobody } else { Watchers::One(watcher, modes) };
            }
            Watchers::One(..) if modes.is_empty() => {}
            Watchers::One(one, one_modes) => {
                *self = Watchers::Many([(*one, *one_modes), (watcher, modes)].into());
            }
            Watchers::Many(watchers) => {
                if modes.is_empty() {
                    watchers.remove(&watcher);
                } else {
                    watchers.insert(watcher, modes);
                }
                if watchers.is_empty() {
                    *self = Watchers::Nobody;
                }
            }
        }
    }

    /// Calls `tell` for every watcher, and removes these modes from all. Returns how many watchers were
    /// removed.
    pub(super) fn use_up(&mut self, gone: Modes, tell: &mut dyn FnMut(WatcherId)) -> usize {
        match self {
            Watchers::Nobody => 0,
            Watchers::One(watcher, modes) => {
                tell(*watcher);
                *modes = modes.without(gone);
                let is_gone = modes.is_empty();
                if is_gone {
                    *self = Watchers::Nobody;
                }
                usize::from(is_gone)
            }
            Watchers::Many(watchers) => {
                let before = watchers.len();
                watchers.retain(|&watcher, modes| {
                    tell(watcher);
                    *modes = modes.without(gone);
                    !modes.is_empty()
                });
                let left = watchers.len();
                if left == 0 {
                    *self = Watchers::Nobody;
                }
                before - left
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WatcherId, Modes)> {
        let (one, many) = match self {
            Watchers::Nobody => (None, None),
            Watchers::One(watcher, modes) => (Some((*watcher, *modes)), None),
            Watchers::Many(watchers) => {
                (None, Some(watchers.iter().map(|(&watcher, &modes)| (watcher, modes))))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}
