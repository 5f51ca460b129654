"""Columns of every library come back as what they were, and say what is wrong with them."""

import json

import duckdb
import nanoarrow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ciphermill
from ciphermill import Misuse, NotAuthentic, Protector, Refused

COLUMNS = {"name": "deterministic", "mail": "random", "card": "ff1:preset=card", "id": "deterministic:as-text"}


@pytest.fixture(scope="module")
def protector(key):
    return Protector(key, COLUMNS)


def table(rows=1000):
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "name": [None if row % 7 == 3 else f"Customer {row % 100}" for row in range(rows)],
            "mail": [f"{row}@example.org" if row % 5 else "" for row in range(rows)],
            "card": [f"4929 1234 {row:04} 9012" for row in range(rows)],
            "amount": [row / 8 for row in range(rows)],
        }
    )


def test_tables_of_pyarrow(protector):
    clear = table()
    stored = protector.protect(clear)
    assert isinstance(stored, pa.Table)
    assert [str(field.type) for field in stored.schema] == ["binary", "binary", "binary", "string", "double"]
    for name in COLUMNS:
        assert not set(stored[name].to_pylist()) & (set(clear[name].to_pylist()) - {None}), name
    assert stored["name"].null_count == clear["name"].null_count
    assert len(set(stored["name"].to_pylist())) == len(set(clear["name"].to_pylist()))
    assert len(set(stored["mail"].to_pylist())) == clear.num_rows
    assert protector.unprotect(stored).equals(clear, check_metadata=True)
    batch = clear.to_batches()[0]
    assert protector.unprotect(protector.protect(batch)).equals(batch)


def test_columns_that_say_how_they_were_protected_need_not_be_named(protector, key, tmp_path):
    clear = table()
    stored = protector.protect(clear)
    pq.write_table(stored, tmp_path / "customers.parquet")
    again = Protector(key).unprotect(pq.read_table(tmp_path / "customers.parquet"))
    assert again.equals(clear)
    mark = json.loads(stored.schema.field("name").metadata[b"ciphermill.column"])
    assert (mark["method"], mark["data_type"], mark["key"], mark["key_version"]) == ("deterministic", "Utf8", "customers", 1)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, -3], pa.int8()),
        pa.array([1, None, 2**40], pa.uint64()),
        pa.array([1.5, None], pa.float32()),
        pa.array([True, None, False]),
        pa.array(["", None, "\u00e4\u20ac", "x" * 1000], pa.large_string()),
        pa.array(["a", None, "b" * 40], pa.string_view()),
        pa.array([b"", None, b"\xff"], pa.binary()),
        pa.array([b"abcd", None], pa.binary(4)),
        pa.array([0, None, 86400000], pa.timestamp("ms", "UTC")),
        pa.array([10, None], pa.date32()),
        pa.array(["1.25", None]).cast(pa.decimal128(15, 2)),
        pa.array(["x", "y", "x", None]).dictionary_encode(),
        pa.array([], pa.string()),
        pa.nulls(5, pa.string()),
    ],
    ids=lambda values: f"{values.type}-{len(values)}",
)
@pytest.mark.parametrize("method", ["deterministic", "random"])
def test_types(key, values, method):
    protector = Protector(key, {"c": method}, types={"c": values.type})
    for array in (values, values[1:], values[:1]):
        stored = protector.protect(array)
        assert stored.null_count == array.null_count
        again = protector.unprotect(stored)
        if pa.types.is_dictionary(array.type):
            again, array = again.cast(pa.string()), array.cast(pa.string())
        assert again.type == array.type and again.equals(array)


def test_chunked_arrays_and_rows_in_errors(protector):
    chunked = pa.chunked_array([["a", "b"], ["c"], []])
    stored = protector.protect(chunked, "name")
    assert isinstance(stored, pa.ChunkedArray) and stored.num_chunks == 3
    assert protector.unprotect(stored, "name").equals(chunked)
    values = stored.to_pylist()
    values[2] = bytes([values[2][0] ^ 1]) + values[2][1:]
    changed = pa.chunked_array([values[:2], values[2:]])
    with pytest.raises(NotAuthentic, match="row 3, column `name`") as caught:
        protector.unprotect(changed, "name")
    assert (caught.value.column, caught.value.row) == ("name", 3)


def test_readers_are_read_as_they_are_asked_for(protector):
    seen = []

    def batches():
        for batch in table(100).to_batches(max_chunksize=10):
            seen.append(batch)
            yield batch

    reader = protector.protect(pa.RecordBatchReader.from_batches(table().schema, batches()))
    assert isinstance(reader, pa.RecordBatchReader) and not seen
    first = reader.read_next_batch()
    assert len(seen) == 1 and first.num_rows == 10
    rest = pa.Table.from_batches([first, *reader])
    assert protector.unprotect(rest).equals(table(100))

    stream = protector.protect_stream(table(100))
    assert protector.unprotect(pa.table(stream)).equals(table(100))
    with pytest.raises(Misuse, match="can be read once"):
        pa.table(stream)


