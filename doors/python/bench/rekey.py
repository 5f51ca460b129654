"""`ciphermill rekey` of a Parquet table, against `unprotect` and `protect` one after the other.

    CIPHERMILL=target/release/ciphermill python bench/rekey.py [ROWS]      (1,500,000: TPC-H customer at scale 10)

Four of eight columns are protected. Prints seconds of five rounds each, on one thread and on two, and the factor of the medians.
"""

import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq

ROUNDS = 5
COLUMNS = ("c_name", "c_address", "c_phone", "c_comment")


def customers(rows):
    digest = [hashlib.sha256(str(row).encode()).hexdigest() for row in range(rows)]
    return pa.table(
        {
            "c_custkey": range(rows),
            "c_name": [f"Customer#{row:09}" for row in range(rows)],
            "c_address": [text[: 10 + row % 22] for row, text in enumerate(digest)],
            "c_nationkey": [row % 25 for row in range(rows)],
            "c_phone": [f"{row % 34 + 10:02}-{row % 899 + 100:03}-{row % 997:03}-{row % 9973:04}" for row in range(rows)],
            "c_acctbal": [row * 1.37 for row in range(rows)],
            "c_mktsegment": ["BUILDING"] * rows,
            "c_comment": [text[: 29 + row % 35] for row, text in enumerate(digest)],
        }
    )


def main():
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_500_000
    tool = os.path.abspath(os.environ.get("CIPHERMILL", "target/release/ciphermill"))
    with tempfile.TemporaryDirectory() as folder:
        settings = {**os.environ, "CIPHERMILL_CONFIG": os.devnull, "CIPHERMILL_KEYSTORE": os.path.join(folder, "keys")}
        with open(os.open(os.path.join(folder, "key"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))

        def run(*args):
            start = time.perf_counter()
            subprocess.run([tool, *args, "--master-key-file", "key"], cwd=folder, env=settings, check=True, capture_output=True)
            return time.perf_counter() - start

        run("keys", "generate", "old")
        run("keys", "generate", "new")
        pq.write_table(customers(rows), os.path.join(folder, "clear.parquet"))
        for method in ("deterministic", "random"):
            columns = [f"--column={name}={method}" for name in COLUMNS]
            run("protect", "clear.parquet", "old.parquet", "--key", "old", "--force", *columns)
            for threads in ("1", "2"):
                once, twice = [], []
                common = ["--force", "--quiet", "--threads", threads]
                for _ in range(ROUNDS):
                    once.append(run("rekey", "old.parquet", "new.parquet", "--key", "new", *common))
                    twice.append(
                        run("unprotect", "old.parquet", "clear-2.parquet", *common)
                        + run("protect", "clear-2.parquet", "new-2.parquet", "--key", "new", *columns, *common)
                    )
                medians = statistics.median(once), statistics.median(twice)
                print(f"{method:14} {threads} threads   rekey {medians[0]:.2f} s   unprotect, protect {medians[1]:.2f} s   {medians[1] / medians[0]:.2f} times")


if __name__ == "__main__":
    main()
