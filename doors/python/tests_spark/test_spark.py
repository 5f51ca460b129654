"""Columns of Spark data frames in executors that are processes of their own."""

import base64
import datetime
import decimal
import json
import os
import pathlib
import signal
import subprocess
import urllib.request

import pyarrow.parquet as pq
import pytest
from conftest import MASTER, PLAINTEXT, ROOT
from pyspark.sql import functions as F

import ciphermill
from ciphermill import Misuse
from ciphermill import spark as ciphers

COLUMNS = {"name": "deterministic", "mail": "random", "phone": "ff1:preset=phone", "id": "deterministic:as-text"}
SCHEMA = "id bigint, name string, mail string, phone string, amount double"


def rows(count=2000):
    return [
        (row, None if row % 7 == 3 else f"Customer {row % 50}", f"{row}@example.org", f"25-989-{row:03}-2988"[:15], row / 8)
        for row in range(count)
    ]


@pytest.fixture(scope="module")
def customers(spark):
    return spark.createDataFrame(rows(), SCHEMA).repartition(4, "id")


def sorted_rows(df):
    return sorted((tuple(row) for row in df.collect()), key=lambda row: row[0])


def test_round_trip_through_parquet(spark, customers, place):
    stored = ciphers.protect(customers, COLUMNS, key="customers")
    assert [field.dataType.simpleString() for field in stored.schema] == ["binary", "binary", "binary", "string", "double"]
    folder = str(place / "customers.parquet")
    stored.write.parquet(folder)
    again = spark.read.parquet(folder)
    assert again.schema["name"].metadata[ciphers.MARK]["key"] == "customers"
    clear = ciphers.unprotect(again)
    assert clear.schema.simpleString() == customers.schema.simpleString()
    assert sorted_rows(clear) == sorted(rows())
    some = ciphers.unprotect(again, ["name"]).schema
    assert [field.dataType.simpleString() for field in some] == ["binary", "string", "binary", "string", "double"]
    # The same values as everywhere else.
    key = ciphermill.Keystore.open(place / "keys", key_file=place / "master.key").key("customers")
    one = ciphermill.Protector(key, COLUMNS)
    import pyarrow as pa

    table = pq.read_table(folder)
    mine = one.unprotect(table.select(["name", "mail", "phone"]))
    assert set(mine["mail"].to_pylist()) == {row[2] for row in rows()}
    names = {value.as_py() for value in table["name"]}
    assert one.protect(pa.array(["Customer 5"]), "name").to_pylist()[0] in names


def test_types_come_back(spark):
    schema = "a int, b decimal(15,2), c date, d timestamp, e boolean, f binary, s struct<x: string, y: int>"
    data = [
        (1, decimal.Decimal("1.25"), datetime.date(2020, 2, 29), datetime.datetime(2020, 1, 1, 12), True, b"\xff", ("in", 5)),
        (None, None, None, None, None, None, None),
    ]
    df = spark.createDataFrame(data, schema)
    names = ["a", "b", "c", "d", "e", "f", "s.x"]
    stored = ciphers.protect(df, {name: "random" for name in names}, key="customers")
    clear = ciphers.unprotect(stored)
    assert clear.schema.simpleString() == df.schema.simpleString()
    assert sorted(map(str, clear.collect())) == sorted(map(str, df.collect()))


