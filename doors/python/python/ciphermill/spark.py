"""Columns of Apache Spark data frames, protected and restored where their partitions are.

::

    from ciphermill import spark as ciphers

    stored = ciphers.protect(customers, {"c_name": "deterministic", "c_phone": "ff1:preset=phone"}, key="customers")
    stored.write.parquet("customers")
    ciphers.unprotect(spark.read.parquet("customers"), key="customers")

Plans, and with them event logs, explanations and the UI, hold *names* of keys. Each Python worker opens the keystore itself,
once, by an :class:`Opener`; where it lies is said by the session's configuration (``spark.ciphermill.keystore``, with
``spark.ciphermill.keyFile``, ``spark.ciphermill.passphraseFile`` or ``spark.ciphermill.environment``), or by an opener
of one's own. The package must be installed where workers run.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType, _parse_datatype_json_value

from ._errors import CiphermillError, Misuse
from ._native import Keystore, adopt_folder, column_spec
from ._protector import Method, Protector

__all__ = ["FileOpener", "MARK", "Opener", "check", "protect", "register", "rekey", "unprotect", "write_manifest", "write_parquet"]

#: The key, among a column's metadata, of how it was protected.
MARK = "ciphermill.column"

_CONF = "spark.ciphermill."


class Opener:
    """Opens a keystore in a worker. It travels with the plan, so that it holds names, never a secret.

    For a key management service, write a class with the method :meth:`open` that asks the service in the worker, with
    the identity that the worker has there.
    """

    def open(self) -> Keystore:
        """The keystore, opened in this process."""
        raise NotImplementedError

    def __str__(self) -> str:
        """What errors call the keystore."""
        return type(self).__name__


@dataclass(frozen=True)
class FileOpener(Opener):
    """Opens a keystore in a file that each worker has at the same place, by a secret in a file or in a variable of its
    environment."""

    keystore: str
    key_file: Optional[str] = None
    passphrase_file: Optional[str] = None
    environment: Optional[str] = None

    def open(self) -> Keystore:
        return Keystore.open(
            self.keystore,
            key_file=self.key_file,
            passphrase_file=self.passphrase_file,
            environment=self.environment,
        )

    def __str__(self) -> str:
        return self.keystore

    @staticmethod
    def of(session: SparkSession) -> FileOpener:
        """The one that the session's configuration names."""
        conf = {name: session.conf.get(_CONF + name, None) for name in ("keystore", "keyFile", "passphraseFile", "environment")}
        if conf["keystore"] is None:
            raise Misuse(f"no keystore: set {_CONF}keystore, with {_CONF}keyFile, {_CONF}passphraseFile or {_CONF}environment, or give an opener")
        return FileOpener(conf["keystore"], conf["keyFile"], conf["passphraseFile"], conf["environment"])


def protect(
    df: DataFrame,
    columns: Mapping[str, Method],
    key: str,
    *,
    version: Optional[int] = None,
    opener: Optional[Opener] = None,
) -> DataFrame:
    """The data frame with these columns protected.

    :param columns: as for :class:`ciphermill.Protector`.
    :param key: the key's name in the keystore; ``version`` its version. Without one the driver opens the keystore to find
        the current one, so that all workers take the same.
    :param opener: how workers open the keystore; without one, as the session's configuration says.

    Protected columns are binary (of ``ff1``, strings), and how they were protected is in their metadata, which Spark keeps
    in Parquet and other tables.
    """
    opener = opener or FileOpener.of(df.sparkSession)
    work, schema = _protecting(df.schema, columns, key, version, opener)
    return df.mapInArrow(work, schema)


def _protecting(
    schema: StructType, columns: Mapping[str, Method], key: str, version: Optional[int], opener: Opener
) -> Tuple[_Work, StructType]:
    """What workers do, and the schema that comes of it."""
    version = _version(opener, key, version)
    specs = {}
    for name, how in columns.items():
        method, text = column_spec(name, how)
        specs[name] = text

        def sealed(field: StructField) -> StructField:
            if MARK in field.metadata:
                raise Misuse(f"column `{name}` is protected already, as its metadata say", column=name)
            mark = {"method": text, "type": field.dataType.jsonValue(), "key": key, "version": version}
            # What machine learning says of a column tells its values.
            metadata = {entry: value for entry, value in field.metadata.items() if entry != "ml_attr"}
            kind: DataType = StringType() if method == "ff1" else BinaryType()
            nullable = field.nullable or "on-bad=null" in text
            return StructField(field.name, kind, nullable, {**metadata, MARK: mark})

        schema = _with_field(schema, name, name, sealed)
    if not specs:
        raise Misuse("no column was named")
    return _Work(opener, key, version, specs, {}, True), schema


