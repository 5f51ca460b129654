"""Protects tables of many writers with `ciphermill`, reads them with many programs, restores them, and compares.

Usage: check.py CIPHERMILL WORK SAMPLES... -- PROGRAM=PYTHON...
SAMPLES are folders of Parquet files; the protected tables lie in WORK afterwards, where the keystore's key is. PROGRAM is one that read.py
knows, PYTHON the interpreter that has it. ONLY in the environment picks samples whose names contain it.
"""

import base64
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from footer import Footer

MANIFEST_KEY = b"ciphermill.manifest"
# Encodings that a program reads wrongly, other values each time, by their numbers.
MISREAD = {"fastparquet": {5: "DELTA_BINARY_PACKED is read wrongly, other values each time"}}
# The number of the logical type of columns that are always null.
UNKNOWN = 11
# Types that Spark reads by these names, from a file that it does not take as a whole.
SPARK_TYPES = {pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint", pa.float32(): "float",
               pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "string", pa.large_string(): "string",
               pa.binary(): "binary", pa.date32(): "date"}


class Sample:
    """A file, its columns, and those of them that can be protected."""

    def __init__(self, path, name, each):
        self.path, self.name, self.each = path, name, each
        self.footer = Footer(path)
        self.columns = list(dict.fromkeys(leaf.path[0] for leaf in self.footer.leaves))
        flat = [leaf for leaf in self.footer.leaves if leaf.is_flat and leaf.logical != UNKNOWN]
        self.flat = [leaf.path[0] for leaf in flat if leaf.path[0] not in ("id", "other")]
        try:
            self.table = pq.ParquetFile(path).read()
            self.arrow = {field.name: field.type for field in self.table.schema}
        except (pa.ArrowException, OSError):
            self.table, self.arrow = None, {}
        self.encodings = {leaf.path[0]: self.footer.encodings(at) for at, leaf in enumerate(self.footer.leaves)}
        self.texts = [name for name in self.flat if self.is_long_text(name)]

    def is_long_text(self, name):
        """Whether `ff1` takes all values, with `alnum` and a space."""
        values = self.table[name].to_pylist() if name in self.arrow and is_text(self.arrow[name]) else []
        return any(values) and all(value is None or re.fullmatch("[A-Za-z0-9 ]{5,}", value) for value in values)

    def plans(self, turn):
        """By its name, what becomes of which columns."""
        ff1 = "ff1:alphabet=alnum,sep= "
        plans = {method: {name: method for name in self.flat} for method in ["random", "deterministic"]}
        plans["mixed"] = {name: ff1 if name in self.texts else "token" for name in self.flat}
        if not self.each and self.flat:
            plans["single"] = {self.flat[turn % len(self.flat)]: ["random", "deterministic"][turn % 2]}
        return {name: plan for name, plan in plans.items() if plan}

    def spark_types(self, plan):
        types = {name: SPARK_TYPES.get(self.arrow.get(name)) for name in self.columns}
        types.update({name: "string" if method.startswith("ff1") else "binary" for name, method in plan.items()})
        return types


