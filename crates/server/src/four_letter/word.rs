//! The four-letter words and how they are recognised. Other files of this module define the
//! replies.

/// A command that an operator sends instead of a connect request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FourLetterWord {
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
    /// Environment of the process and the machine.
    Envi,
    /// The trace mask.
    Gtmk,
    /// Recent tree digests.
    Hash,
    /// Whether the server is read-only.
    Isro,
    /// All metrics.
    Mntr,
    /// Whether the process is alive.
    Ruok,
    /// Closes a share of the client connections; a percentage follows. ZooKeeper has no such word.
    Shed,
    /// Resets the statistics of the server.
    Srst,
    /// Summary of the server.
    Srvr,
    /// The server and its clients.
    Stat,
    /// Sets the trace mask; eight more bytes follow.
    Stmk,
    /// The nodes with the most data and the most children. ZooKeeper has no such word.
    Topn,
    /// The hottest paths and clients. ZooKeeper has no such word.
    Topp,
    /// Watches by session.
    Wchc,
    /// Watches by path.
    Wchp,
    /// Summary of watches.
    Wchs,
    /// The interrupt sequence of a telnet client; it gets no reply.
    TelnetClose,
}

/// The bytes of telnet's interrupt sequence.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

impl FourLetterWord {
    /// Every word with a name of four letters.
    pub(crate) const ALL: [FourLetterWord; 21] = [
        FourLetterWord::Conf,
        FourLetterWord::Cons,
        FourLetterWord::Crst,
        FourLetterWord::Dirs,
        FourLetterWord::Dump,
        FourLetterWord::Envi,
        FourLetterWord::Gtmk,
        FourLetterWord::Hash,
        FourLetterWord::Isro,
        FourLetterWord::Mntr,
        FourLetterWord::Ruok,
        FourLetterWord::Shed,
        FourLetterWord::Srst,
        FourLetterWord::Srvr,
        FourLetterWord::Stat,
        FourLetterWord::Stmk,
        FourLetterWord::Topn,
        FourLetterWord::Topp,
        FourLetterWord::Wchc,
        FourLetterWord::Wchp,
        FourLetterWord::Wchs,
    ];

    /// The name in whitelists, logs and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FourLetterWord::Conf => "conf",
            FourLetterWord::Cons => "cons",
            FourLetterWord::Crst => "crst",
            FourLetterWord::Dirs => "dirs",
            FourLetterWord::Dump => "dump",
            FourLetterWord::Envi => "envi",
            FourLetterWord::Gtmk => "gtmk",
            FourLetterWord::Hash => "hash",
            FourLetterWord::Isro => "isro",
            FourLetterWord::Mntr => "mntr",
            FourLetterWord::Ruok => "ruok",
            FourLetterWord::Shed => "shed",
            FourLetterWord::Srst => "srst",
            FourLetterWord::Srvr => "srvr",
            FourLetterWord::Stat => "stat",
            FourLetterWord::Stmk => "stmk",
            FourLetterWord::Topn => "topn",
            FourLetterWord::Topp => "topp",
            FourLetterWord::Wchc => "wchc",
            FourLetterWord::Wchp => "wchp",
            FourLetterWord::Wchs => "wchs",
            FourLetterWord::TelnetClose => "telnet close",
        }
    }

    /// Recognises the first four bytes of a connection; `None` means that they are the length of a frame.
    pub(crate) fn from_bytes(bytes: [u8; 4]) -> Option<FourLetterWord> {
        if bytes == TELNET_CLOSE {
            return Some(FourLetterWord::TelnetClose);
        }
        FourLetterWord::ALL.into_iter().find(|word| word.name().as_bytes() == bytes)
    }

    /// Recognises a name in a whitelist.
    pub(crate) fn from_name(name: &str) -> Option<FourLetterWord> {
        if name == FourLetterWord::TelnetClose.name() {
            return Some(FourLetterWord::TelnetClose);
        }
        FourLetterWord::ALL.into_iter().find(|word| word.name() == name)
    }

    /// Most bytes of the argument after the word.
    pub(crate) fn argument_length(self) -> usize {
        match self {
            FourLetterWord::Stmk => 8,
            FourLetterWord::Shed => " 100\n".len(),
            _ => 0,
        }
    }

    /// Whether `*` in the whitelist includes the word. A word that disturbs clients or that shows paths of
    /// all clients must be listed by name.
    pub(crate) fn matches_wildcard(self) -> bool {
        !matches!(self, FourLetterWord::Shed | FourLetterWord::Topn | FourLetterWord::Topp)
    }
}
