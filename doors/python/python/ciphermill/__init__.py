"""Protects columns and seals short messages in batches, at bulk speed.

Columns of Arrow data (pyarrow, polars, DuckDB, pandas, nanoarrow), without a copy::

    import ciphermill, pyarrow as pa

    keystore = ciphermill.Keystore.create("keys", key_file="master.key")
    key = keystore.generate("customers")
    protector = ciphermill.Protector(key, columns={"name": "deterministic", "card": "ff1:preset=card"})
    stored = protector.protect(pa.table({"name": ["Ada"], "card": ["4929 1234 5678 9012"]}))
    clear = protector.unprotect(stored)

Batches of messages, each under its own key and nonce: :func:`seal_many`, :func:`open_many`, :func:`mac_many`,
:func:`digest_many`.

Work is split over all cores; the environment variable ``CIPHERMILL_THREADS`` says another number of threads. Keys stay
in locked memory, and never go along into forked processes: each process opens the keystore itself.
"""

from __future__ import annotations

from ._batches import digest_many, mac_many, open_many, seal_many
from ._errors import CiphermillError, EngineFault, Exhausted, Misuse, NotAuthentic, Refused
from ._native import ArrowArray, ArrowStream, Key, Keystore, __version__
from ._protector import Protector

__all__ = [
    "ArrowArray",
    "ArrowStream",
    "CiphermillError",
    "EngineFault",
    "Exhausted",
    "Key",
    "Keystore",
    "Misuse",
    "NotAuthentic",
    "Protector",
    "Refused",
    "__version__",
    "digest_many",
    "mac_many",
    "open_many",
    "seal_many",
]