def test_errors_in_streams_name_the_row(protector):
    cards = table(100)["card"].to_pylist()
    cards[57] = "no number"
    bad = pa.table({"card": cards})
    protector = Protector(protector.key, {"card": "ff1:preset=card"})
    with pytest.raises(Exception, match="row 58, column `card`"):
        pa.table(protector.protect_stream(bad))


def test_polars(protector):
    clear = pl.from_arrow(table())
    stored = protector.protect(clear)
    assert isinstance(stored, pl.DataFrame) and stored["name"].dtype == pl.Binary
    # polars keeps no metadata of fields.
    restoring = Protector(protector.key, COLUMNS, types={"id": pl.Series([], dtype=pl.Int64)})
    assert restoring.unprotect(stored).equals(clear)
    series = protector.protect(clear["name"], "name")
    assert isinstance(series, pl.Series) and series.name == "name" and series.dtype == pl.Binary
    assert protector.unprotect(series, "name").equals(clear["name"])


def test_pandas(protector):
    clear = table().to_pandas()
    clear.index = pd.Index(range(5, len(clear) + 5), name="number")
    stored = protector.protect(clear)
    assert isinstance(stored, pd.DataFrame) and isinstance(stored["name"].iloc[0], bytes)
    # Nor does pandas.
    again = Protector(protector.key, COLUMNS, types={"id": pa.int64()}).unprotect(stored)
    pd.testing.assert_frame_equal(again, clear)
    series = protector.protect(clear["name"], "name")
    assert series.name == "name" and series.index.equals(clear.index)
    pd.testing.assert_series_equal(protector.unprotect(series, "name"), clear["name"])


def test_nanoarrow_and_objects_of_no_library(protector):
    array = nanoarrow.Array(["a", "b", None], nanoarrow.string())
    stored = protector.protect(array, "name")
    assert isinstance(stored, (ciphermill.ArrowArray, ciphermill.ArrowStream))
    assert nanoarrow.Array(protector.unprotect(stored, "name")).to_pylist() == ["a", "b", None]


def test_joins_between_tables_of_different_programs(key):
    columns = {"customer": "deterministic:as=customer-id,as-text"}
    orders = Protector(key, columns).protect(pa.table({"customer": pa.array([1, 2, 2, 3], pa.int64()), "n": [1, 2, 3, 4]}))
    people = Protector(key, {"id": "deterministic:as=customer-id,as-text", "name": "random"}).protect(
        pl.DataFrame({"id": pl.Series(["1", "2", "4"]), "name": ["Ada", "Bo", "Cy"]})
    )
    joined = orders.to_pandas().merge(people.to_pandas(), left_on="customer", right_on="id")
    assert sorted(joined["n"]) == [1, 2, 3]
    joined = duckdb.sql("SELECT n FROM orders JOIN people ON customer = id ORDER BY n").fetchall()
    assert joined == [(1,), (2,), (3,)]
    joined = pl.from_arrow(orders).join(people, left_on="customer", right_on="id")
    assert sorted(joined["n"]) == [1, 2, 3]


def test_parts_of_structs(key):
    clear = pa.table({"address": [{"city": "Bern", "zip": "3000"}, None, {"city": None, "zip": "1"}], "n": [1, 2, 3]})
    protector = Protector(key, {"address.city": "deterministic", "address.zip": "random"})
    stored = protector.protect(clear)
    assert stored.schema.field("address").type.field("city").type == pa.binary()
    assert protector.unprotect(stored).equals(clear)
    assert Protector(key).unprotect(stored).equals(clear)


def test_manifests_that_are_not_there(key, tmp_path):
    with pytest.raises(Misuse, match="there is no manifest"):
        Protector(key, manifest=tmp_path / "none.json")


@pytest.mark.parametrize(
    "columns, error",
    [
        ({"nobody": "random"}, "there is no column `nobody`; the columns are `id`"),
        ({"name": "rot13"}, "unknown method `rot13`"),
        ({"name": {"as": "x"}}, 'no "method"'),
        ({"name": 5}, "write a method"),
        ({"name": {"method": "ff1", "preset": "card", "sep": "5"}}, "separator `5` is in the alphabet"),
        ({"amount": "ff1"}, "ff1 works on text columns"),
        ({"name": "ff1"}, "row 1, column `name`"),
    ],
)
def test_mistakes_are_named(key, columns, error):
    with pytest.raises(Misuse, match=error):
        Protector(key, columns).protect(table())


