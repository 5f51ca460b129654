"""Writes small Parquet files of every type, encoding and codec with the programs that people use.

Usage: make.py [--each] DIRECTORY WRITER...   with writers of pyarrow, pandas, polars, duckdb, fastparquet, spark.
Values are fixed, so that the files differ with the writers' versions only. With --each every type gets files of its own,
which hold it in two columns, so that programs that do not take one of the types can read the others.
"""

import datetime as dt
import decimal
import itertools
import shutil
import sys
import uuid
from pathlib import Path

ROWS = 60


def columns():
    some = lambda make: [None if row % 7 == 3 else make(row) for row in range(ROWS)]
    day = dt.date(1970, 1, 1)
    return {
        "id": list(range(ROWS)),
        "text": some(lambda row: f"text {row % 11}"),
        "small": some(lambda row: row % 100 - 50),
        "real": some(lambda row: row / 3),
        "truth": some(lambda row: row % 2 == 0),
        "amount": some(lambda row: decimal.Decimal(row * 100 - 3000) / 100),
        "day": some(lambda row: day + dt.timedelta(days=row * 321)),
        "moment": some(lambda row: dt.datetime(2001, 2, 3) + dt.timedelta(microseconds=row * 1_000_003)),
        "bytes": some(lambda row: bytes([row, 255 - row])),
    }


def pyarrow(folder, each):
    import pyarrow as pa
    import pyarrow.parquet as pq

    values = columns()
    table = pa.table({
        **values,
        "int8": pa.array(values["small"], pa.int8()),
        "uint64": pa.array([2**63 + row for row in range(ROWS)], pa.uint64()),
        "half": pa.array(values["real"], pa.float16()),
        "wide": pa.array([decimal.Decimal(row - 30) * 10**40 for row in range(ROWS)], pa.decimal256(60, 0)),
        "date64": pa.array(values["day"], pa.date64()),
        "time": pa.array([dt.time(row % 24, row) for row in range(ROWS)], pa.time64("us")),
        "zoned": pa.array(values["moment"], pa.timestamp("ns", "Europe/Zurich")),
        "seconds": pa.array(values["moment"], pa.timestamp("s")),
        "fixed": pa.array([bytes([row] * 5) for row in range(ROWS)], pa.binary(5)),
        "uuid": pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([uuid.UUID(int=row).bytes for row in range(ROWS)], pa.binary(16))
        ),
        "category": pa.DictionaryArray.from_arrays(
            pa.array([None if row % 9 == 4 else row % 3 for row in range(ROWS)], pa.int8()),
            pa.array(["zebra", "ape", "bee", "unused"]), ordered=True,
        ),
        "null": pa.nulls(ROWS),
        "list": pa.array([[row, None] for row in range(ROWS)]),
        "struct": pa.array([{"a": row, "b": str(row)} for row in range(ROWS)]),
        "view": pa.array(values["text"], pa.string_view()),
    })
    table = table.replace_schema_metadata({"origin": "here"})
    if each:
        return pyarrow_each(folder, table)
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        pq.write_table(table, folder / f"pyarrow-{codec}.parquet", compression=codec, row_group_size=40)
    plain = table.drop_columns(["category", "null"])
    encodings = {"text": "DELTA_BYTE_ARRAY", "bytes": "DELTA_LENGTH_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED",
                 "real": "BYTE_STREAM_SPLIT", "fixed": "BYTE_STREAM_SPLIT"}
    pq.write_table(plain, folder / "pyarrow-v2.parquet", data_page_version="2.0", use_dictionary=False,
                   column_encoding=encodings, write_page_index=True, store_schema=False, write_page_checksum=True)
    pq.write_table(plain.select(["id", "moment", "text"]), folder / "pyarrow-int96.parquet",
                   use_deprecated_int96_timestamps=True, bloom_filter_options={"text": {"ndv": 60}})


def pyarrow_each(folder, table):
    import pyarrow.parquet as pq
    import pyarrow.types as types

    def encoding(kind):
        if types.is_integer(kind) or types.is_temporal(kind):
            return "DELTA_BINARY_PACKED"
        if types.is_floating(kind) or types.is_fixed_size_binary(kind):
            return "BYTE_STREAM_SPLIT"
        return "DELTA_BYTE_ARRAY" if types.is_string(kind) else "DELTA_LENGTH_BYTE_ARRAY" if types.is_binary(kind) else None

    codecs = itertools.cycle(["snappy", "zstd", "gzip", "none", "brotli", "lz4"])
    for name in table.column_names[1:]:
        pair = table.select(["id", name]).append_column(table.field(name).with_name("other"), table[name])
        ways = {"dictionary": {}, "plain": {"use_dictionary": False, "data_page_version": "2.0"}}
        if special := encoding(pair.field(name).type):
            ways["delta"] = {**ways["plain"], "column_encoding": {name: special, "other": special}}
        for way, options in ways.items():
            pq.write_table(pair, folder / f"pyarrow-{name}-{way}.parquet", compression=next(codecs), row_group_size=40, **options)