def test_joins_and_sql(spark, customers):
    orders = spark.createDataFrame([(row % 50, row) for row in range(300)], "customer int, total int").withColumn(
        "customer_name", F.concat(F.lit("Customer "), F.col("customer").cast("string"))
    )
    left = ciphers.protect(customers, {"name": "deterministic"}, key="customers")
    right = ciphers.protect(orders, {"customer_name": "deterministic:as=name"}, key="customers")
    clear = customers.join(orders, customers.name == orders.customer_name).count()
    assert clear > 0 and left.join(right, left.name == right.customer_name).count() == clear

    functions = ciphers.register(spark, COLUMNS, key="customers", types={"id": "bigint"})
    assert set(functions) == {"protect", "protect_text", "unprotect", "unprotect_bigint"}
    ciphers.protect(customers, COLUMNS, key="customers").createOrReplaceTempView("stored")
    found = spark.sql("SELECT unprotect('name', name) AS n, count(*) AS c FROM stored GROUP BY 1").collect()
    assert {row.n for row in found} == {row[1] for row in rows()} and sum(row.c for row in found) == len(rows())
    found = spark.sql("SELECT unprotect_bigint('id', id) AS i FROM stored WHERE name = protect('name', 'Customer 5')").collect()
    assert sorted(row.i for row in found) == [row[0] for row in rows() if row[1] == "Customer 5"]
    customers.createOrReplaceTempView("clear")
    assert spark.sql("SELECT protect_text('phone', phone) AS p FROM clear LIMIT 1").collect()[0].p
    with pytest.raises(Exception, match="literal name of one column: name, mail"):
        spark.sql("SELECT unprotect('nam', name) FROM stored").collect()


def test_rekey(spark, customers, place):
    keystore = ciphermill.Keystore.open(place / "keys", key_file=place / "master.key")
    keystore.generate("rekeyed")
    stored = ciphers.protect(customers, COLUMNS, key="customers")
    moved = ciphers.rekey(stored, "rekeyed", columns={"mail": "deterministic"})
    assert moved.schema["mail"].metadata[ciphers.MARK]["key"] == "rekeyed"
    assert sorted_rows(ciphers.unprotect(moved)) == sorted(rows())
    with pytest.raises(Misuse, match="not protected: amount"):
        ciphers.rekey(stored, "rekeyed", columns={"amount": "random"})


def tool(place, *args):
    """The command line, on the keystore of the tests."""
    with_key = [*args, "--keystore", str(place / "keys"), "--master-key-file", str(place / "master.key")]
    ran = subprocess.run([os.environ["CIPHERMILL"], *with_key], capture_output=True, text=True, env={"HOME": str(place)})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_folder_with_its_manifest_goes_through_the_command_line(spark, customers, place):
    ciphermill.Keystore.open(place / "keys", key_file=place / "master.key").generate("of-folder")
    df = (
        customers.withColumn("day", F.col("id") % 3)
        .withColumn("born", F.to_date(F.lit("1999-02-28")) + (F.col("id") % 90).cast("int"))
        .withColumn("at", F.timestamp_seconds(F.col("id") * 1001))
        .withColumn("balance", (F.col("id") / 7).cast("decimal(15,2)"))
        .withColumn("active", F.col("id") % 2 == 0)
        .withColumn("raw", F.unhex(F.hex("mail")))
    )
    columns = {**COLUMNS, "born": "random", "at": "deterministic", "balance": "random", "active": "random", "raw": "random"}
    folder = place / "with-manifest"
    count = ciphers.write_parquet(ciphers.protect(df, columns, key="customers"), str(folder), partition_by=["day"])
    assert count == len(list(folder.rglob("*.parquet"))) and (folder / "_SUCCESS").exists()
    found = json.loads(tool(place, "inspect", str(folder), "--verify", "--json"))
    assert found["signature"]["result"] == "verified" and len(found["tables"]) == count
    for table in found["tables"].values():
        assert [table[what]["result"] for what in ("hash", "signature", "values")] == ["verified"] * 3
    nulls = sum(table["columns"][1]["nulls"] for table in found["tables"].values())
    assert nulls == sum(row[1] is None for row in rows())

    # Spark still reads the folder, and reads what the command line has made of it.
    order = ["id", "name", "mail", "phone", "amount", "born", "at", "balance", "active", "raw", "day"]
    wanted = [tuple(row) for row in df.select(order).sort("id").collect()]
    read = lambda df: [tuple(row) for row in df.select(order).sort("id").collect()]  # noqa: E731
    assert read(ciphers.unprotect(spark.read.parquet(str(folder)))) == wanted
    tool(place, "unprotect", str(folder), str(place / "in-clear"))
    clear = spark.read.parquet(str(place / "in-clear"))
    assert read(clear) == wanted
    assert [clear.schema[name].dataType for name in order[:-1]] == [df.schema[name].dataType for name in order[:-1]]
    tool(place, "rekey", str(folder), "--in-place", "--key", "of-folder", "--column", "mail=deterministic")
    moved = spark.read.parquet(str(folder))
    assert moved.schema["mail"].metadata[ciphers.MARK] == {
        "method": "deterministic:as=mail", "type": "string", "key": "of-folder", "version": 1,
    }  # fmt: skip
    assert read(ciphers.unprotect(moved)) == wanted