def test_other_mistakes(key, protector):
    stored = protector.protect(table())
    with pytest.raises(Misuse, match="protected already"):
        protector.protect(stored)
    with pytest.raises(Misuse, match="neither __arrow_c_array__ nor __arrow_c_stream__"):
        protector.protect(["a"], "name")
    with pytest.raises(Misuse, match="say which"):
        protector.protect(pa.array(["a"]))
    with pytest.raises(Misuse, match="none of the columns"):
        Protector(key, {"name": "random"}, types={"nam": "Utf8"})
    with pytest.raises(Misuse, match="not an Arrow type"):
        Protector(key, {"name": "random"}, types={"name": "text"})
    with pytest.raises(Misuse, match="no column was named"):
        Protector(key).unprotect(pa.table({"a": ["x"]}))
    tokens = Protector(key, {"name": "token"})
    with pytest.raises(Misuse, match="tokens, which cannot be restored"):
        tokens.unprotect(tokens.protect(pa.array(["a"])))
    nested = pa.table({"tags": [["a"]]})
    with pytest.raises(Misuse, match="column `tags`.*only flat types"):
        Protector(key, {"tags": "random"}).protect(nested)


def test_values_of_another_key_column_or_type_are_not_authentic(keystore, key):
    stored = Protector(key, {"a": "random"}).protect(pa.array(["x"]))
    other = keystore.generate("others")
    for protector in (Protector(other, {"a": "random"}), Protector(key, {"b": "random"}), Protector(key, {"a": "deterministic"})):
        with pytest.raises(NotAuthentic):
            protector.unprotect(pa.array(stored.to_pylist()))
    with pytest.raises(NotAuthentic):
        Protector(key, {"a": "random"}, types={"a": "Binary"}).unprotect(stored)


def test_a_retired_key_restores_only(keystore):
    first = keystore.generate("turning")
    stored = Protector(first, {"a": "random"}).protect(pa.table({"a": ["x"]}))
    second = keystore.rotate("turning")
    assert (second.version, keystore.key("turning").version) == (2, 2)
    retired = Protector(keystore.key("turning", 1), {"a": "random"})
    assert retired.unprotect(stored)["a"].to_pylist() == ["x"]
    with pytest.raises(Refused, match="retired"):
        retired.protect(pa.array(["y"]))
    with pytest.raises(Refused, match="needs version 1 of the key `turning`, and version 2 was given"):
        Protector(second).unprotect(stored)


def test_numpy_arrays_without_arrow_are_refused_with_a_hint(protector):
    with pytest.raises(Misuse, match="`ndarray`"):
        protector.protect(np.zeros(3), "name")


def test_columns_move_to_another_key_and_method(protector, keystore):
    new = keystore.generate("moved")
    clear = table()
    stored = protector.protect(clear)
    moved = protector.rekey(stored, new, {"mail": "deterministic"})
    assert [str(field.type) for field in moved.schema] == ["binary", "binary", "binary", "string", "double"]
    mark = json.loads(moved.schema.field("mail").metadata[b"ciphermill.column"])
    assert (mark["method"], mark["key"], mark["data_type"]) == ("deterministic", "moved", "Utf8")
    for name in COLUMNS:
        assert not set(moved[name].to_pylist()) & (set(stored[name].to_pylist()) - {None}), name
    assert moved["amount"].equals(stored["amount"])
    assert Protector(new).unprotect(moved).equals(clear, check_metadata=True)
    again = Protector(new, {**COLUMNS, "mail": "deterministic"})
    assert moved["name"].equals(again.protect(clear)["name"]), "what is protected under the new key at once"
    with pytest.raises((Misuse, NotAuthentic)):
        protector.unprotect(moved)
    part = protector.rekey(stored, new, column="name")
    assert part["mail"].equals(stored["mail"]) and not part["name"].equals(stored["name"])
    # Of other libraries, as streams, and as arrays of one column.
    names = protector.rekey(pl.from_arrow(stored["name"]), new, column="name")
    assert isinstance(names, pl.Series) and again.unprotect(names, "name").to_list() == clear["name"].to_pylist()
    reader = pa.RecordBatchReader.from_batches(stored.schema, stored.to_batches(max_chunksize=100))
    assert Protector(new).unprotect(pa.table(protector.rekey(reader, new))).equals(clear)


def test_what_does_not_move(protector, keystore, key):
    new = keystore.generate("moved-not")
    stored = protector.protect(table(20))
    with pytest.raises(Misuse, match="column `amount` is none of the columns"):
        protector.rekey(stored, new, {"amount": "random"})
    with pytest.raises(Misuse, match="values of ff1 keep their method"):
        protector.rekey(stored, new, {"card": "random"})
    values = stored["mail"].to_pylist()
    values[7] = values[7][:20] + bytes([values[7][20] ^ 1]) + values[7][21:]
    changed = stored.set_column(2, stored.schema.field("mail"), pa.array(values))
    with pytest.raises(NotAuthentic) as error:
        protector.rekey(changed, new)
    assert (error.value.column, error.value.row) == ("mail", 8)
    rotated = keystore.rotate("moved-not")
    with pytest.raises(Refused):
        Protector(key, COLUMNS).rekey(stored, keystore.key("moved-not", 1))
    assert Protector(rotated).unprotect(protector.rekey(stored, rotated)).equals(table(20))
