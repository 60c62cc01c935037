//! Four-letter words: which exist, and the exact text of their answers. Pure text: the edge fills the report
//! structs, decides nothing about layout, and sends what comes back.

pub mod word;

pub use word::Word;
