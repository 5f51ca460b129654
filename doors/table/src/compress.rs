//! CSV files that are compressed, with gzip (RFC 1952) or Zstandard (RFC 8878): read by what they begin with, written by
//! what their name ends with.
//!
//! Both are streamed, so that a file that unpacks to far more than it has takes no more memory than another.

use std::io::{self, BufReader, Chain, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::error::{Result, TableError};
use crate::output::OutputFile;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The window that a Zstandard file may ask for, as a power of two: 128 MiB, what `zstd -d` allows.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How a CSV file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The compression that a file's name tells: `.gz` and `.zst` in any case.
    pub(crate) fn of_path(path: &Path) -> Option<Compression> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" => Some(Compression::Gzip),
            "zst" => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// Counts what is read through it.
struct Counted<R> {
    reader: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.count.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// A reader whose first bytes have been looked at.
type Peeked<R> = Chain<Cursor<Vec<u8>>, Counted<R>>;

enum Decoder<R: Read> {
    Plain(Peeked<R>),
    Gzip(Box<MultiGzDecoder<BufReader<Peeked<R>>>>),
    Zstd(zstd::Decoder<'static, BufReader<Peeked<R>>>),
}

/// The text of a CSV file that may be compressed.
pub(crate) struct CsvInput<R: Read> {
    decoder: Decoder<R>,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> CsvInput<R> {
    /// Looks at the first bytes of a file.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open(reader: R, path: &Path) -> Result<CsvInput<R>> {
        let on_read = |source| TableError::io(path, "read", source);
        let consumed = Arc::new(AtomicU64::new(0));
        let mut reader = Counted { reader, count: Arc::clone(&consumed) };
        let mut start = Vec::new();
        reader.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut start).map_err(on_read)?;
        let (is_gzip, is_zstd) = (start.starts_with(GZIP_MAGIC), start.starts_with(ZSTD_MAGIC));
        let peeked = Cursor::new(start).chain(reader);
        let decoder = if is_gzip {
            Decoder::Gzip(Box::new(MultiGzDecoder::new(BufReader::new(peeked))))
        } else if is_zstd {
            let mut decoder = zstd::Decoder::with_buffer(BufReader::new(peeked)).map_err(on_read)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(on_read)?;
            Decoder::Zstd(decoder)
        } else {
            Decoder::Plain(peeked)
        };
        Ok(CsvInput { decoder, consumed })
    }

    /// Bytes of the file that were read so far.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    /// The file's reader, which is at its end when the text is.
    pub(crate) fn into_inner(self) -> R {
        let peeked = match self.decoder {
            Decoder::Plain(peeked) => peeked,
            Decoder::Gzip(decoder) => decoder.into_inner().into_inner(),
            Decoder::Zstd(decoder) => decoder.finish().into_inner(),
        };
        peeked.into_inner().1.reader
    }
}

impl<R: Read> Read for CsvInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(reader) => reader.read(buffer),
            Decoder::Gzip(decoder) => decoder.read(buffer),
            Decoder::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// A CSV file that is written, compressed if its name says so.
#[allow(clippy::large_enum_variant, reason = "there is one of them in a job")]
pub(crate) enum CsvOutput {
    Plain(OutputFile),
    Gzip(GzEncoder<OutputFile>),
    Zstd(zstd::Encoder<'static, OutputFile>),
}

impl CsvOutput {
    /// Begins the text of an output.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn new(output: OutputFile) -> Result<CsvOutput> {
        let path = output.path().to_owned();
        let on_write = |source| TableError::io(&path, "write", source);
        Ok(match Compression::of_path(&path) {
            None => CsvOutput::Plain(output),
            Some(Compression::Gzip) => CsvOutput::Gzip(GzEncoder::new(output, flate2::Compression::default())),
            Some(Compression::Zstd) => {
                let mut encoder = zstd::Encoder::new(output, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(on_write)?;
                encoder.include_checksum(true).map_err(on_write)?;
                CsvOutput::Zstd(encoder)
            }
        })
    }

    /// Appends to the text.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self {
            CsvOutput::Plain(output) => output.write_all(bytes),
            CsvOutput::Gzip(encoder) => encoder.write_all(bytes),
            CsvOutput::Zstd(encoder) => encoder.write_all(bytes),
        };
        written.map_err(|source| TableError::io(self.path(), "write", source))
    }

    /// Where the file will be.
    pub(crate) fn path(&self) -> &Path {
        match self {
            CsvOutput::Plain(output) => output.path(),
            CsvOutput::Gzip(encoder) => encoder.get_ref().path(),
            CsvOutput::Zstd(encoder) => encoder.get_ref().path(),
        }
    }

    /// Ends the text, and returns the output that it was written to.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn finish(self) -> Result<OutputFile> {
        let path = self.path().to_owned();
        let finished = match self {
            CsvOutput::Plain(output) => Ok(output),
            CsvOutput::Gzip(encoder) => encoder.finish(),
            CsvOutput::Zstd(encoder) => encoder.finish(),
        };
        finished.map_err(|source| TableError::io(&path, "write", source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(file: &[u8]) -> std::result::Result<Vec<u8>, String> {
        let mut input = CsvInput::open(file, Path::new("t.csv")).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        input.read_to_end(&mut text).map_err(|error| error.to_string())?;
        assert_eq!(input.consumed(), file.len() as u64);
        assert!(input.into_inner().is_empty(), "the file is read to its end");
        Ok(text)
    }

    #[test]
    fn files_are_read_by_what_they_begin_with() {
        let text = b"a,b\n1,2\n".repeat(9999);
        assert_eq!(unpack(&text).unwrap(), text);
        assert_eq!(unpack(&gzip(&text)).unwrap(), text);
        assert_eq!(unpack(&zstd::encode_all(&text[..], 3).unwrap()).unwrap(), text);
        for short in [&b""[..], b"a", b"a,b"] {
            assert_eq!(unpack(short).unwrap(), short);
        }
    }

    #[test]
    fn files_of_several_members_are_read_whole() {
        let twice = [gzip(b"a\n1\n"), gzip(b"2\n")].concat();
        assert_eq!(unpack(&twice).unwrap(), b"a\n1\n2\n");
        let twice = [zstd::encode_all(&b"a\n1\n"[..], 3).unwrap(), zstd::encode_all(&b"2\n"[..], 3).unwrap()].concat();
        assert_eq!(unpack(&twice).unwrap(), b"a\n1\n2\n");
    }

    #[test]
    fn what_is_cut_short_or_followed_by_something_is_an_error() {
        for whole in [gzip(b"a\n1\n"), zstd::encode_all(&b"a\n1\n"[..], 3).unwrap()] {
            for len in 5..whole.len() {
                assert!(unpack(&whole[..len]).is_err(), "{len} of {}", whole.len());
            }
            assert!(unpack(&[&whole[..], b"more"].concat()).is_err());
        }
    }
}
