"""One kind of error for what a user can fix."""

from __future__ import annotations

__all__ = ["DataError", "one_line"]


class DataError(ValueError):
    """A mistake in files or settings; one line that names the file, the value found and the remedy."""


def one_line(error: BaseException) -> str:
    """The innermost cause of an error, in one line; MONAI and Holoscan wrap what their parts raise."""
    while error.__cause__ is not None and not isinstance(error, DataError):
        error = error.__cause__
    words = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, DataError):
        return words[0]
    return f"{type(error).__name__}: {words[-1] if words else 'no reason given'}"
