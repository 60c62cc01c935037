//! Encrypted objects: how their names tell, and who encrypts. The ciphers are at the edge.

use std::io::{self, Read, Write};

/// The end of the name of an encrypted object.
pub const SEALED_END: &str = ".age";

/// Whether an object is encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sealing {
    /// Each reader of the target can read it.
    #[default]
    Plain,
    /// It can be read with a key.
    Age,
}

impl Sealing {
    /// What its name ends with.
    pub fn end(self) -> &'static str {
        match self {
            Sealing::Plain => "",
            Sealing::Age => SEALED_END,
        }
    }

    /// How the object with this name is stored.
    pub fn of_name(name: &str) -> Sealing {
        if name.ends_with(SEALED_END) { Sealing::Age } else { Sealing::Plain }
    }
}

/// Encrypts objects.
pub trait Sealer: Send + Sync {
    /// Encrypts all bytes of a reader.
    fn seal(&self, plain: &mut dyn Read, sealed: &mut dyn Write) -> io::Result<()>;
}
