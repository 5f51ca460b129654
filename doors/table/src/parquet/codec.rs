//! Compresses pages that this program writes itself. Pages are decompressed by the `parquet` crate.

use std::io::{Read, Write};

use parquet::basic::Compression;
use parquet::errors::ParquetError;

use super::thrift::Parsed;

const GZIP_LEVEL: u32 = 6;
const BROTLI_BUFFER_LEN: usize = 4096;
const BROTLI_WINDOW: u32 = 22;

/// The page compressed, by the codec that the column chunk names.
///
/// # Errors
/// `NYI` for LZO; what a codec answers.
pub(crate) fn compress(codec: Compression, page: &[u8]) -> Parsed<Vec<u8>> {
    Ok(match codec {
        Compression::UNCOMPRESSED => page.to_vec(),
        Compression::SNAPPY => {
            snap::raw::Encoder::new().compress_vec(page).map_err(|error| ParquetError::General(error.to_string()))?
        }
        Compression::GZIP(_) => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(GZIP_LEVEL));
            encoder.write_all(page)?;
            encoder.finish()?
        }
        Compression::BROTLI(level) => {
            let mut encoder =
                brotli::CompressorReader::new(page, BROTLI_BUFFER_LEN, level.compression_level(), BROTLI_WINDOW);
            let mut compressed = Vec::new();
            encoder.read_to_end(&mut compressed)?;
            compressed
        }
        Compression::ZSTD(level) => zstd::bulk::compress(page, level.compression_level())?,
        Compression::LZ4_RAW => lz4_flex::block::compress(page),
        // Hadoop's frames: both lengths in big-endian order, then a block.
        Compression::LZ4 => {
            let block = lz4_flex::block::compress(page);
            let mut framed = Vec::with_capacity(block.len() + 8);
            for len in [page.len(), block.len()] {
                framed.extend_from_slice(&super::pages::size_i32(len).to_be_bytes());
            }
            framed.extend_from_slice(&block);
            framed
        }
        Compression::LZO => {
            return Err(ParquetError::NYI("columns compressed by LZO can only pass unchanged".to_owned()));
        }
    })
}
