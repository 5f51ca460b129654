"""Spark in two executors of their own processes, with a keystore whose keys are canaries: bytes that are looked for
everywhere afterwards."""

import os
import pathlib
import sys

import pytest

import ciphermill

MASTER = bytes(range(0xC1, 0xC1 + 32))
ROOT = bytes((7 * at + 0x35) % 256 for at in range(32))
PLAINTEXT = "canary-in-clear-5309"


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("spark")
    with open(os.open(place / "master.key", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(MASTER)
    keystore = ciphermill.Keystore.create(place / "keys", key_file=place / "master.key")
    keystore.import_key("customers", ROOT)
    for folder in ("events", "local", "work"):
        (place / folder).mkdir()
    return place


@pytest.fixture(scope="session")
def spark(place):
    # Before the JVM begins, which hands it on to the executors.
    os.environ["SPARK_WORKER_DIR"] = str(place / "work")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    site = str(pathlib.Path(ciphermill.__file__).parent.parent)
    session = (
        SparkSession.builder.master(os.environ.get("SPARK_MASTER_URL", "local-cluster[2,1,1024]"))
        .appName("ciphermill")
        .config("spark.executorEnv.PYTHONPATH", site)
        .config("spark.ciphermill.keystore", str(place / "keys"))
        .config("spark.ciphermill.keyFile", str(place / "master.key"))
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", (place / "events").as_uri())
        .config("spark.local.dir", str(place / "local"))
        # The search for keys does not see through compression.
        .config("spark.eventLog.compress", "false")
        .config("spark.shuffle.compress", "false")
        .config("spark.shuffle.spill.compress", "false")
        .config("spark.broadcast.compress", "false")
        .config("spark.sql.inMemoryColumnarStorage.compressed", "false")
        # Nor does it find blocks that are gone, as they are when a collection of garbage in the driver meets their plan.
        .config("spark.cleaner.referenceTracking", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.session.timeZone", "Europe/Zurich")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
