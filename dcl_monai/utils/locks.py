"""A lock on the folder of a run, so that no two processes work on it."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows; a run is then not protected from being started twice
    fcntl = None  # type: ignore[assignment]

from .distributed import on_first_rank
from .errors import DataError, first_line, remedy
from .files import remove_stale

NAME = ".lock"
PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)  # seconds before each attempt: whoever asks for the lock holds it for a moment


held: dict[Path, int] = {}
"""Locks that this process holds until it ends."""


@on_first_rank
def lock_outputs(output_dir: str | Path, model_file: str | Path) -> None:
    """
    Keep other trainings from the folder and the model file of this one until the process ends, however it ends.

    What a training that was killed left half-written there is removed.

    Args:
        output_dir: folder of the training.
        model_file: the model that it writes; two folders may share one by mistake.

    Raises:
        DataError: when another training has one of the two, or the folders cannot be written to.
    """
    model_file = Path(model_file)
    places = [
        (Path(output_dir), ".training.lock", "*", "--output_dir"),
        (model_file.parent, f".{model_file.name}.lock", model_file.name, "--model_file"),
    ]
    for folder, name, files, option in places:
        where = folder if files == "*" else model_file
        path = folder.resolve() / name
        if path in held:
            continue
        try:
            lock = take_lock(folder, name)
        except OSError as error:
            raise DataError(f"{where}: cannot be written ({first_line(error)}). {remedy(error)}") from error
        if lock is None:
            raise DataError(f"{where}: another training is writing to it. Wait until it ends, or set another {option}.")
        held[path] = lock
        os.register_at_fork(after_in_child=lambda lock=lock: os.close(lock))  # type: ignore[misc]  # workers may outlive us
        remove_stale(folder, files)


def take_lock(folder: Path, name: str = NAME) -> int | None:
    """
    Lock a folder.

    Args:
        folder: the folder; it is made.
        name: name of the file in it that is locked.

    Returns:
        a file descriptor, which holds the lock until it is closed here and in every process that inherited it;
        ``None`` if another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
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
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):  # a disk without locks protects nobody
            raise
    return True
