"""Which library data came from, and how results become that library's again. No library is imported that was not."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Optional, Tuple

Back = Optional[Callable[[Any], Any]]


def way(data: Any) -> Tuple[Any, Back, bool]:
    """The object with Arrow data, what makes a result of it, and whether it is read later."""
    kind = type(data)
    if kind in _ARRAYS:  # the shortest way, for the shortest calls
        return data, _ARRAYS[kind], False
    find = _WAYS.get(kind.__module__.partition(".")[0])
    return (data, None, False) if find is None else find(data)


# Kinds of arrays that were met, each with what makes one of a result.
_ARRAYS: Dict[type, Callable[[Any], Any]] = {}


def _pyarrow(data: Any) -> Tuple[Any, Back, bool]:
    pa = sys.modules["pyarrow"]
    if isinstance(data, pa.Array):
        _ARRAYS[type(data)] = pa.array
        return data, pa.array, False
    if isinstance(data, pa.ChunkedArray):
        return data, pa.chunked_array, False
    if isinstance(data, pa.RecordBatch):
        return data, pa.record_batch, False
    if isinstance(data, pa.Table):
        return data, pa.table, False
    if isinstance(data, pa.RecordBatchReader):
        return data, pa.RecordBatchReader.from_stream, True
    return data, None, False


def _polars(data: Any) -> Tuple[Any, Back, bool]:
    pl = sys.modules["polars"]
    if isinstance(data, pl.DataFrame):
        return data, pl.DataFrame, False
    if isinstance(data, pl.Series):
        name = data.name
        return data, lambda done: pl.Series(name, done), False
    return data, None, False


def _pandas(data: Any) -> Tuple[Any, Back, bool]:
    pd = sys.modules["pandas"]
    if isinstance(data, pd.DataFrame):
        # pandas keeps its index in Arrow data through pyarrow alone.
        import pyarrow as pa

        return pa.Table.from_pandas(data), lambda done: pa.table(done).to_pandas(), False
    if isinstance(data, pd.Series):
        import pyarrow as pa

        index, name = data.index, data.name

        def back(done: Any) -> Any:
            series = pa.array(done).to_pandas()
            series.index, series.name = index, name
            return series

        array = pa.Array.from_pandas(data)
        return (array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array), back, False
    return data, None, False


_WAYS = {"pyarrow": _pyarrow, "polars": _polars, "pandas": _pandas}
