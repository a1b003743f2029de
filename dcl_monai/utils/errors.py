"""One kind of error for a user's mistake, and the hook that shows it as one line."""

from __future__ import annotations

import errno
import os
import re
import sys
from types import TracebackType

__all__ = ["DataError", "report_user_errors"]


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)
WORKER = "in DataLoader worker process"
"""A process that loads data hands over what it met as text."""


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
        if WORKER in str(error) and (line := re.search(r"^[\w.]*\bDataError: (.+)$", str(error), re.MULTILINE)):
            return DataError(line[1])
        if isinstance(error, DataError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def find_refusal(error: BaseException | None) -> str | None:
    """Return one line if the system refused to write (a full disk, a folder that is read-only or gone)."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if WORKER in str(error) and (
            found := re.search(r"Error: \[Errno (\d+)\] (.+?): '(.+)'$", str(error), re.MULTILINE)
        ):
            error = OSError(int(found[1]), found[2], found[3])
        if isinstance(error, OSError):
            name = os.fsdecode(error.filename or "a file of this run")
            gone = error.errno == errno.ENOENT and not os.path.exists(os.path.dirname(name) or ".")
            if gone or error.errno in (*FULL, *CLOSED):
                return f"{name}: cannot be written ({reason(error)}). {remedy(error)}"
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def reason(error: OSError) -> str:
    """Say in a few words what the system refused."""
    return (error.strerror or str(error) or type(error).__name__).splitlines()[0][:120]


def remedy(error: OSError) -> str:
    """Say in one sentence what helps."""
    if error.errno in FULL:
        return "Make room on the disk, or choose another folder."
    return "Choose a folder that exists and that you may write to."


def in_a_line(error: BaseException) -> str:
    """What any error says, without line breaks."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def report_user_errors() -> None:
    """
    From now on show what a user can mend as one line on stderr instead of a traceback.

    That is a :class:`DataError` that nobody caught, a full disk or a closed folder wherever it is met, and Ctrl-C. The
    bundles call it when they are initialized; every other exception is shown as before. No exit code changes.
    """
    default_hook = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            print("stopped. A training goes on from its last complete epoch with --resume true.", file=sys.stderr)
            return
        line = find_user_error(error) or find_refusal(error)
        if line is None:
            default_hook(kind, error, traceback)
        else:
            print(f"error: {line}", file=sys.stderr)

    sys.excepthook = hook
