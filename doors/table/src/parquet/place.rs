//! A file that several threads read at once. The library's own reader of files moves the position that all handles of a
//! file share.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

/// A file that is read at places, for the library.
pub(crate) struct Placed(pub(crate) Arc<File>);

/// Reads a file on from a place.
pub(crate) struct FromPlace {
    file: Arc<File>,
    at: u64,
}

impl Read for FromPlace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.file.read_at(buffer, self.at)?;
        self.at += len as u64;
        Ok(len)
    }
}

impl Length for Placed {
    fn len(&self) -> u64 {
        Length::len(&*self.0)
    }
}

impl ChunkReader for Placed {
    type T = BufReader<FromPlace>;

    fn get_read(&self, start: u64) -> Result<BufReader<FromPlace>, ParquetError> {
        Ok(BufReader::with_capacity(HEADER_LEN_USUAL, FromPlace { file: Arc::clone(&self.0), at: start }))
    }

    /// The limits on pages bound `len`.
    fn get_bytes(&self, start: u64, len: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = vec![0; len];
        match self.0.read_exact_at(&mut bytes, start) {
            Ok(()) => Ok(bytes.into()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(ParquetError::EOF(format!("{len} bytes are not there")))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// What is read at a time where a page's header is.
const HEADER_LEN_USUAL: usize = 1 << 10;