def pandas(folder, each):
    import pandas as pd

    frame = pd.DataFrame(columns()).drop(columns=["amount"])
    frame["grade"] = pd.Categorical(["b", "a", "c"] * (ROWS // 3), categories=["c", "b", "a", "never"], ordered=True)
    frame["nullable"] = pd.array([None, 1, 2] * (ROWS // 3), dtype="Int32")
    frame.index = [f"row {row}" for row in range(ROWS)]
    writer = f"pandas-{pd.__version__.split('.')[0]}"
    if not each:
        return frame.to_parquet(folder / f"{writer}.parquet")
    for name in frame.columns[1:]:
        frame[["id", name]].assign(other=frame[name]).to_parquet(folder / f"{writer}-{name}.parquet")


def polars(folder, each):
    import polars as pl

    frame = pl.DataFrame(columns()).with_columns(
        pl.col("text").cast(pl.Categorical).alias("category"),
        pl.Series("enum", ["x", "y"] * (ROWS // 2), dtype=pl.Enum(["z", "y", "x"])),
        pl.Series("big", [10**20 + row for row in range(ROWS)], dtype=pl.Int128),
        pl.Series("span", [dt.timedelta(seconds=row) for row in range(ROWS)]),
    )
    if not each:
        return frame.write_parquet(folder / "polars.parquet", statistics="full")
    codecs = itertools.cycle(["zstd", "snappy", "uncompressed", "gzip", "brotli", "lz4"])
    for name in frame.columns[1:]:
        pair = frame.select("id", name, pl.col(name).alias("other"))
        pair.write_parquet(folder / f"polars-{name}.parquet", compression=next(codecs))


def duckdb(folder, each):
    import duckdb

    rows = duckdb.sql(f"""SELECT range AS id, 'text ' || range % 11 AS text, range::UTINYINT AS tiny,
        range::HUGEINT AS huge, (range / 3)::DECIMAL(9, 2) AS amount, ('00000000-0000-4000-8000-' || lpad(range::VARCHAR, 12, '0'))::UUID AS uuid, '{{"a": 1}}'::JSON AS json,
        TIMETZ '01:02:03+04' AS timetz, INTERVAL (range) DAY AS span, [range] AS list,
        CASE WHEN range % 2 = 0 THEN 'x' ELSE 'y' END::ENUM('y', 'x', 'z') AS enum FROM range({ROWS})""")
    if not each:
        return duckdb.sql(f"COPY rows TO '{folder}/duckdb.parquet' (FORMAT parquet, COMPRESSION zstd)")
    codecs = itertools.cycle(["snappy", "zstd", "gzip", "uncompressed", "brotli", "lz4_raw"])
    for name, version in itertools.product(rows.columns[1:], ["v1", "v2"]):
        duckdb.sql(f"""COPY (SELECT id, "{name}", "{name}" AS other FROM rows) TO '{folder}/duckdb-{name}-{version}.parquet'
            (FORMAT parquet, COMPRESSION {next(codecs)}, PARQUET_VERSION {version})""")


def fastparquet(folder, each):
    import fastparquet as fp
    import pandas as pd

    frame = pd.DataFrame({"id": range(ROWS), "text": [f"text {row % 11}" for row in range(ROWS)],
                          "real": [row / 3 for row in range(ROWS)]})
    frame["grade"] = pd.Categorical(["b", "a", "c"] * (ROWS // 3), categories=["c", "b", "a", "never"], ordered=True)
    if not each:
        return fp.write(str(folder / "fastparquet.parquet"), frame, compression="GZIP")
    frame["moment"] = pd.Timestamp("2001-02-03") + pd.to_timedelta(frame["id"], "s")
    frame["truth"] = frame["id"] % 2 == 0
    for name, times in itertools.product(frame.columns[1:], ["int64", "int96"]):
        pair = frame[["id", name]].assign(other=frame[name])
        fp.write(str(folder / f"fastparquet-{name}-{times}.parquet"), pair, compression="ZSTD", times=times)


# Spark writes these by itself, so that no Python function runs in its workers.
SPARK_COLUMNS = {
    "id": "id",
    "byte": "cast(id - 30 as byte)",
    "short": "cast(id * 400 - 9000 as short)",
    "int": "cast(id * 100000 as int)",
    "long": "id * 10000000000",
    "float": "cast(case id when 1 then 'NaN' when 2 then '-0.0' else id / 3 end as float)",
    "double": "cast(case id when 1 then 'NaN' when 2 then '-Infinity' else id / 3 end as double)",
    "truth": "id % 2 = 0",
    "text": "concat('text ', id % 11)",
    "char": "cast(concat('c', id % 5) as char(5))",
    "empty": "''",
    "binary": "unhex(hex(id))",
    "decimal32": "cast((id - 30) / 8 as decimal(9,3))",
    "decimal64": "cast((id - 30) / 8 as decimal(18,4))",
    "decimal128": "cast(concat(id - 30, '0000000000000000000000000000001.5') as decimal(38,1))",
    "day": "date_from_unix_date(cast(id as int) * 321 - 9000)",
    "moment": "timestamp_micros(id * 31536000000000 + 1000003)",
    "local": "timestamp_ntz'2001-02-03 04:05:06.789' + make_dt_interval(cast(id as int))",
    "months": "make_ym_interval(cast(id as int), 1)",
    "span": "make_dt_interval(cast(id as int), 2, 3, 4.5)",
    "array": "array(id, null, id + 1)",
    "map": "map(concat('key ', id % 3), id)",
    "struct": "named_struct('a', id, 'b', named_struct('c', cast(id as string)))",
    "structs": "array(named_struct('a', id, 'b', array(cast(id as string))))",
    "nothing": "cast(null as void)",
    "variant": "parse_json(concat('{\"a\": ', id, '}'))",
}


def spark(folder, each):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.driver.memory", "512m")
    for key in ["spark.ui.enabled", "spark.ui.showConsoleProgress"]:
        builder = builder.config(key, "false")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    rows = session.range(ROWS).selectExpr(*[
        f"{make} as id" if name == "id" else f"if(id % 7 = 3, null, {make}) as `{name}`"
        for name, make in SPARK_COLUMNS.items()
    ])
    most = rows.drop("variant")

    def write(name, frame, settings=None, partition=(), **options):
        for key, value in {"outputTimestampType": "TIMESTAMP_MICROS", "writeLegacyFormat": "false", **(settings or {})}.items():
            session.conf.set(f"spark.sql.parquet.{key}", value)
        written = folder / f"{name}.written"
        options = {key.replace("__", "."): value for key, value in options.items()}
        frame.coalesce(1).write.options(**options).partitionBy(*partition).parquet(str(written))
        for part in written.rglob("*.parquet"):
            place = folder / name / part.relative_to(written).parent / "part.parquet" if partition else folder / f"{name}.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            part.rename(place)
        shutil.rmtree(written)

    if each:
        for name, codec in zip(rows.columns[1:], itertools.cycle(["snappy", "zstd", "none", "gzip", "lz4_raw"])):
            pair = rows.selectExpr("id", f"`{name}`", f"`{name}` as other")
            write(f"spark-{name}", pair, compression=codec)
            if name in ["decimal32", "decimal64", "decimal128", "moment"]:
                write(f"spark-{name}-legacy", pair, {"outputTimestampType": "INT96", "writeLegacyFormat": "true"}, compression=codec)
        return session.stop()
    write("spark", rows, parquet__block__row__count__limit=25, parquet__page__row__count__limit=10)
    bloom = {"parquet.bloom.filter.enabled#text": "true", "parquet.bloom.filter.expected.ndv#text": "20"}
    write("spark-v2", most, parquet__writer__version="PARQUET_2_0", compression="zstd", **bloom)
    write("spark-v2-plain", most, parquet__writer__version="PARQUET_2_0", parquet__enable__dictionary="false", compression="gzip")
    write("spark-legacy", most.drop("local"), {"outputTimestampType": "INT96", "writeLegacyFormat": "true"})
    write("spark-millis", rows.select("id", "moment", "text"), {"outputTimestampType": "TIMESTAMP_MILLIS"})
    few = rows.select("id", "int", "double", "text", "decimal128", "moment", "array")
    for codec in ["none", "gzip", "zstd", "lz4", "lz4_raw"]:
        write(f"spark-{codec}", few, compression=codec)
    write("spark-partitioned", rows.selectExpr("id", "text", "decimal64", "id % 3 as turn"), partition=["turn"])
    session.stop()


if __name__ == "__main__":
    each = sys.argv[1] == "--each"
    target, *writers = sys.argv[2:] if each else sys.argv[1:]
    Path(target).mkdir(parents=True, exist_ok=True)
    for writer in writers:
        globals()[writer](Path(target), each)
