//! The stream that snappy-java writes: a 16-byte header, then raw Snappy blocks with their length in front.
//! It is not the standard Snappy framing format and has no checksums of its own.

use std::io::{self, Read, Write};

/// Magic, version 1, compatible version 1.
const HEADER: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// Bytes of the magic inside the header.
const MAGIC_SIZE: usize = 8;

/// The first bytes of the stream.
pub(crate) const MAGIC: &[u8] = HEADER.split_at(MAGIC_SIZE).0;

/// Uncompressed bytes per block, as in snappy-java.
const BLOCK_SIZE: usize = 32 * 1024;

/// The largest plausible size of a block of a snapshot; a larger one is damage.
const BLOCK_SIZE_MAX: usize = 64 * 1024 * 1024;

/// Compresses the bytes that are written to it.
#[derive(Debug)]
pub struct SnappyWriter<W> {
    inner: W,
    block: Vec<u8>,
    packed: Vec<u8>,
    encoder: snap::raw::Encoder,
}

impl<W: Write> SnappyWriter<W> {
    /// Writes the stream's header.
    pub fn new(mut inner: W) -> io::Result<SnappyWriter<W>> {
        inner.write_all(&HEADER)?;
        let packed = vec![0; snap::raw::max_compress_len(BLOCK_SIZE)];
        Ok(SnappyWriter {
            inner,
            block: Vec::with_capacity(BLOCK_SIZE),
            packed,
            encoder: snap::raw::Encoder::new(),
        })
    }

    /// Writes the last block and gives the inner writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_block()?;
        Ok(self.inner)
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let packed = self.encoder.compress(&self.block, &mut self.packed);
        let count = packed.expect("there is room for the longest block");
        let length = u32::try_from(count).expect("a block is short");
        self.inner.write_all(&length.to_be_bytes())?;
        self.inner.write_all(&self.packed[..count])?;
        self.block.clear();
        Ok(())
    }
}

