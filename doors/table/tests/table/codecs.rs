//! Codecs of protected Parquet columns, and whether anything of a protected value is left in the file.

use std::fs::File;
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use ciphermill_table::{Codec, NoProgress, protect};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

use crate::{Bench, batch, read_parquet, write_parquet};

/// 3,000 rows: a text that repeats, and one of digits that does not.
fn table() -> RecordBatch {
    let town: ArrayRef =
        Arc::new((0..3000).map(|row| Some(format!("canary-town-{}", row % 7))).collect::<StringArray>());
    let phone: ArrayRef = Arc::new((0..3000).map(|row| Some(format!("7777{row:06}"))).collect::<StringArray>());
    batch(vec![("town", town), ("phone", phone)])
}

fn codecs(path: &Path) -> Vec<Compression> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
    metadata.row_group(0).columns().iter().map(|column| column.compression()).collect()
}

#[test]
fn every_codec_comes_back_and_can_be_asked_for() {
    let codec = |name: &str| name.parse::<Codec>().unwrap();
    let cases = [
        ("uncompressed", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("gzip", Compression::GZIP(Default::default())),
        ("brotli", Compression::BROTLI(Default::default())),
        ("zstd", Compression::ZSTD(Default::default())),
        ("lz4_raw", Compression::LZ4_RAW),
        ("lz4", Compression::LZ4),
    ];
    let original = table();
    for (at, (name, compression)) in cases.iter().enumerate() {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let bench = Bench::new();
            let properties =
                WriterProperties::builder().set_compression(*compression).set_writer_version(version).build();
            write_parquet(&bench.path("in.parquet"), from_ref(&original), Some(properties));
            bench.protect("in.parquet", "kept.parquet", &["town=deterministic", "phone=random"]).unwrap();
            assert_eq!(codecs(&bench.path("kept.parquet")), [*compression, Compression::UNCOMPRESSED], "{name}");

            let (asked, wanted) = cases[(at + 1) % cases.len()];
            let mut job = bench.job("in.parquet", "asked.parquet", &["town=deterministic"]);
            job.codec = Some(codec(asked));
            protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
            assert_eq!(codecs(&bench.path("asked.parquet")), [wanted, *compression], "{asked} for {name}");

            for output in ["kept.parquet", "asked.parquet"] {
                let back = format!("back-{output}");
                bench.unprotect(output, &back).unwrap();
                assert_eq!(read_parquet(&bench.path(&back)), original, "{name}, {output}");
                assert_eq!(codecs(&bench.path(&back)), [*compression; 2], "{name}, {output}");
            }
        }
    }
    assert!("lzo".parse::<Codec>().is_err(), "nothing here writes LZO");
}

#[test]
fn csv_has_no_codec() {
    let bench = Bench::new();
    bench.write("in.csv", "a\n1\n");
    let mut job = bench.job("in.csv", "out.csv", &["a=random"]);
    job.codec = Some("zstd".parse().unwrap());
    let words = bench.error(protect(&job, &bench.mill, &bench.root, &NoProgress), &["in.csv".to_owned()]);
    assert!(words.contains("Parquet"), "{words}");
}

/// Dictionaries, statistics of chunks and pages, page indices and bloom filters all hold values or parts of them.
#[test]
fn nothing_of_a_protected_value_is_left_in_the_file() {
    let bench = Bench::new();
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_write_page_header_statistics(true)
        .set_bloom_filter_enabled(true)
        .build();
    write_parquet(&bench.path("in.parquet"), from_ref(&table()), Some(properties));
    let holds = |name: &str, word: &[u8]| bench.read(name).windows(word.len()).any(|part| part == word);
    assert!(holds("in.parquet", b"canary-town-3") && holds("in.parquet", b"7777002999"));
    for (at, [town, phone]) in [
        ["town=random", "phone=random"],
        ["town=deterministic", "phone=deterministic"],
        ["town=token", "phone=token:len=16"],
        ["town=token", "phone=ff1"],
    ]
    .into_iter()
    .enumerate()
    {
        let output = format!("{at}.parquet");
        bench.protect("in.parquet", &output, &[town, phone]).unwrap();
        assert!(!holds(&output, b"canary-town"), "{town}");
        // Three thousand values of FF1 are hardly ever among those that begin with the same four digits.
        let clear = (0..3000).step_by(59).filter(|row| holds(&output, format!("7777{row:06}").as_bytes())).count();
        assert!(clear < 2, "{phone}: {clear} values are in clear");
    }
}
