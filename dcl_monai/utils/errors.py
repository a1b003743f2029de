"""One kind of error for a user's mistake, and the hook that shows it as one line."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator
from types import TracebackType

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLOSED = (errno.EROFS, errno.EACCES, errno.EPERM)
WORKER = "in DataLoader worker process"
"""A process that loads data hands over what it met as text."""


class DataError(ValueError):
    """
    A mistake in the data or settings that a user can fix.

    The message is one line that names the file (or entry), the value found and the remedy.
    """


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it came of: MONAI's parser and transforms wrap what they catch (``raise ... from error``)."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def find_user_error(error: BaseException | None) -> DataError | None:
    """Return the first :class:`DataError` among the causes of an error, if there is one."""
    for cause in causes(error):
        if WORKER in str(cause) and (line := re.search(r"^[\w.]*\bDataError: (.+)$", str(cause), re.MULTILINE)):
            return DataError(line[1])
        if isinstance(cause, DataError):
            return cause
    return None


def find_refusal(error: BaseException | None) -> str | None:
    """Return one line if the system refused to write (a full disk, a folder that is read-only or gone)."""
    for cause in causes(error):
        told = re.search(r"Error: \[Errno (\d+)\] (.+?): '(.+)'$", str(cause), re.MULTILINE)
        refused = OSError(int(told[1]), told[2], told[3]) if told and WORKER in str(cause) else cause
        if isinstance(refused, OSError):
            name = os.fsdecode(refused.filename or "a file of this run")
            gone = refused.errno == errno.ENOENT and not os.path.exists(os.path.dirname(name) or ".")
            if gone or refused.errno in (*FULL, *CLOSED):
                return f"{name}: cannot be written ({first_line(refused)}). {remedy(refused)}"
    return None


def first_line(error: BaseException) -> str:
    """What an error says, in a few words and without the path, which is named anyway."""
    text = getattr(error, "strerror", None) or str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(".")[:120]


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
            print("stopped. --resume true continues a training from its last complete epoch.", file=sys.stderr)
            return
        line = find_user_error(error) or find_refusal(error)
        if line is None:
            default_hook(kind, error, traceback)
        else:
            print(f"error: {line}", file=sys.stderr)

    sys.excepthook = hook
