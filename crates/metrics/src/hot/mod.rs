//! The hottest paths and clients of a server, from samples of its requests. Memory is bounded, and old
//! requests lose their weight: it halves every half minute.

mod sketches;
mod space_saving;

pub use sketches::{
    HOT_KEYS_MAX, HotEntry, HotMeasure, HotSketches, HotSubject, HotTable, RequestClient, RequestSample,
    cut_text,
};
pub use space_saving::{Estimate, SpaceSaving};
