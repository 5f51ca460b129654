"""Files that the command line protects, and tables that Python does: each restores and joins the other's."""

import json
import os
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ciphermill import Misuse, Protector, Refused

COLUMNS = {"name": "deterministic", "mail": "random", "card": "ff1:preset=card", "id": "deterministic:as-text", "zip": "token"}


@pytest.fixture
def files(tmp_path, keystore, key_file):
    """A table, and a function that runs the command line on it."""
    table = pa.table(
        {
            "id": pa.array(range(500), pa.int64()),
            "name": [None if row % 7 == 3 else f"Customer {row % 20}" for row in range(500)],
            "mail": [f"{row}@example.org" for row in range(500)],
            "card": [f"4929 1234 {row:04} 9012" for row in range(500)],
            "zip": [str(3000 + row % 9) for row in range(500)],
        }
    )
    pq.write_table(table, tmp_path / "clear.parquet")
    tool = os.environ["CIPHERMILL"]

    def run(*args):
        opening = ["--quiet", "--keystore", str(keystore.path), "--master-key-file", str(key_file)]
        settings = {"CIPHERMILL_CONFIG": os.devnull}
        subprocess.run([tool, *args, *opening], cwd=tmp_path, check=True, env={**os.environ, **settings})

    def protect(output, *more):
        columns = [f"--column={name}={how}" for name, how in COLUMNS.items()]
        run("protect", "clear.parquet", output, "--key", "customers", *columns, *more)
        return pq.read_table(tmp_path / output), tmp_path / f"{output}.ciphermill.json"

    return table, protect, run, tmp_path


def test_a_file_is_restored_by_its_manifest(files, key):
    table, protect, _, _ = files
    stored, manifest = protect("safe.parquet")
    again = Protector(key, manifest=manifest).unprotect(stored)
    assert again["zip"].type == pa.binary(), "tokens stay"
    assert again.drop_columns("zip").equals(table.drop_columns("zip"))
    # What is protected like the file joins with it.
    more = Protector(key, manifest=manifest).protect(table)
    for name in ("name", "card", "id", "zip"):
        assert more[name].to_pylist() == stored[name].to_pylist(), name
    assert not set(more["mail"].to_pylist()) & set(stored["mail"].to_pylist())
    columns = {name: how for name, how in COLUMNS.items() if name != "zip"}
    named = Protector(key, columns, types={"id": pa.int64()}).unprotect(stored)
    assert named.drop_columns("zip").equals(table.drop_columns("zip"))


def test_what_a_manifest_forbids(files, key, keystore):
    _, protect, _, place = files
    _, manifest = protect("safe.parquet")
    other = keystore.generate(f"not-{place.name}")
    with pytest.raises(Refused):
        Protector(other, manifest=manifest)
    altered = json.loads(manifest.read_text())
    altered["columns"][0]["logical"] = "nom"
    manifest.write_text(json.dumps(altered))
    with pytest.raises(Refused, match="altered"):
        Protector(key, manifest=manifest)
    manifest.write_text("{")
    with pytest.raises(Misuse, match="damaged manifest"):
        Protector(key, manifest=manifest)


def test_values_that_are_bound_to_their_rows_are_for_files(files, key):
    table, _, run, place = files
    run("protect", "clear.parquet", "bound.parquet", "--key", "customers", "--column=name=random", "--bind-row=id")
    stored = pq.read_table(place / "bound.parquet")
    protector = Protector(key, manifest=place / "bound.parquet.ciphermill.json")
    with pytest.raises(Misuse, match="bound to their rows"):
        protector.unprotect(stored, "name")
    with pytest.raises(Misuse, match="no column"):
        protector.unprotect(stored)
    assert stored.num_rows == table.num_rows


def test_a_rekeyed_file_is_under_the_new_version(files, keystore):
    table, _, run, place = files
    first = keystore.generate(f"rekeyed-{place.name}")
    columns = [f"--column={name}={how}" for name, how in COLUMNS.items() if name != "zip"]
    run("protect", "clear.parquet", "old.parquet", "--key", first.name, *columns)
    second = keystore.rotate(first.name)
    run("rekey", "old.parquet", "new.parquet", "--verify")
    stored = pq.read_table(place / "new.parquet")
    assert Protector(second, manifest=place / "new.parquet.ciphermill.json").unprotect(stored).equals(table)
    with pytest.raises(Refused, match="needs version 2"):
        Protector(first, manifest=place / "new.parquet.ciphermill.json")
