"""One kind of error for a user's mistake, and the hook that shows it as one line."""

from __future__ import annotations

import sys
from types import TracebackType

__all__ = ["DataError", "report_user_errors"]


class DataError(ValueError):
    """
    A mistake in the data or settings that a user can fix.

    The message is one line that names the file (or entry), the value found and the remedy.
    """


def find_user_error(error: BaseException | None) -> DataError | None:
    """Return the first :class:`DataError` in the chain of causes of ``error``, if there is one.

    MONAI's config parser and transforms wrap what they catch (``raise RuntimeError(...) from error``).
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, DataError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def report_user_errors() -> None:
    """
    From now on print a :class:`DataError` that nobody caught as one line on stderr instead of a traceback.

    The bundles call it when they are initialized; every other exception is shown as before, and the exit code of the
    process stays 1 for both.
    """
    default_hook = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        user_error = find_user_error(error)
        if user_error is None:
            default_hook(kind, error, traceback)
        else:
            print(f"error: {user_error}", file=sys.stderr)

    sys.excepthook = hook
