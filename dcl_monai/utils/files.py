"""Writing files so that nothing on disk is ever half-written, and reading back only what is whole."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from .errors import DataError, first_line, remedy

FOLDER = 0x10
"""Flag of a folder among the attributes of an archive's entry."""


class WriteError(DataError, OSError):
    """A file that cannot be written: a full disk, a folder that is read-only or gone."""


def replace_atomic(path: str | Path, write: Callable[[Path], object]) -> None:
    """
    Let ``write`` write a file beside ``path`` and put it in place in one step.

    Content and name are on the disk when this returns: a power cut leaves the old file or the new one. When the disk is
    full or the folder cannot be written to, a :class:`WriteError` says so, and what was there before stays. Ignite's
    ``DiskSaver(atomic=True)`` does not wait for the disk, and takes checkpoints alone.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    except OSError as error:
        if error.filename not in (None, *map(str, (temporary, path, *path.parents))):
            raise  # of a file that ``write`` reads
        raise WriteError(f"{path}: cannot be written ({first_line(error)}). {remedy(error)}") from error
    finally:
        with suppress(OSError):  # the folder is none, or read-only: told above
            temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks cannot
            raise
    finally:
        os.close(descriptor)


def remove_stale(folder: str | Path, name: str = "*") -> None:
    """
    Remove what :func:`replace_atomic` left of files of a name in a folder, not below, when its process was killed.

    Call it only while nobody else writes there, see :mod:`dcl_monai.utils.locks`.
    """
    for path in Path(folder).glob(f".{name}.*.tmp"):
        if path.suffixes[-2][1:].isdigit():
            path.unlink(missing_ok=True)


def write_atomic(path: str | Path, text: str) -> None:
    """Write a text file in one step."""
    replace_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def save_atomic(content: Any, path: str | Path) -> None:
    """
    ``torch.save`` in one step.

    Equal content gives equal bytes: given a path, torch would name the archive inside after it.
    """

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            try:
                torch.save(content, file)
            except RuntimeError as error:  # torch closes its archive all the same, and complains that it is short
                raise (error.__context__ if isinstance(error.__context__, OSError) else error) from None

    replace_atomic(path, save)


def copy_atomic(source: str | Path, path: str | Path) -> None:
    """Copy a file in one step."""
    replace_atomic(path, lambda temporary: shutil.copyfile(source, temporary))


def load_checked(path: str | Path, what: str, advice: str) -> Any:
    """
    Read a file of :func:`save_atomic` or ``torch.save`` as if a stranger had sent it: no code is run.

    Args:
        path: the file.
        what: what messages call it, such as "a model".
        advice: what helps if it is damaged: a clause without a full stop.

    Returns:
        its content, tensors on the CPU.

    Raises:
        DataError: one line, when the file is missing, truncated, changed by a single bit, of another kind, unpacks to
            more than its own size, or holds numbers that are not finite.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file. To continue, {advice}.")
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:  # torch itself does not look at the checksums
            if sum(entry.file_size for entry in archive.infolist()) > size:
                raise ValueError("it unpacks to more than its own size")  # torch does not pack tensors
            # torch takes an entry that is flagged as a folder for one without content, and leaves the tensor as it is
            folders = [entry.filename for entry in archive.infolist() if entry.external_attr & FOLDER]
            damaged = archive.testzip() or next(iter(folders), None)
        if damaged is not None:
            raise ValueError(f"wrong checksum of {damaged}")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes torch raise whatever it likes
        raise DataError(
            f"{path}: cannot be read as {what} ({first_line(error)}). It is damaged, or of another kind: {advice}."
        ) from error
    for name, value in _tensors(content):
        if value.numel() * value.element_size() > size:  # strides of zero: a few bytes that claim to be gigabytes
            raise DataError(f"{path}: {name} claims to be larger than the file, which is damaged or changed: {advice}.")
        if value.is_floating_point() and not value.isfinite().all():
            raise DataError(f"{path}: {name} holds values that are not finite: {advice}.")
    return content


def _tensors(content: Any, name: str = "content") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors of nested dictionaries and lists, each with the last key on the way to it."""
    if isinstance(content, torch.Tensor):
        yield name, content
    elif isinstance(content, Mapping):
        for key, value in content.items():
            yield from _tensors(value, str(key))
    elif isinstance(content, (list, tuple)):
        for value in content:
            yield from _tensors(value, name)


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
