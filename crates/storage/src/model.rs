//! A disk in memory that can lose power.
