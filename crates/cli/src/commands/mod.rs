//! One file per command; each owns its arguments, its help and what it does.

pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod cert;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod container;
pub(crate) mod dev;
pub(crate) mod drain;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod rebalance;
pub(crate) mod restart;
pub(crate) mod rolling_restart;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod snapshot;
pub(crate) mod start;
pub(crate) mod stat;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod top;
pub(crate) mod verify;
pub(crate) mod version;
