//! Encryption at rest in the format of age: bases and logs are encrypted for public keys, so that the process
//! that writes a backup needs no secret. The manifest stays readable.

use std::fmt;
use std::fs;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use age::secrecy::ExposeSecret;
use age::x25519;
use age::{DecryptError, Decryptor, Encryptor};

use crate::core::seal::Sealer;
use crate::core::target::{Content, Revision, StoredManifest, Target, TargetError};

/// The longest file of keys in bytes.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is no public key.
    #[error("{text} is no public key of age: {problem}; it begins with age1, and zebu backup key prints it")]
    Recipient {
        /// The given text.
        text: String,
        /// The reason.
        problem: &'static str,
    },
    /// The file cannot be read or written.
    #[error("cannot use the key file {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The file has no key.
    #[error("{path}, line {line}: {problem}; a key begins with AGE-SECRET-KEY-1")]
    Identity {
        /// The file.
        path: String,
        /// The line, from 1; the last one if there is no key.
        line: usize,
        /// The reason.
        problem: &'static str,
    },
}

/// The public keys for which a backup is encrypted.
#[derive(Clone)]
pub struct Recipients(Vec<x25519::Recipient>);

impl fmt::Debug for Recipients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(ToString::to_string)).finish()
    }
}

impl Recipients {
    /// Reads public keys; `None` if there are none.
    pub fn parse(texts: &[String]) -> Result<Option<Recipients>, KeyError> {
        let parse = |text: &String| {
            let parsed = text.trim().parse::<x25519::Recipient>();
            parsed.map_err(|problem| KeyError::Recipient { text: text.clone(), problem })
        };
        let keys = texts.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        Ok((!keys.is_empty()).then_some(Recipients(keys)))
    }
}

impl Sealer for Recipients {
    fn seal(&self, plain: &mut dyn Read, sealed: &mut dyn Write) -> io::Result<()> {
        let keys = self.0.iter().map(|key| key as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(keys).map_err(io::Error::other)?;
        let mut writer = encryptor.wrap_output(sealed)?;
        io::copy(plain, &mut writer)?;
        writer.finish().map(drop)
    }
}

/// The secret keys that read a backup.
#[derive(Clone)]
pub struct Identities(Vec<x25519::Identity>);

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.0.len())
    }
}

impl Identities {
    /// Reads a file with one key per line; lines with # are remarks.
    pub fn read(path: &Path) -> Result<Identities, KeyError> {
        let name = path.display().to_string();
        let failed = |source| KeyError::File { path: name.clone(), source };
        let mut text = String::new();
        let file = fs::File::open(path).map_err(failed)?;
        file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        let mut keys = Vec::new();
        let mut last = 1;
        for (index, line) in text.lines().enumerate() {
            last = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.parse::<x25519::Identity>() {
                Ok(key) => keys.push(key),
                Err(problem) => return Err(KeyError::Identity { path: name, line: last, problem }),
            }
        }
        if keys.is_empty() {
            return Err(KeyError::Identity { path: name, line: last, problem: "the file has no key" });
        }
        Ok(Identities(keys))
    }
}

/// Makes a key, writes it to a new file that only its owner can read, and returns the public key.
pub fn write_new_key(path: &Path) -> Result<String, KeyError> {
    let key = x25519::Identity::generate();
    let public = key.to_public().to_string();
    let text = format!("# public key: {public}\n{}\n", key.to_string().expose_secret());
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|source| KeyError::File { path: path.display().to_string(), source })?;
    Ok(public)
}

/// A target whose encrypted objects can be read.
#[derive(Debug)]
pub struct KeyedTarget<T> {
    inner: T,
    identities: Identities,
}

impl<T> KeyedTarget<T> {
    /// Adds keys to a target.
    pub fn new(inner: T, identities: Identities) -> KeyedTarget<T> {
        KeyedTarget { inner, identities }
    }
}

impl<T: Target> Target for KeyedTarget<T> {
    fn put(&self, name: &str, content: &dyn Content) -> Result<(), TargetError> {
        self.inner.put(name, content)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send + '_>, TargetError> {
        self.inner.open(name)
    }

    fn list(&self) -> Result<Vec<String>, TargetError> {
        self.inner.list()
    }

    fn delete(&self, name: &str) -> Result<(), TargetError> {
        self.inner.delete(name)
    }

    fn manifest(&self) -> Result<Option<StoredManifest>, TargetError> {
        self.inner.manifest()
    }

    fn replace_manifest(&self, bytes: &[u8], expected: Option<&Revision>) -> Result<Revision, TargetError> {
        self.inner.replace_manifest(bytes, expected)
    }

    fn unseal<'a>(
        &'a self,
        name: &str,
        sealed: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, TargetError> {
        let keys = self.identities.0.iter().map(|key| key as &dyn age::Identity);
        let opened = Decryptor::new_buffered(BufReader::new(sealed));
        let plain = match opened.and_then(|decryptor| decryptor.decrypt(keys)) {
            Ok(plain) => plain,
            Err(DecryptError::NoMatchingKeys) => {
                let text = format!("{name} is encrypted for another key than those of --identity");
                return Err(TargetError::Unusable(text));
            }
            Err(DecryptError::Io(source)) if source.kind() != io::ErrorKind::UnexpectedEof => {
                return Err(TargetError::io(format!("cannot read {name}"), source));
            }
            Err(error) => {
                let text = format!("{name} is damaged: its encryption cannot be read: {error}");
                return Err(TargetError::Damaged(text));
            }
        };
        Ok(Box::new(plain))
    }
}