def test_manifests_are_for_folders_of_protected_files(spark, customers, place):
    plain = str(place / "plain")
    customers.write.parquet(plain)
    with pytest.raises(Misuse, match="no column's metadata say"):
        ciphers.write_manifest(spark, plain)
    with pytest.raises(Misuse, match="not through `s3a:`"):
        ciphers.write_parquet(customers, "s3a://bucket/folder")
    twice = "file://" + str(place / "twice")
    stored = ciphers.protect(customers, {"name": "deterministic"}, key="customers")
    first = ciphers.write_parquet(stored, twice)
    assert ciphers.write_parquet(stored, twice, mode="append") == 2 * first
    tool(place, "inspect", str(place / "twice"), "--verify")
    with pytest.raises(Exception, match="already exists"):
        ciphers.write_parquet(stored, twice)


def test_mistakes_are_named_before_anything_runs(spark, customers):
    stored = ciphers.protect(customers, {"name": "random"}, key="customers")
    for call, error in (
        (lambda: ciphers.protect(customers, {"nam": "random"}, key="customers"), "no column `nam`; the columns are id, name"),
        (lambda: ciphers.protect(customers, {"id.x": "random"}, key="customers"), "only parts of structs"),
        (lambda: ciphers.protect(customers, {"name": "rot13"}, key="customers"), "unknown method"),
        (lambda: ciphers.protect(stored, {"name": "random"}, key="customers"), "protected already"),
        (lambda: ciphers.protect(customers, {"name": "random"}, key="nobody"), "nobody"),
        (lambda: ciphers.unprotect(customers), "no column was named"),
        (lambda: ciphers.unprotect(customers, ["name"]), "do not say how"),
        (lambda: ciphers.unprotect(stored, key="others"), "under the key customers version 1"),
        (lambda: ciphers.protect(customers, {}, key="customers"), "no column was named"),
    ):
        with pytest.raises(Misuse, match=error):
            call()


def test_errors_of_values_name_host_partition_and_row(spark):
    df = spark.createDataFrame([(f"{row:010}" if row != 57 else "n/a",) for row in range(100)], "c string").coalesce(1)
    with pytest.raises(Exception, match=r"host .*, partition 0: table: row 58, column `c`"):
        ciphers.protect(df, {"c": "ff1"}, key="customers").collect()


def test_workers_without_the_keystore_say_so(spark, customers, place):
    assert len(ciphers.check(spark, "customers")) >= 1
    missing = ciphers.FileOpener(str(place / "nowhere"), key_file=str(place / "master.key"))
    with pytest.raises(Misuse, match="host .*: keystore .*nowhere: .*No such file"):
        ciphers.check(spark, "customers", version=1, opener=missing)
    with pytest.raises(Exception) as caught:
        ciphers.protect(customers, {"name": "random"}, key="customers", version=1, opener=missing).collect()
    text = str(caught.value)
    assert "keystore " in text and "nowhere" in text and "No such file" in text and "at org.apache.spark" not in text
    with pytest.raises(Misuse, match="the driver cannot look up"):
        ciphers.protect(customers, {"name": "random"}, key="customers", opener=missing)


