//! The four-letter words: which exist and how they are recognised. What they answer is in the files beside.

/// A word that an operator may send instead of a session request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Settings of the server.
    Conf,
    /// All connections in full.
    Cons,
    /// Resets the statistics of connections.
    Crst,
    /// Sizes of the directories.
    Dirs,
    /// Sessions, ephemeral nodes and connections.
    Dump,
    /// The machine.
    Envi,
    /// The trace mask.
    Gtmk,
    /// Recent tree digests.
    Hash,
    /// Whether the server is read-only.
    Isro,
    /// All metrics.
    Mntr,
    /// Whether the process lives.
    Ruok,
    /// Sends a share of the clients to other servers; a percentage follows. ZooKeeper does not know it.
    Shed,
    /// Resets the statistics of the server.
    Srst,
    /// The server in short.
    Srvr,
    /// The server and its clients.
    Stat,
    /// Sets the trace mask; eight more bytes follow.
    Stmk,
    /// Watches by session.
    Wchc,
    /// Watches by path.
    Wchp,
    /// Watches in short.
    Wchs,
    /// What a telnet client sends when it is interrupted; answered with nothing.
    TelnetClose,
}

/// The bytes of telnet's interrupt sequence.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

impl Word {
    /// Every word that has a name of four letters.
    pub const ALL: [Word; 19] = [
        Word::Conf,
        Word::Cons,
        Word::Crst,
        Word::Dirs,
        Word::Dump,
        Word::Envi,
        Word::Gtmk,
        Word::Hash,
        Word::Isro,
        Word::Mntr,
        Word::Ruok,
        Word::Shed,
        Word::Srst,
        Word::Srvr,
        Word::Stat,
        Word::Stmk,
        Word::Wchc,
        Word::Wchp,
        Word::Wchs,
    ];

    /// The name in whitelists, logs and messages.
    pub fn name(self) -> &'static str {
        match self {
            Word::Conf => "conf",
            Word::Cons => "cons",
            Word::Crst => "crst",
            Word::Dirs => "dirs",
            Word::Dump => "dump",
            Word::Envi => "envi",
            Word::Gtmk => "gtmk",
            Word::Hash => "hash",
            Word::Isro => "isro",
            Word::Mntr => "mntr",
            Word::Ruok => "ruok",
            Word::Shed => "shed",
            Word::Srst => "srst",
            Word::Srvr => "srvr",
            Word::Stat => "stat",
            Word::Stmk => "stmk",
            Word::Wchc => "wchc",
            Word::Wchp => "wchp",
            Word::Wchs => "wchs",
            Word::TelnetClose => "telnet close",
        }
    }

    /// Recognises the first four bytes of a connection; `None` means that they are the length of a frame.
    pub fn from_bytes(bytes: [u8; 4]) -> Option<Word> {
        if bytes == TELNET_CLOSE {
            return Some(Word::TelnetClose);
        }
        Word::ALL.into_iter().find(|word| word.name().as_bytes() == bytes)
    }

    /// Recognises a name in a whitelist.
    pub fn from_name(name: &str) -> Option<Word> {
        if name == Word::TelnetClose.name() {
            return Some(Word::TelnetClose);
        }
        Word::ALL.into_iter().find(|word| word.name() == name)
    }

    /// How many bytes after the word belong to it, at most.
    pub fn argument_length(self) -> usize {
        match self {
            Word::Stmk => 8,
            Word::Shed => " 100\n".len(),
            _ => 0,
        }
    }

    /// Whether `*` in the whitelist means it too. Who disturbs clients must be allowed to by name.
    pub fn is_in_all(self) -> bool {
        self != Word::Shed
    }
}
