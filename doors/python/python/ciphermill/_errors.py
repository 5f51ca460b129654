"""The exceptions: the four kinds of errors, and values that are not authentic."""

from __future__ import annotations

from typing import Optional


class CiphermillError(Exception):
    """Anything that Ciphermill refuses.

    Where the error is about one value, ``column`` is the column's name and ``row`` its row, counted from 1; where it is
    about one message of a batch, ``row`` is its index, counted from 0. Else they are ``None``.
    What the operating system refuses (no such file, no permission) is an ``OSError`` instead.
    """

    def __init__(self, message: str, column: Optional[str] = None, row: Optional[int] = None) -> None:
        super().__init__(message)
        self.column = column
        self.row = row

    def __reduce__(self):  # so that it comes whole from worker processes
        return type(self), (self.args[0], self.column, self.row)


class Misuse(CiphermillError, ValueError):
    """The caller's mistake: a wrong argument, a value or type that a method does not take. Nothing was done."""


class Refused(CiphermillError):
    """A policy, an access rule or a wrong secret says no."""


class NotAuthentic(Refused):
    """A value was changed, or belongs to another column, key or row."""


class Exhausted(CiphermillError):
    """A limit has been reached; the message names it."""


class EngineFault(CiphermillError, RuntimeError):
    """An engine failed: a device, a library, or the operating system's random numbers."""
