#!/usr/bin/env python3
"""Times `ciphermill protect` and `unprotect` of TPC-H customers against pyarrow copying the same file.

Usage: rates.py CIPHERMILL DIRECTORY [SCALE [ROUNDS]]

One core: both are pinned to the first one that this process may use, ciphermill with --threads 1, pyarrow without threads.
All cores: neither is pinned. Rounds take turns, and the medians are printed with the shortest and longest time. The key in
the keystore is `data`, its master key DIRECTORY/key. pyarrow reads and writes batch by batch with the same codec; CSV in the faster of its two ways, with
columns of texts or of the types that it finds, Parquet with and without dictionaries. The start of Python is not counted.
"""

import os
import statistics
import subprocess
import sys
import time

import pyarrow.csv
import pyarrow.parquet

COLUMNS = ["c_name=deterministic", "c_address=random", "c_phone=ff1:preset=phone", "c_acctbal=deterministic"]

COPY = {
    "parquet": """
import sys, time, pyarrow.parquet as pq
start = time.perf_counter()
threads = sys.argv[3] == "all"
source = pq.ParquetFile(sys.argv[1])
with pq.ParquetWriter(sys.argv[2], source.schema_arrow, compression="snappy", use_dictionary=sys.argv[4] == "dictionary") as sink:
    for batch in source.iter_batches(batch_size=1 << 16, use_threads=threads):
        sink.write_batch(batch)
print(time.perf_counter() - start)
""",
    "csv": """
import sys, time, pyarrow as pa, pyarrow.csv as csv
start = time.perf_counter()
threads, texts = sys.argv[3] == "all", sys.argv[4] == "texts"
names = open(sys.argv[1]).readline().strip().replace('"', "").split(",")
convert = csv.ConvertOptions(column_types={name: pa.string() for name in names} if texts else None)
source = csv.open_csv(sys.argv[1], csv.ReadOptions(use_threads=threads), convert_options=convert)
with csv.CSVWriter(sys.argv[2], source.schema, write_options=csv.WriteOptions(quoting_style="needed")) as sink:
    for batch in source:
        sink.write_batch(batch)
print(time.perf_counter() - start)
""",
}
WAYS = {"parquet": ["dictionary", "plain"], "csv": ["texts", "types"]}


def timed(command, core):
    pin = (lambda: os.sched_setaffinity(0, {core})) if core is not None else None
    start = time.perf_counter()
    done = subprocess.run(command, check=True, preexec_fn=pin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - start
    return float(done.stdout) if command[0] == sys.executable else took


def main():
    tool, work = sys.argv[1:3]
    scale, rounds = (sys.argv[3:] + ["16", "5"][len(sys.argv) - 3 :])[:2]
    core = min(os.sched_getaffinity(0))
    path = lambda name: os.path.join(work, name)
    if not os.path.exists(path("in.csv")):
        subprocess.run([tool, "demo", "--scale", scale, "--dir", work], check=True, stdout=subprocess.DEVNULL)
        source = pyarrow.parquet.ParquetFile(path("customer.parquet"))
        with pyarrow.parquet.ParquetWriter(path("in.parquet"), source.schema_arrow, compression="snappy") as sink:
            for batch in source.iter_batches():
                sink.write_batch(batch)
        with pyarrow.csv.CSVWriter(path("in.csv"), source.schema_arrow) as sink:
            for batch in source.iter_batches():
                sink.write_batch(batch)
        for name in ("customer.parquet", "customer-protected.parquet", "customer-restored.parquet"):
            os.remove(path(name))
    options = [part for column in COLUMNS for part in ("--column", column)]
    tasks = {}
    for cores in ("one core", "all cores"):
        threads = ["--threads", "1"] if cores == "one core" else []
        pin = core if cores == "one core" else None
        for form in COPY:
            for way in WAYS[form]:
                copy = [sys.executable, "-c", COPY[form], path(f"in.{form}"), path(f"copy.{form}"), cores.split()[0], way]
                tasks[cores, f"pyarrow copies {form}", way] = copy, pin
        for source, target in (("parquet", "parquet"), ("csv", "csv"), ("csv", "parquet"), ("parquet", "csv")):
            plain, safe, back = path(f"in.{source}"), path(f"safe-{source}.{target}"), path(f"back.{source}")
            common = ["--force", "-q", "--master-key-file", path("key"), *threads]
            protect = [tool, "protect", plain, safe, "--key", "data", *options, *common]
            restore = [tool, "unprotect", safe, back, *common]
            tasks[cores, f"protect {source} to {target}"] = protect, pin
            if source == target:
                tasks[cores, f"unprotect {source}"] = restore, pin
    times = {name: [] for name in tasks}
    for _ in range(int(rounds)):
        for name, (command, pin) in tasks.items():
            times[name].append(timed(command, pin))
    print(f"{'':<42}{'s':>7}   shortest to longest")
    for name, found in times.items():
        print(f"{', '.join(name):<42}{statistics.median(found):>7.2f}   {min(found):.2f} to {max(found):.2f}")


main()