def unprotect(
    df: DataFrame,
    columns: Union[Sequence[str], Mapping[str, Method], None] = None,
    key: Optional[str] = None,
    *,
    types: Optional[Mapping[str, Union[str, DataType]]] = None,
    version: Optional[int] = None,
    opener: Optional[Opener] = None,
) -> DataFrame:
    """The data frame with columns restored that :func:`protect`, or the command line, has protected.

    :param columns: their names; without, those whose metadata say that they are protected (tokens stay). For columns that
        lost their metadata, how they were protected, as for :func:`protect`, and then also ``key`` and, for others than
        strings, ``types``: Spark's types in clear.
    """
    opener = opener or FileOpener.of(df.sparkSession)
    names = _marked(df.schema) if columns is None else columns
    work, schema = _restoring(df.schema, names, key, types or {}, version, opener, _zone(df.sparkSession))
    return df.mapInArrow(work, schema)


def _restoring(
    schema: StructType,
    columns: Union[Sequence[str], Mapping[str, Method]],
    key: Optional[str],
    types: Mapping[str, Union[str, DataType]],
    version: Optional[int],
    opener: Opener,
    zone: str,
) -> Tuple[_Work, StructType]:
    """What workers do, and the schema that comes of it."""
    if not columns:
        raise Misuse("no column was named, and no column's metadata say that it is protected")
    hows: Mapping[str, Any] = columns if isinstance(columns, Mapping) else {}
    specs: Dict[str, str] = {}
    clear_types: Dict[str, pa.DataType] = {}
    keys = set()
    for name in columns:

        def restored(field: StructField) -> StructField:
            mark = field.metadata.get(MARK)
            how = hows.get(name, mark and mark["method"])
            if how is None:
                raise Misuse(f"column `{name}`: its metadata do not say how it was protected; say so", column=name)
            specs[name] = column_spec(name, how)[1]
            if name in types:
                kind = _type(types[name])
            else:
                kind = _parse_datatype_json_value(mark["type"]) if mark else StringType()
            clear_types[name] = to_arrow_type(kind, timezone=zone)
            keys.add((mark["key"], mark["version"]) if mark else (key, version))
            metadata = {entry: value for entry, value in field.metadata.items() if entry != MARK}
            return StructField(field.name, kind, field.nullable, metadata)

        schema = _with_field(schema, name, name, restored)
    name, found = _one_key(keys, key, version)
    return _Work(opener, name, _version(opener, name, found), specs, clear_types, False), schema


def rekey(
    df: DataFrame,
    key: str,
    *,
    version: Optional[int] = None,
    columns: Optional[Mapping[str, Method]] = None,
    opener: Optional[Opener] = None,
) -> DataFrame:
    """The data frame with its protected columns under another key, version or method. Values are opened and sealed as one
    operation in the worker (:meth:`ciphermill.Protector.rekey`): none of them is in clear in Python, in Arrow's or in Spark's memory.

    :param key: the new key; ``version`` its version.
    :param columns: other methods for some of the columns; all others keep theirs. Tokens stay as they are.
    """
    opener = opener or FileOpener.of(df.sparkSession)
    again = {name: _field(df.schema, name).metadata[MARK]["method"] for name in _marked(df.schema)}
    unknown = set(columns or {}) - set(again)
    if unknown:
        raise Misuse(f"columns that are not protected: {', '.join(sorted(unknown))}")
    restoring, clear = _restoring(df.schema, list(again), None, {}, None, opener, _zone(df.sparkSession))
    protecting, schema = _protecting(clear, {**again, **(columns or {})}, key, version, opener)
    return df.mapInArrow(_Moving(restoring, protecting), schema)


def write_parquet(
    df: DataFrame,
    path: str,
    *,
    mode: str = "error",
    partition_by: Sequence[str] = (),
    opener: Optional[Opener] = None,
) -> int:
    """Writes a data frame with protected columns to a folder of Parquet files, and then their manifest: see
    :func:`write_manifest`. ``mode`` and ``partition_by`` are those of Spark's writer.
    """
    _local(path)
    df.write.mode(mode).partitionBy(*partition_by).parquet(path)
    return write_manifest(df.sparkSession, path, opener=opener)