def test_a_killed_executor_is_replaced(spark, customers, place):
    """Its partitions run again elsewhere; what is deterministic is the same, what is random valid."""
    before = {row.name for row in ciphers.protect(customers, {"name": "deterministic"}, key="customers").select("name").collect()}
    marker = place / "killed"

    def kill(batches):
        # A worker's parent is Spark's daemon, and its parent the executor.
        for batch in batches:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield batch
                continue
            daemon = int(pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().split(") ")[1].split()[1])
            os.kill(daemon, signal.SIGKILL)
            yield batch

    stored = ciphers.protect(customers.mapInArrow(kill, customers.schema), {"name": "deterministic", "mail": "random"}, key="customers")
    found = stored.collect()
    assert marker.exists() and {row.name for row in found} == before
    clear = ciphers.unprotect(spark.createDataFrame(found, stored.schema))
    assert sorted(row.mail for row in clear.collect()) == sorted(row[2] for row in rows())


def test_an_output_that_exists_stays(spark, customers, place):
    folder = str(place / "exists.parquet")
    ciphers.protect(customers, {"name": "random"}, key="customers").write.parquet(folder)
    files = sorted(os.listdir(folder))
    with pytest.raises(Exception, match="already exists"):
        ciphers.protect(customers, {"name": "random"}, key="customers").write.parquet(folder)
    assert sorted(os.listdir(folder)) == files


def forms(secret):
    """How bytes may have been written somewhere."""
    plain = secret if isinstance(secret, bytes) else secret.encode()
    found = {plain, plain.hex().encode(), plain.hex().upper().encode()}
    for at in range(3):
        # In base64 wherever within longer data; the ends, which depend on their neighbours, left out.
        encoded = base64.b64encode(bytes(at) + plain)[4 if at else 0 : -4]
        found |= {encoded, encoded.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def holders(folders, secret):
    """The files that hold a secret in some form."""
    needles, found = forms(secret), []
    for folder in folders:
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file() and path.name not in ("master.key",):
                content = path.read_bytes()
                if any(needle in content for needle in needles):
                    found.append(str(path))
    return found


def test_no_key_leaks(spark, place, capfd):
    """Event log, explanations, the UI's JSON, spilled and shuffled blocks and logs hold no byte of a key, though the search
    finds a plaintext that is there."""
    df = spark.range(20000).select(
        F.concat(F.lit(PLAINTEXT + "-"), (F.col("id") % 500).cast("string")).alias("name"), F.col("id").alias("n")
    )
    stored = ciphers.protect(df, {"name": "deterministic", "n": "random"}, key="customers")
    shuffled = stored.groupBy("name").agg(F.count("*").alias("c")).persist()
    assert shuffled.count() == 500
    assert ciphers.unprotect(stored.repartition(3)).groupBy("name").count().count() == 500
    texts = []
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        shuffled.explain(mode=mode)
        texts.append(capfd.readouterr().out)
        stored.explain(mode=mode)
        texts.append(capfd.readouterr().out)
    assert all(texts) and "mapinarrow" in "".join(texts).lower()
    url = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    for page in ("environment", "jobs", "stages?details=true", "sql?details=true&planDescription=true", "allexecutors"):
        with urllib.request.urlopen(f"{url}/{page}") as answer:
            texts.append(answer.read().decode())
    texts.append(json.dumps(dict(spark.sparkContext.getConf().getAll())))
    for text in texts:
        for key in (MASTER, ROOT):
            assert not any(form in text.encode() for form in forms(key))
    folders = [place / name for name in ("events", "local", "work")]
    for folder in folders[:2]:
        assert holders([folder], PLAINTEXT), f"the search finds what is there, in {folder.name}"
    for key in (MASTER, ROOT):
        assert holders(folders, key) == []
        assert holders([place], key) == [], "nor elsewhere in the job's folder, the keystore included"

    # A function within the test travels with its code; the workers know nothing of this file.
    def kept_out_of_dumps(opener):
        keystore = opener.open()
        flags = [set(line.split()[1:]) for line in open("/proc/self/smaps") if line.startswith("VmFlags")]
        return keystore is not None and any({"dd", "dc"} <= of_pages for of_pages in flags)

    opener = ciphers.FileOpener.of(spark)
    assert spark.sparkContext.parallelize([opener], 1).map(kept_out_of_dumps).collect() == [True]
