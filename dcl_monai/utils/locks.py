"""A lock on the folder of a run, so that no two processes work on it."""

from __future__ import annotations

import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows; a run is then not protected from being started twice
    fcntl = None  # type: ignore[assignment]

__all__ = ["is_locked", "take_lock"]

NAME = ".lock"
PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)  # seconds before each attempt: whoever asks for the lock holds it for a moment


def take_lock(folder: Path) -> int | None:
    """
    Lock a folder.

    Returns:
        a file descriptor, which holds the lock until it is closed here and in every process that inherited it;
        ``None`` if another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    for pause in PAUSES:
        time.sleep(pause)
        if acquired(lock, shared=False):
            return lock
    os.close(lock)
    return None


def is_locked(folder: Path) -> bool:
    """Whether a process works on a folder."""
    try:
        lock = os.open(folder / NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    locked = not acquired(lock, shared=True)  # shared: two that ask at once do not take each other for work
    os.close(lock)
    return locked


def acquired(lock: int, shared: bool) -> bool:
    """Try once to lock an open file."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
