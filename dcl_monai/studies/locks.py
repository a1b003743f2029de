"""A lock on the folder of a run, so that no two processes work on it."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows; a run is then not protected from being started twice
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_locked", "take_lock"]

NAME = ".lock"


def take_lock(folder: Path) -> int | None:
    """
    Lock a folder.

    Returns:
        a file descriptor, which holds the lock until it is closed here and in every process that inherited it;
        ``None`` if another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    if fcntl is not None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
    return lock


def is_locked(folder: Path) -> bool:
    """Whether a process works on a folder."""
    if not (folder / NAME).exists():
        return False
    lock = take_lock(folder)
    if lock is not None:
        os.close(lock)
    return lock is None
