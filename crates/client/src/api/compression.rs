//! Compression of data: GZIP, one member, as Curator's provider writes and reads it.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::error::ErrorKind;

/// The compression of stored data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// GZIP, readable by Curator's `decompressed()`.
    Gzip,
}

/// The largest size after decompression: a few bytes must not fill the memory.
const PLAIN_LIMIT: u64 = 64 << 20;

const MAGIC: [u8; 2] = [0x1f, 0x8b];

impl Compression {
    pub(crate) fn pack(self, data: Bytes) -> Bytes {
        match self {
            Compression::None => data,
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&data).expect("writing to a Vec");
                encoder.finish().expect("writing to a Vec").into()
            }
        }
    }

    /// Decompresses data. Uncompressed data is returned unchanged. Damaged data fails with
    /// [`ErrorKind::BadCompression`].
    pub fn unpack(self, data: Bytes) -> Result<Bytes, ErrorKind> {
        if self == Compression::None || !data.starts_with(&MAGIC) {
            return Ok(data);
        }
        let mut plain = Vec::new();
        match GzDecoder::new(&data[..]).take(PLAIN_LIMIT + 1).read_to_end(&mut plain) {
            Ok(_) if plain.len() as u64 > PLAIN_LIMIT => {
                Err(ErrorKind::BadCompression("it grows beyond 64 MiB".into()))
            }
            Ok(_) => Ok(plain.into()),
            Err(error) => Err(ErrorKind::BadCompression(error.to_string().into())),
        }
    }

    /// Decompresses data of a list, whose other entries must not fail with it. Data that does not decompress
    /// is returned as stored, with `true`.
    pub(crate) fn unpack_or_keep(self, data: Bytes) -> (Bytes, bool) {
        match self.unpack(data.clone()) {
            Ok(plain) => (plain, false),
            Err(_) => (data, true),
        }
    }

    /// The same for data that may be missing.
    pub(crate) fn unpack_given(self, data: Option<Bytes>) -> (Option<Bytes>, bool) {
        let (data, bad) = data.map(|data| self.unpack_or_keep(data)).unzip();
        (data, bad.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        for data in [&b""[..], b"a", &[7; 100_000]] {
            let packed = Compression::Gzip.pack(Bytes::copy_from_slice(data));
            assert!(packed.starts_with(&MAGIC));
            assert_eq!(Compression::Gzip.unpack(packed).unwrap(), data);
        }
        assert_eq!(Compression::Gzip.unpack(Bytes::from_static(b"plain")).unwrap(), "plain");
    }

    #[test]
    fn an_empty_value_of_java_is_read() {
        // The output of java.util.zip.GZIPOutputStream for empty data; the operating system byte is 0.
        let empty = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Compression::Gzip.unpack(Bytes::copy_from_slice(&empty)).unwrap(), "");
    }

    #[test]
    fn damage_is_an_error() {
        let packed = Compression::Gzip.pack(Bytes::from_static(b"some text of some length"));
        for cut in 2..packed.len() {
            assert!(Compression::Gzip.unpack(packed.slice(..cut)).is_err(), "{cut}");
        }
        let mut damaged = packed.to_vec();
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        assert!(Compression::Gzip.unpack(damaged.into()).is_err());
    }

    #[test]
    fn a_small_text_that_grows_without_end_is_refused() {
        let bomb = Compression::Gzip.pack(Bytes::from(vec![0; (PLAIN_LIMIT + 1) as usize]));
        assert!(bomb.len() < 1 << 20);
        assert!(Compression::Gzip.unpack(bomb).is_err());
    }
}