def write_manifest(session: SparkSession, path: str, *, opener: Optional[Opener] = None) -> int:
    """Writes ``_ciphermill.json`` into a folder of Parquet files that a job has committed, and returns how many files it has:
    their hashes, rows and nulls, how each column is protected, under which key, all signed. With it the command line
    inspects, verifies, restores and rekeys the folder. One that is there is replaced, for example after more was appended.

    The driver opens the keystore and reads each file once, so that it must see the folder as one of files.
    """
    opener = opener or FileOpener.of(session)
    place = _local(path)
    schema = session.read.parquet(path).schema
    names = [field.name for field in schema if MARK in field.metadata]
    within = sorted(set(_marked(schema)) - set(names))
    if within:
        raise Misuse(f"column `{within[0]}` is a part of a struct, which manifests do not name", column=within[0])
    if not names:
        raise Misuse(f"{path}: no column's metadata say that it is protected")
    marks = {name: schema[name].metadata[MARK] for name in names}
    key, version = _one_key({(mark["key"], mark["version"]) for mark in marks.values()}, None, None)
    columns = {name: mark["method"] for name, mark in marks.items()}
    types = {name: to_arrow_type(_parse_datatype_json_value(mark["type"]), timezone="UTC") for name, mark in marks.items()}
    return adopt_folder(place, opener.open().key(key, version), columns, types)[1]


