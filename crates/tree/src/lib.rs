//! tree
