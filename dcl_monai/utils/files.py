"""Writing files so that nothing on disk is ever half-written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

__all__ = ["copy_atomic", "save_atomic", "write_atomic"]


def replace_atomic(path: str | Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` write a file beside ``path`` and put it in place in one step."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: str | Path, text: str) -> None:
    """Write a text file in one step."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    replace_atomic(path, write)


def save_atomic(content: Any, path: str | Path) -> None:
    """``torch.save`` in one step."""
    replace_atomic(path, lambda temporary: torch.save(content, temporary))


def copy_atomic(source: str | Path, path: str | Path) -> None:
    """Copy a file in one step."""

    def copy(temporary: Path) -> None:
        shutil.copyfile(source, temporary)

    replace_atomic(path, copy)