impl<W: Write> Write for SnappyWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(BLOCK_SIZE - self.block.len());
        self.block.extend_from_slice(&bytes[..count]);
        if self.block.len() == BLOCK_SIZE {
            self.write_block()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Decompresses the bytes of the inner reader.
#[derive(Debug)]
pub struct SnappyReader<R> {
    inner: R,
    block: Vec<u8>,
    at: usize,
    packed: Vec<u8>,
    decoder: snap::raw::Decoder,
}

impl<R: Read> SnappyReader<R> {
    /// Reads the stream's header.
    pub fn new(mut inner: R) -> io::Result<SnappyReader<R>> {
        let mut header = [0; HEADER.len()];
        inner.read_exact(&mut header)?;
        if header[..MAGIC_SIZE] != HEADER[..MAGIC_SIZE] {
            return Err(invalid("not a snappy-java stream".into()));
        }
        let decoder = snap::raw::Decoder::new();
        Ok(SnappyReader { inner, block: Vec::new(), at: 0, packed: Vec::new(), decoder })
    }

    /// Decompresses the next block; false at the end of the stream.
    fn read_block(&mut self) -> io::Result<bool> {
        let mut length = [0; 4];
        match self.inner.read(&mut length)? {
            0 => return Ok(false),
            count => self.inner.read_exact(&mut length[count..])?,
        }
        let length = u32::from_be_bytes(length) as usize;
        if length > snap::raw::max_compress_len(BLOCK_SIZE_MAX) {
            return Err(invalid(format!("a block of {length} bytes")));
        }
        self.packed.clear();
        // Reads the available bytes, rather than reserving the claimed length.
        (&mut self.inner).take(length as u64).read_to_end(&mut self.packed)?;
        if self.packed.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let size = snap::raw::decompress_len(&self.packed).map_err(|error| invalid(error.to_string()))?;
        if size > BLOCK_SIZE_MAX {
            return Err(invalid(format!("a block that expands to {size} bytes")));
        }
        self.block.resize(size, 0);
        self.at = 0;
        let written = self.decoder.decompress(&self.packed, &mut self.block);
        // After an error there is nothing more to read.
        self.block.truncate(*written.as_ref().unwrap_or(&0));
        written.map_err(|error| invalid(error.to_string()))?;
        Ok(true)
    }
}

impl<R: Read> Read for SnappyReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if !self.read_block()? {
                return Ok(0);
            }
        }
        let rest = &self.block[self.at..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut writer = SnappyWriter::new(Vec::new()).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn streams_round_trip() {
        for size in [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 3 * BLOCK_SIZE + 17] {
            let bytes: Vec<u8> = (0..size).map(|at| (at * at / 7) as u8).collect();
            let packed = pack(&bytes);
            assert!(
                packed.starts_with(&[0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1])
            );
            let mut unpacked = Vec::new();
            SnappyReader::new(&packed[..]).unwrap().read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, bytes);
        }
    }

    #[test]
    fn literal_blocks_of_any_size_are_read() {
        let mut stream = HEADER.to_vec();
        for text in [&b"ab"[..], b"c"] {
            // Length, then a literal tag: (length - 1) << 2.
            let block = [&[text.len() as u8, (text.len() as u8 - 1) << 2], text].concat();
            stream.extend((block.len() as u32).to_be_bytes());
            stream.extend(block);
        }
        let mut unpacked = Vec::new();
        SnappyReader::new(&stream[..]).unwrap().read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, b"abc");
    }

    /// Lets so many reads or writes through.
    struct Failing<T>(T, usize);

    impl<T> Failing<T> {
        fn next(&mut self) -> io::Result<&mut T> {
            self.1 = self.1.checked_sub(1).ok_or_else(|| io::Error::other("the disk"))?;
            Ok(&mut self.0)
        }
    }

    impl<W: Write> Write for Failing<W> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.next()?.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl<R: Read> Read for Failing<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.next()?.read(buffer)
        }
    }

    #[test]
    fn every_error_of_the_other_side_is_passed_on() {
        let bytes = vec![7; 2 * BLOCK_SIZE + 1];
        let write = |count| {
            let mut writer = SnappyWriter::new(Failing(Vec::new(), count))?;
            writer.write_all(&bytes)?;
            writer.finish().map(|inner| inner.0)
        };
        // The header, then a length and a block, three times.
        for count in 0..7 {
            assert_eq!(write(count).unwrap_err().to_string(), "the disk", "{count}");
        }
        let packed = write(7).unwrap();
        let mut count = 0;
        loop {
            let reader = SnappyReader::new(Failing(&packed[..], count));
            let mut unpacked = Vec::new();
            match reader.and_then(|mut reader| reader.read_to_end(&mut unpacked)) {
                Ok(_) => break assert_eq!(unpacked, bytes),
                Err(error) => assert_eq!(error.to_string(), "the disk", "{count}"),
            }
            assert!(bytes.starts_with(&unpacked), "{count}: only what was packed comes out");
            count += 1;
        }
        assert!(count > 7, "{count}");
    }

    #[test]
    fn cut_and_absurd_streams_are_refused() {
        let packed = pack(&[7; 1000]);
        for length in 0..packed.len() {
            let read =
                SnappyReader::new(&packed[..length]).and_then(|mut it| it.read_to_end(&mut Vec::new()));
            assert!(read.is_err() || length == HEADER.len(), "{length}");
        }
        let mut absurd = HEADER.to_vec();
        absurd.extend(u32::MAX.to_be_bytes());
        assert!(SnappyReader::new(&absurd[..]).unwrap().read_to_end(&mut Vec::new()).is_err());
        let mut expanding = HEADER.to_vec();
        expanding.extend([0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
        assert!(SnappyReader::new(&expanding[..]).unwrap().read_to_end(&mut Vec::new()).is_err());
        // A size that does not end, and a block that is shorter than its size says.
        for block in [&[0xff; 11][..], &[9, 0, b'x']] {
            let mut broken = HEADER.to_vec();
            broken.extend((block.len() as u32).to_be_bytes());
            broken.extend(block);
            let mut unpacked = Vec::new();
            let mut reader = SnappyReader::new(&broken[..]).unwrap();
            assert!(reader.read_to_end(&mut unpacked).is_err());
            // A later read returns no bytes that were never compressed.
            assert!(reader.read_to_end(&mut unpacked).is_ok_and(|count| count == 0));
            assert!(unpacked.is_empty());
        }
        assert!(SnappyReader::new(&b"\x82SNAPPX\0\0\0\0\x01\0\0\0\x01"[..]).is_err());
    }
}
