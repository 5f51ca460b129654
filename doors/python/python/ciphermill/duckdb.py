"""SQL functions of DuckDB that protect and restore values, a vector of rows at a time.

::

    import ciphermill.duckdb, duckdb

    connection = duckdb.connect()
    ciphermill.duckdb.register(connection, protector, types={"c_custkey": "BIGINT"})
    connection.sql("SELECT unprotect('c_name', c_name) FROM customers")

Values are the same as everywhere else, so that tables that were protected by other programs join with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, List, Optional

import pyarrow as pa

import duckdb

from ._errors import Misuse
from ._protector import Protector

__all__ = ["register"]


def register(
    connection: "duckdb.DuckDBPyConnection", protector: Protector, *, types: Optional[Mapping[str, str]] = None
) -> List[str]:
    """Makes the functions, and returns their names.

    ``protect(column, value)`` takes texts and gives blobs, ``protect_text(column, value)`` the texts of ``ff1``,
    ``unprotect(column, value)`` turns blobs into texts and ``unprotect_text(column, value)`` those of ``ff1``. For each other type
    of ``types`` (columns to DuckDB's types) there are two more, ``protect_bigint`` and ``unprotect_bigint`` and the like.
    ``column`` is the literal name of one of the protector's columns.
    """
    types = dict(types or {})
    unknown = set(types) - set(protector.columns)
    if unknown:
        raise Misuse(f"types names {', '.join(sorted(unknown))}, none of the columns")
    made: List[str] = []

    def make(name: str, run: Callable[..., Any], value: str, result: str) -> None:
        def call(column: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.Array:
            names = column.unique().to_pylist()
            if len(names) > 1 or names and names[0] not in protector.columns:
                raise Misuse(f"the first argument is the literal name of one column: {', '.join(protector.columns)}")
            if not names:
                names = list(protector.columns)[:1]
            done = run(values, names[0])
            return done.combine_chunks() if isinstance(done, pa.ChunkedArray) else done

        # `random` gives another result each time, and none is computed while a query is only planned.
        connection.create_function(
            name, call, ["VARCHAR", value], result, type="arrow", null_handling="special", side_effects=True
        )
        made.append(name)

    make("protect", protector.protect, "VARCHAR", "BLOB")
    make("protect_text", protector.protect, "VARCHAR", "VARCHAR")
    make("unprotect", protector.unprotect, "BLOB", "VARCHAR")
    make("unprotect_text", protector.unprotect, "VARCHAR", "VARCHAR")
    for kind in sorted(set(types.values())):
        suffix = "".join(letter if letter.isalnum() else "_" for letter in kind.lower()).strip("_")
        make(f"protect_{suffix}", protector.protect, kind, "BLOB")
        # The type in clear is that of a value of this type.
        clear = connection.sql(f"SELECT NULL::{kind} AS value").to_arrow_table()["value"].type
        of_type = Protector(protector.key, _columns(protector, types, kind), types={
            name: clear for name, other in types.items() if other == kind
        })
        make(f"unprotect_{suffix}", of_type.unprotect, "BLOB", kind)
    return made


def _columns(protector: Protector, types: Mapping[str, str], kind: str) -> "dict[str, str]":
    """The columns of a type, as they were written."""
    return {name: protector._written[name] for name, other in types.items() if other == kind}
