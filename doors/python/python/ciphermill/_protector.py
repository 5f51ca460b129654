"""Columns of Arrow data, protected and restored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Optional, Sequence, Union

from ._errors import Misuse
from ._frames import way
from ._native import ArrowStream, Columns, Key

Method = Union[str, Mapping]

#: Ways to rekey that a protector keeps.
_MOVING_MAX = 16


class Protector:
    """Protects columns under a key, and restores them.

    :param key: from :meth:`Keystore.key` or :meth:`Keystore.generate`.
    :param columns: what is done with each column, by name: a method with its options as the command line writes them, or
        a dictionary.

        ``"random"``
            AES-256-GCM-SIV under a random nonce: equal values look different.
        ``"deterministic"``
            AES-256-SIV: equal values look equal, so that columns can be joined, grouped and searched.
        ``"token"``
            HMAC-SHA-256, one way.
        ``"ff1:preset=card"``, ``"ff1:alphabet=alnum,sep=-,keep=2"``
            FF1: texts keep their length and form.

        ``as=NAME`` (``{"method": "deterministic", "as": "email"}``) is the logical name: columns of tables that are to
        be joined have the same one, and a renamed column keeps it. ``as-text`` protects integers as their decimal text.
        ``a.b`` is the field ``b`` of the struct ``a``. Without columns, ``unprotect`` restores those whose metadata
        say that they are protected.
    :param manifest: the ``.ciphermill.json`` of a protected file, in the place of ``columns``: its columns are restored,
        or others protected like them.
    :param types: for columns that lost their metadata, the types in clear, by Arrow's names (``"Int64"``), as types of
        pyarrow or nanoarrow, or as arrays or series of the type. Without either they are taken for texts.

    What ``protect`` and ``unprotect`` return is of the library that the data came from (a ``pyarrow.Table`` gives
    one, a ``polars.Series`` a series, …); of other objects, an :class:`ArrowArray` or :class:`ArrowStream`. Nulls stay
    null. Protected values are binary (of ``ff1``, text) and can be shown or stored like any others.
    """

    def __init__(
        self,
        key: Key,
        columns: Optional[Mapping[str, Method]] = None,
        *,
        manifest: Union[str, "os.PathLike[str]", None] = None,
        types: Optional[Mapping[str, Any]] = None,
    ) -> None:
        if columns is not None:
            columns = {name: dict(how) if isinstance(how, Mapping) else how for name, how in columns.items()}
        self._types = None if types is None else dict(types)
        self._written, self._manifest = columns or {}, manifest
        self._columns = Columns(key, columns, self._types, manifest)
        self._key = key
        self._moving: "dict[Any, tuple[Key, Columns]]" = {}

    def protect(self, data: Any, column: Union[str, Sequence[str], None] = None) -> Any:
        """Protects the columns of a table, or the values of an array.

        :param data: anything with ``__arrow_c_array__`` or ``__arrow_c_stream__``: tables, record batches, data frames,
            arrays, chunked arrays, series, readers (which are read as they are asked for).
        :param column: for an array, which column it is, if there are several; for a table, these columns alone.
        :raises Misuse: for a column that is not there, a type or a value that its method does not take; its
            attributes ``column`` and ``row`` say where. Nothing was protected then.
        """
        return self._run(data, True, column)

    def unprotect(self, data: Any, column: Union[str, Sequence[str], None] = None) -> Any:
        """Restores what :meth:`protect`, or the command line, has protected. Tokens stay.

        :raises NotAuthentic: for a value that was changed or belongs to another column or key; its attributes ``column``
            and ``row`` say where. Nothing was restored then.
        """
        return self._run(data, False, column)

    def rekey(
        self,
        data: Any,
        key: Key,
        columns: Optional[Mapping[str, Method]] = None,
        *,
        column: Union[str, Sequence[str], None] = None,
    ) -> Any:
        """Protects what is protected under another key, or another version of it. Values are opened and sealed as one
        operation; in clear they lie in locked memory of the library alone, never in Python's or Arrow's.

        :param key: the new key.
        :param columns: other methods for some of the columns; all others keep theirs. Tokens stay as they are.
        :param column: as for :meth:`unprotect`.
        :raises NotAuthentic: as :meth:`unprotect`. Nothing was rekeyed then.
        """
        data, back, lazy = way(data)
        done = self._to(key, columns).run(data, False, _names(column), lazy)
        return done if back is None else back(done)

    def _to(self, key: Key, columns: Optional[Mapping[str, Method]]) -> Columns:
        """Made once for each key and methods."""
        again = {name: dict(how) if isinstance(how, Mapping) else how for name, how in (columns or {}).items()}
        unknown = [name for name in again if self._written and name not in self._written]
        if unknown:
            raise Misuse(f"column `{unknown[0]}` is none of the columns", column=unknown[0])
        known = (id(key), repr(again))
        if known not in self._moving:
            if len(self._moving) == _MOVING_MAX:
                del self._moving[next(iter(self._moving))]
            # The key is kept, so that no other gets its id.
            self._moving[known] = key, Columns(self._key, self._written or None, self._types, self._manifest, key, again)
        return self._moving[known][1]

    def protect_stream(self, data: Any, column: Union[str, Sequence[str], None] = None) -> ArrowStream:
        """As :meth:`protect`, but nothing is done before the returned stream is read, and then batch by batch."""
        return self._columns.run(data, True, _names(column), True)

    def unprotect_stream(self, data: Any, column: Union[str, Sequence[str], None] = None) -> ArrowStream:
        """As :meth:`unprotect`, but nothing is done before the returned stream is read, and then batch by batch."""
        return self._columns.run(data, False, _names(column), True)

    def _run(self, data: Any, encrypts: bool, column: Union[str, Sequence[str], None]) -> Any:
        data, back, lazy = way(data)
        done = self._columns.run(data, encrypts, _names(column), lazy)
        return done if back is None else back(done)

    @property
    def key(self) -> Key:
        """The key."""
        return self._key

    @property
    def columns(self) -> "dict[str, str]":
        """How each column is protected, as the command line writes it."""
        return dict(self._columns.columns())

    def __repr__(self) -> str:
        columns = ", ".join(self.columns.values()) or "marked columns"
        return f"<ciphermill.Protector of {columns} under {self._key.name} version {self._key.version}>"

    def __reduce__(self) -> Any:
        raise TypeError("a protector is not pickled: keys do not leave their process. Make one in each process")


def _names(column: Union[str, Sequence[str], None]) -> Optional[list[str]]:
    if column is None:
        return None
    return [column] if isinstance(column, str) else list(column)
