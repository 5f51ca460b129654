"""Batches of short messages, each with its own key and nonce if need be."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

from ._errors import Misuse
from ._native import Key, run_batch, suite_shape

Keys = Union[Key, bytes, Sequence[Key], Sequence[bytes], Any]
Strings = Union[Sequence[bytes], Any]


def seal_many(
    suite: str,
    keys: Keys,
    nonces: Optional[Strings],
    messages: Strings,
    associated_data: Union[bytes, Strings, None] = None,
    *,
    tag_len: Optional[int] = None,
) -> Any:
    """Encrypts messages, all in one batch.

    :param suite: by name: ``"aes-256-gcm"``, ``"aes-256-siv"``, ``"chacha20-poly1305"``, ``"aes-128-ctr"`` …;
        ``ciphermill engines`` lists them.
    :param keys: one for all (a :class:`Key`, or its bytes), or one for each message: a list, or an array with a row for each.
    :param nonces: one for each message, or IVs, counter blocks, tweaks; ``None`` for suites without. A nonce must not
        come twice under a key.
    :param messages: a list of ``bytes``, or a NumPy array of ``uint8`` with a row for each.
    :param associated_data: for authenticated suites, one for all or one for each.
    :param tag_len: bytes of a tag, where the suite leaves a choice.
    :returns: for a list, a list of ``bytes``; for an array, an array. Tags stand behind the ciphertexts, of AES-SIV
        before them (RFC 5297), as in the package ``cryptography``.
    """
    return _run(suite, True, keys, nonces, messages, associated_data, tag_len, False)


def open_many(
    suite: str,
    keys: Keys,
    nonces: Optional[Strings],
    messages: Strings,
    associated_data: Union[bytes, Strings, None] = None,
    *,
    tag_len: Optional[int] = None,
    errors: str = "raise",
) -> Any:
    """Decrypts what :func:`seal_many` has made; see there.

    :param errors: ``"raise"`` raises :class:`NotAuthentic` for the first message that is not authentic, its index in the
        attribute ``row``; ``"none"`` gives ``None`` in its place, in lists.
    """
    if errors not in ("raise", "none"):
        raise Misuse('errors is "raise" or "none"')
    return _run(suite, False, keys, nonces, messages, associated_data, tag_len, errors == "none")


def mac_many(suite: str, keys: Keys, messages: Strings, *, nonces: Optional[Strings] = None, tag_len: Optional[int] = None) -> Any:
    """Authenticates messages (``"hmac-sha256"``, ``"cmac-aes-128"``, ``"poly1305"`` …), all in one batch; see
    :func:`seal_many`. To verify, compare by :func:`hmac.compare_digest`."""
    return _run(suite, True, keys, nonces, messages, None, tag_len, False)


def digest_many(suite: str, messages: Strings) -> Any:
    """Digests of messages (``"sha256"``, ``"sha3-256"``, ``"blake3"`` …), all in one batch; see :func:`seal_many`."""
    return _run(suite, True, None, None, messages, None, None, False)


def _run(
    suite: str,
    encrypts: bool,
    keys: Any,
    nonces: Any,
    messages: Any,
    associated_data: Any,
    tag_len: Optional[int],
    keeps_going: bool,
) -> Union[List[Optional[bytes]], Any]:
    out = None
    if hasattr(messages, "__array_interface__"):
        import numpy as np

        if keeps_going:
            raise Misuse('errors="none" is for lists: an array has no room for None')
        if messages.ndim != 2:
            raise Misuse("messages: an array has a row for each message")
        own, transforms = suite_shape(suite)
        more = own if tag_len is None else tag_len
        width = messages.shape[1] + (more if encrypts else -more) if transforms else more
        if width < 0:
            raise Misuse(f"messages: rows of {messages.shape[1]} bytes, and tags of {more}")
        out = np.empty((messages.shape[0], width), dtype=np.uint8)
        # Arrays are held by name while the batch runs.
        messages = np.ascontiguousarray(messages)
    keys, nonces, associated_data = _whole(keys), _whole(nonces), _whole(associated_data)
    done = run_batch(suite, encrypts, keys, nonces, messages, associated_data, tag_len, out, keeps_going)
    return done if out is None else out


def _whole(strings: Any) -> Any:
    """The same, without gaps if it is an array."""
    if not hasattr(strings, "__array_interface__"):
        return strings
    import numpy as np

    return np.ascontiguousarray(strings)
