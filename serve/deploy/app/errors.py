"""Errors in one line."""

from __future__ import annotations

from utils.errors import DataError

__all__ = ["DataError", "one_line"]


def one_line(error: BaseException) -> str:
    """The innermost cause of an error, in one line; MONAI and Holoscan wrap what their parts raise."""
    while error.__cause__ is not None and not isinstance(error, DataError):
        error = error.__cause__
    words = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, DataError):
        return words[0]
    return f"{type(error).__name__}: {words[-1] if words else 'no reason given'}"
