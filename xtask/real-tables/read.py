"""Reads Parquet files with one program, and prints what it found there: one line of JSON for each file.

Usage: read.py PROGRAM < FILES, each line of FILES being {"path": PATH, "of": ORIGINAL, "columns": {NAME: TYPE}}: the
top-level columns, with Spark's type where it is known. A file is read as a whole; each column alone if ORIGINAL, which
stands before it, could not be read as a whole.
"""

import hashlib
import json
import logging
import math
import sys
import warnings


def digest(parts):
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.hexdigest()[:16]


def described(kind, values):
    """A column: its type in the program's own words, its values, and, where they are byte strings or texts, these bytes."""
    values = list(values)
    column = {"type": kind, "values": digest(repr(value).encode() for value in values), "first": repr(values[:4])[:200]}
    is_null = lambda value: value is None or (isinstance(value, float) and math.isnan(value)) or repr(value) in ("<NA>", "NaT")
    present = [value for value in values if not is_null(value)]
    for name, kinds in [("binary", (bytes, bytearray)), ("text", str)]:
        if present and all(isinstance(value, kinds) for value in present):
            column["kind"] = name
            plain = lambda value: value.encode() if isinstance(value, str) else bytes(value)
            column["bytes"] = digest(b"-" if is_null(value) else b"+" + plain(value) for value in values)
    return column


class Arrow:
    def __init__(self):
        import pyarrow.parquet

        self.parquet = pyarrow.parquet

    def whole(self, path, names, _types):
        # A file alone: its folder's name is no column.
        table = self.parquet.ParquetFile(path).read(columns=names)
        columns = {}
        for field in table.schema:
            # A field's own metadata are part of its type here.
            kind = f"{field.type} {'null' if field.nullable else 'not null'} {sorted((field.metadata or {}).items())}"
            if "dictionary" in kind:
                kind += repr([chunk.dictionary.to_pylist() for chunk in table[field.name].chunks])
            columns[field.name] = described(kind, self.values(table[field.name]))
        return columns, {}

    @staticmethod
    def values(column):
        try:
            return column.to_pylist()
        except ValueError:
            # Python's dates end with the year 9999, and have no nanoseconds.
            return [value if value is None else value.value for value in column]


class Pandas:
    def __init__(self):
        import pandas

        self.pandas = pandas

    def read(self, path, names):
        with open(path, "rb") as file:
            return self.pandas.read_parquet(file, engine="pyarrow", columns=names)

    def whole(self, path, names, _types):
        frame = self.read(path, names)
        facts = {"order": repr(list(frame.columns)), "attrs": repr(frame.attrs)}
        columns = {name: self.column(frame[name]) for name in frame.columns}
        index = frame.index
        if isinstance(index, self.pandas.RangeIndex):
            facts["index"] = repr(index)
        else:
            facts["index"] = type(index).__name__ if index.name is None else repr(index.names)
            columns[index.name or "__index_level_0__"] = self.column(index)
        return columns, facts

    def column(self, series):
        kind = repr(series.dtype)
        if isinstance(series.dtype, self.pandas.CategoricalDtype):
            kind += repr(list(series.dtype.categories)) + repr(series.dtype.ordered)
        return described(kind, series.tolist())


class FastParquet(Pandas):
    def __init__(self):
        super().__init__()
        import fastparquet

        self.fastparquet = fastparquet

    def read(self, path, names):
        return self.fastparquet.ParquetFile(path).to_pandas(columns=names)


class Polars:
    def __init__(self):
        import polars

        self.polars = polars

    def whole(self, path, names, _types):
        frame = self.polars.read_parquet(path, columns=names, hive_partitioning=False)
        columns = {series.name: described(repr(series.dtype), series.to_list()) for series in frame}
        return columns, {"order": repr(frame.columns)}


class DuckDb:
    def __init__(self):
        import duckdb

        self.connection = duckdb.connect()

    def whole(self, path, names, _types):
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names or []) or "*"
        relation = self.connection.sql(f"SELECT {listed} FROM read_parquet('{path}', hive_partitioning = false)")
        rows = relation.fetchall()
        columns = {}
        for at, (name, kind) in enumerate(zip(relation.columns, relation.types)):
            columns[name] = described(str(kind), [row[at] for row in rows])
        return columns, {"order": repr(relation.columns)}


class Spark:
    def __init__(self):
        from pyspark.sql import SparkSession, types

        self.types = types
        builder = SparkSession.builder.master("local[1]").config("spark.driver.memory", "1g")
        for key in ["spark.ui.enabled", "spark.ui.showConsoleProgress", "spark.sql.codegen.wholeStage"]:
            builder = builder.config(key, "false")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.bindAddress", "127.0.0.1")
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")

    def whole(self, path, names, types):
        reader = self.session.read
        if names:
            if not all(types.get(name) for name in names):
                raise ValueError("Spark has no type for it")
            reader = reader.schema(", ".join(f"`{name}` {types[name]}" for name in names))
        frame = reader.parquet(path)
        # These have no Python values.
        as_text = (self.types.VariantType, self.types.YearMonthIntervalType)
        listed = [f"`{field.name}`" for field in frame.schema.fields]
        for at, field in enumerate(frame.schema.fields):
            if isinstance(field.dataType, as_text):
                listed[at] = f"cast({listed[at]} as string) as {listed[at]}"
        rows = frame.selectExpr(*listed).collect()
        columns = {}
        for at, field in enumerate(frame.schema.fields):
            values = [row[at] for row in rows]
            kind = f"{field.dataType.simpleString()} {field.nullable} {field.metadata}"
            columns[field.name] = described(kind, values)
        return columns, {"order": repr(frame.columns)}


PROGRAMS = {"pyarrow": Arrow, "pandas-2": Pandas, "pandas-3": Pandas, "fastparquet": FastParquet, "polars": Polars,
            "duckdb": DuckDb, "spark": Spark}


def attempt(program, path, names, types):
    try:
        columns, facts = program.whole(path, names, types)
        return {"columns": columns, "facts": facts}
    # Panics of polars are no `Exception`.
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}


def read(program, task, unreadable):
    path, types = task["path"], task["columns"]
    found = attempt(program, path, None, types)
    if path == task["of"] and "error" in found:
        unreadable.add(path)
    if task["of"] in unreadable or "error" in found:
        # All that Spark has a type for, in one query; else one by one.
        known = [name for name, kind in types.items() if kind]
        together = attempt(program, path, known, types) if known and isinstance(program, Spark) else {}
        found["columns"] = dict(together.get("columns", {}))
        for name in types:
            if name in found["columns"]:
                continue
            alone = attempt(program, path, [name], types)
            found["columns"][name] = alone["columns"].get(name, {"error": "it is not there"}) if "columns" in alone else alone
    return found


def main():
    warnings.simplefilter("ignore")
    logging.disable()
    program = PROGRAMS[sys.argv[1]]()
    unreadable = set()
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps({"path": task["path"], **read(program, task, unreadable)}), flush=True)


if __name__ == "__main__":
    main()