def _local(path: str) -> str:
    """The folder as the driver's system knows it."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return path
    if scheme != "file":
        raise Misuse(f"{path}: a manifest is written where the driver sees files, not through `{scheme}:`")
    return "/" + rest.lstrip("/")


def register(
    session: SparkSession,
    columns: Mapping[str, Method],
    key: str,
    *,
    version: Optional[int] = None,
    types: Optional[Mapping[str, str]] = None,
    opener: Optional[Opener] = None,
) -> List[str]:
    """Makes SQL functions, and returns their names: ``protect(column, value)`` gives binary, ``protect_text(column, value)`` the
    strings of ``ff1``, ``unprotect(column, value)`` strings, and for each other type of ``types`` (columns to Spark's
    types) one more, ``unprotect_bigint`` and the like. ``column`` is the literal name of one of ``columns``::

        SELECT unprotect('c_name', c_name) FROM customers
    """
    opener = opener or FileOpener.of(session)
    version = _version(opener, key, version)
    specs = {name: column_spec(name, how)[1] for name, how in columns.items()}
    clear = {name: _type(kind) for name, kind in (types or {}).items()}
    arrow_types = {name: to_arrow_type(kind, timezone=_zone(session)) for name, kind in clear.items()}
    made = []

    def make(name: str, protects: bool, kind: DataType) -> None:
        work = _Work(opener, key, version, specs, arrow_types, protects)

        def run(column: pa.Array, value: pa.Array) -> pa.Array:
            return work.one(column, value)

        # Also what is deterministic must not be computed before the query: the driver has no keys.
        session.udf.register(name, arrow_udf(run, kind).asNondeterministic())
        made.append(name)

    make("protect", True, BinaryType())
    make("protect_text", True, StringType())
    make("unprotect", False, StringType())
    for kind in {kind.simpleString(): kind for kind in clear.values()}.values():
        make("unprotect_" + "".join(c if c.isalnum() else "_" for c in kind.simpleString()), False, kind)
    return made


def check(session: SparkSession, key: str, *, version: Optional[int] = None, opener: Optional[Opener] = None) -> List[str]:
    """Opens the keystore in as many workers as run at once, and returns their hosts. Errors name host, file and cause."""
    opener = opener or FileOpener.of(session)
    slots = session.sparkContext.defaultParallelism
    work = _Work(opener, key, version, {}, {}, True)
    found = session.sparkContext.parallelize(range(slots), slots).map(lambda _: work.host_or_error()).collect()
    failed = sorted({error for _, error in found if error})
    if failed:
        raise Misuse("; ".join(failed))
    return sorted({host for host, _ in found})


class _Work:
    """What a worker does with the batches of a partition. What it holds is in the plan: names alone."""

    def __init__(
        self,
        opener: Opener,
        key: str,
        version: Optional[int],
        columns: Dict[str, str],
        types: Dict[str, pa.DataType],
        protects: bool,
    ) -> None:
        self.opener, self.key, self.version = opener, key, version
        self.columns, self.types, self.protects = columns, types, protects

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run, row = self.run(), 0
        for batch in batches:
            yield self.placed(run, batch, row)
            row += batch.num_rows

    def run(self) -> Callable[..., Any]:
        protector = _protector(self)
        return protector.protect if self.protects else protector.unprotect

    def placed(self, run: Callable[..., Any], batch: pa.RecordBatch, row: int) -> pa.RecordBatch:
        try:
            return run(batch, list(self.columns))
        except CiphermillError as error:
            context = TaskContext.get()
            partition = context.partitionId() if context else 0
            at = None if error.row is None else error.row + row
            where = f"host {socket.gethostname()}, partition {partition}"
            before = f", {row} rows further" if row else ""
            raise type(error)(f"{where}: {error}{before}", error.column, at) from None

    def one(self, column: pa.Array, value: pa.Array) -> pa.Array:
        """Values of one column, whose name comes with each."""
        names = column.unique().to_pylist()
        if len(names) > 1 or names and names[0] not in self.columns:
            known = ", ".join(self.columns)
            raise Misuse(f"the first argument is the literal name of one column: {known}")
        # Without rows there is no name, and any column does.
        return self.run()(value, names[0] if names else next(iter(self.columns)))

    def host_or_error(self) -> Tuple[str, Optional[str]]:
        try:
            _protector(self)
        except (CiphermillError, OSError) as error:
            return socket.gethostname(), str(error)
        return socket.gethostname(), None


class _Moving(_Work):
    """Rekeys: opens as the first work would restore, and seals as the second would protect."""

    def __init__(self, first: _Work, second: _Work) -> None:
        super().__init__(first.opener, first.key, first.version, first.columns, first.types, False)
        self.second = second

    def run(self) -> Callable[..., Any]:
        protector, key = _protector(self), _protector(self.second).key

        def moved(batch: pa.RecordBatch, columns: List[str]) -> pa.RecordBatch:
            return protector.rekey(batch, key, self.second.columns, column=columns)

        return moved


#: Plans that a worker keeps protectors of.
_OPEN_MAX = 64

#: What this worker has open, by process, since workers are forked.
_open: Dict[Any, Protector] = {}


def _protector(work: _Work) -> Protector:
    """One for all batches of the same plan, warm from one task to the next."""
    types = tuple(sorted((name, str(kind)) for name, kind in work.types.items()))
    known = (os.getpid(), pickle.dumps(work.opener), work.key, work.version, tuple(work.columns.items()), types)
    found = _open.get(known)
    if found is None:
        while len(_open) >= _OPEN_MAX:
            del _open[next(iter(_open))]
        # Spark runs a task on each core.
        os.environ.setdefault("CIPHERMILL_THREADS", "0")
        types = {name: kind for name, kind in work.types.items() if name in work.columns}
        try:
            key = work.opener.open().key(work.key, work.version)
        except (CiphermillError, OSError) as error:
            kind = type(error) if isinstance(error, CiphermillError) else Misuse
            raise kind(f"host {socket.gethostname()}: keystore {work.opener}: {error}") from None
        found = _open[known] = Protector(key, work.columns, types=types or None)
    return found


def _zone(session: SparkSession) -> str:
    return session.conf.get("spark.sql.session.timeZone") or "UTC"


def _type(kind: Union[str, DataType]) -> DataType:
    return kind if isinstance(kind, DataType) else StructType.fromDDL(f"c {kind}")[0].dataType


def _version(opener: Opener, key: str, version: Optional[int]) -> int:
    if version is not None:
        return version
    try:
        return opener.open().key(key).version
    except (CiphermillError, OSError) as error:
        raise Misuse(
            f"the driver cannot look up the current version of the key `{key}` (keystore {opener}: {error}); say version=…"
        ) from error


def _one_key(keys: "set[Tuple[Optional[str], Optional[int]]]", key: Optional[str], version: Optional[int]) -> Tuple[str, Optional[int]]:
    if len(keys) != 1:
        listed = ", ".join(f"{name} version {number}" for name, number in sorted(keys, key=str))
        raise Misuse(f"columns are under several keys ({listed}): name those of one key")
    name, number = next(iter(keys))
    if name is None:
        raise Misuse("say the key: the columns' metadata do not")
    if key is not None and key != name or version is not None and version != number:
        raise Misuse(f"the columns are under the key {name} version {number}, as their metadata say")
    return name, number


def _with_field(schema: StructType, path: str, rest: str, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with one field, of that name or `a.b` within the struct `a`, changed."""
    fields = list(schema.fields)
    for at, field in enumerate(fields):
        if field.name == rest:
            fields[at] = change(field)
            return StructType(fields)
    for at, field in enumerate(fields):
        if rest.startswith(field.name + "."):
            if not isinstance(field.dataType, StructType):
                raise Misuse(f"column `{path}`: `{field.name}` is {field.dataType.simpleString()}; only parts of structs have names", column=path)
            inner = _with_field(field.dataType, path, rest[len(field.name) + 1 :], change)
            fields[at] = StructField(field.name, inner, field.nullable, field.metadata)
            return StructType(fields)
    raise Misuse(f"there is no column `{path}`; the columns are {', '.join(field.name for field in fields)}", column=path)


def _field(schema: StructType, name: str) -> StructField:
    found: List[StructField] = []

    def keep(field: StructField) -> StructField:
        found.append(field)
        return field

    _with_field(schema, name, name, keep)
    return found[0]


def _marked(schema: StructType, before: str = "") -> List[str]:
    """The columns whose metadata say that they are protected and can be restored."""
    names = []
    for field in schema.fields:
        mark = field.metadata.get(MARK)
        if mark and not mark["method"].startswith("token"):
            names.append(before + field.name)
        elif not mark and isinstance(field.dataType, StructType):
            names += _marked(field.dataType, f"{before}{field.name}.")
    return names