class Case:
    """A sample under a plan: the protected table, and the restored one."""

    def __init__(self, sample, name, plan, work):
        self.sample, self.name, self.plan = sample, name, plan
        # Parts of a partitioned table lie in folders as they did.
        self.work = work / name
        self.protected = self.work / "protected" / f"{sample.name}.parquet"
        self.restored = self.work / "restored" / f"{sample.name}.parquet"
        self.manifest = self.work / "manifests" / f"{sample.name}.json"
        self.problems = []

    def run(self, ciphermill):
        for path in [self.protected, self.restored, self.manifest]:
            path.parent.mkdir(parents=True, exist_ok=True)
        columns = [f"--column={name}={method}" for name, method in self.plan.items()]
        common = [f"--manifest={self.manifest}", f"--master-key-file={self.work.parent / 'key'}"]
        if not self.command(ciphermill, "protect", self.sample.path, self.protected, *common, "--key=data", *columns):
            return
        if self.command(ciphermill, "unprotect", self.protected, self.restored, *common):
            self.compare_bytes()

    def enums(self):
        """Enumerations of polars, which come back as categories: their values would stand in the manifest."""
        encoded = dict((pair[1], pair.get(2, b"")) for pair in self.sample.footer.key_values).get(b"ARROW:schema", b"")
        return [name for name in self.plan if name == "enum" and b"_PL_ENUM_VALUES" in base64.b64decode(encoded)]

    def command(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            self.problems.append(f"{command[1]}: {done.stderr.strip().splitlines()[-1:]}")
        return not done.returncode

    def compare_bytes(self):
        """Untouched columns' encoded chunks, and what a restored file says of itself."""
        before = self.sample.footer
        reversible = all(method != "token" for method in self.plan.values())
        for path in [self.protected, self.restored]:
            after, name = Footer(path), path.relative_to(self.work).parts[0]
            for column, leaf in enumerate(before.leaves):
                if leaf.path[0] not in self.plan and before.chunks(column) != after.chunks(column):
                    self.problems.append(f"{name}: the encoded bytes of {leaf.path} have changed")
            if path == self.protected and MANIFEST_KEY not in after.keys:
                self.problems.append("protected: no manifest in the footer")
            if path == self.restored and reversible:
                facts = ["schema", "created_by", *([] if self.enums() else ["key_values"])]
                for what in facts:
                    if getattr(before, what) != getattr(after, what):
                        self.problems.append(f"restored: the footer's {what} has changed")


def is_text(kind):
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def read_all(program, python, cases, logs):
    """What a program finds in every table, by path."""
    tasks = {}
    for case in cases:
        sample = case.sample
        if program == "spark" and sample.each and case.name != "random":
            # Each file is a job of its own there.
            continue
        for path, plan in [(sample.path, {}), (case.protected, case.plan), (case.restored, {})]:
            plan = case.plan if any(method == "token" for method in case.plan.values()) and path == case.restored else plan
            if path.exists():
                tasks[str(path)] = {"path": str(path), "of": str(sample.path), "columns": sample.spark_types(plan)}
    # Originals first: read.py goes by them.
    waiting = sorted(tasks.values(), key=lambda task: task["path"] != task["of"])
    found = {}
    with open(logs / f"{program}.log", "w", encoding="utf-8") as log:
        while waiting:
            reader = subprocess.run([python, Path(__file__).with_name("read.py"), program], text=True, check=False,
                                    input="".join(json.dumps(task) + "\n" for task in waiting), stdout=subprocess.PIPE, stderr=log)
            lines = [json.loads(line) for line in reader.stdout.splitlines() if line.startswith("{")]
            found.update({line["path"]: line for line in lines})
            waiting = [task for task in waiting if task["path"] not in found]
            if waiting:
                crashed = waiting.pop(0)
                found[crashed["path"]] = {"error": f"the program ended with {reader.returncode}", "columns": {}, "facts": {}}
    return found


class Verdict:
    """What one program made of one sample, over all plans."""

    def __init__(self):
        self.compared, self.problems, self.limits = 0, [], Counter()

    def differ(self, what, before, after, skip=()):
        """Compares two tables in all columns that the program reads of the first."""
        if "error" in before:
            self.limits[before["error"]] += 1
        elif "error" in after:
            self.problems.append(f"{what}: {after['error']}")
        elif before["facts"] != after["facts"]:
            self.problems.append(f"{what}: {after['facts']} in place of {before['facts']}")
        for name, column in before["columns"].items():
            now = after["columns"].get(name, {"error": "the column is missing"})
            if name in skip:
                continue
            if "error" in column:
                self.limits[f"{name}: {column['error']}"] += 1
            elif now != column:
                self.problems.append(f"{what}: {name} is {now} in place of {column}")
            else:
                self.compared += 1

    def readable(self, case, before, after, by_arrow):
        """Protected columns are byte strings, or texts after `ff1`, and the same ones for all programs."""
        for name, method in case.plan.items():
            now = after["columns"].get(name, {"error": "the column is missing"})
            if "error" in now and "error" in before:
                self.limits[f"protected {name}: {now['error']}"] += 1
            elif "error" in now:
                self.problems.append(f"{case.name}: {name}: {now['error']}")
            elif now.get("kind") != ("text" if method.startswith("ff1") else "binary"):
                self.problems.append(f"{case.name}: {name} is neither byte strings nor texts: {now}")
            elif now["bytes"] != by_arrow.get(name, {}).get("bytes", now["bytes"]):
                self.problems.append(f"{case.name}: {name} has other bytes than in pyarrow: {now}")
            elif now["bytes"] == before["columns"].get(name, {}).get("bytes"):
                self.problems.append(f"{case.name}: {name} is in clear")
            else:
                self.compared += 1


def judge(program, cases, found, by_arrow):
    verdicts = defaultdict(Verdict)
    misread = MISREAD.get(program, {})
    for case in cases:
        columns = found.get(str(case.sample.path), {}).get("columns", {})
        for name in columns.keys() & case.sample.encodings.keys():
            for encoding in misread.keys() & case.sample.encodings[name]:
                columns[name] = {"error": misread[encoding]}
    for case in cases:
        verdict = verdicts[case.sample.name]
        before, after, back = (found.get(str(path)) for path in [case.sample.path, case.protected, case.restored])
        if after is None or back is None:
            continue
        verdict.differ(f"{case.name}, protected", before, after, case.plan)
        verdict.readable(case, before, after, by_arrow[str(case.protected)]["columns"])
        tokens = [name for name, method in case.plan.items() if method == "token"]
        verdict.differ(f"{case.name}, restored", before, back, tokens + case.enums())
    return verdicts


def samples_of(arguments):
    only = os.environ.get("ONLY", "")
    found = []
    for argument in map(Path, arguments):
        each = argument.name == "made"
        for path in sorted(argument.rglob("*.parquet")):
            name = str(path.relative_to(argument).with_suffix(""))
            if only in name:
                found.append(Sample(path, name, each))
    return found


def report(samples, cases, verdicts):
    programs = list(verdicts)
    width = max(len(sample.name) for sample in samples)
    print(f"{'':{width}}  {'bytes':>8}", *[f"{program:>11}" for program in programs])
    failed = []
    for sample in samples:
        problems = [f"{case.name}: {problem}" for case in cases if case.sample is sample for problem in case.problems]
        failed += [f"{sample.name}: {problem}" for problem in problems]
        cells = ["FAILED" if problems else "same"]
        for program in programs:
            verdict = verdicts[program][sample.name]
            failed += [f"{sample.name}: {program}: {problem}" for problem in verdict.problems]
            cells.append("FAILED" if verdict.problems else "unreadable" if not verdict.compared else "in part" if verdict.limits else "same")
        print(f"{sample.name:{width}}  {cells[0]:>8}", *[f"{cell:>11}" for cell in cells[1:]])
    print("\nsame: as from the original; in part: other columns or files are not read of the original either")
    for program in programs:
        limits = Counter()
        for verdict in verdicts[program].values():
            limits.update({re.sub(r"[\"'`]?/\S*", "FILE", error): 1 for error in verdict.limits})
        compared = sum(verdict.compared for verdict in verdicts[program].values())
        print(f"\n{program}: {compared} columns compared; does not read of originals (samples):")
        for error, count in sorted(limits.items()):
            print(f"  {count:4} {error[:200]}")
    print(f"\n{len(samples)} samples, {len(cases)} protected tables, {len(failed)} failures")
    for failure in failed:
        print(f"  {failure}")
    return not failed


def main():
    ciphermill, work, *arguments = sys.argv[1:]
    split = arguments.index("--")
    samples, programs = samples_of(arguments[:split]), dict(word.split("=", 1) for word in arguments[split + 1:])
    work = Path(work)
    cases = [Case(sample, name, plan, work) for turn, sample in enumerate(samples) for name, plan in sample.plans(turn).items()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda case: case.run(ciphermill), cases))
    print(f"{len(samples)} samples, {len(cases)} protected tables", flush=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {program: pool.submit(read_all, program, python, cases, work) for program, python in programs.items()}
        found = {program: job.result() for program, job in jobs.items()}
    verdicts = {program: judge(program, cases, found[program], found["pyarrow"]) for program in programs}
    sys.exit(0 if report(samples, cases, verdicts) else 1)


if __name__ == "__main__":
    main()
