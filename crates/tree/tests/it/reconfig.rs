//! reconfig
