"""What a result was made by: versions of packages, the commit of the checkout; and since when."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

STARTED = float(os.environ.get("DCL_STARTED") or time.monotonic() - time.process_time())
"""When this run began: as the verb says that started this process, since a busy machine takes long to import; else by
what the process has done until here, on one core."""

PACKAGES = ("dcl-monai", "monai", "torch", "pytorch-ignite", "numpy", "scipy")
"""Packages that decide a result."""


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


@cache
def git_state() -> dict[str, str | bool] | None:
    """Commit of the checkout and whether it was changed; ``None`` where there is no git."""

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=str(files("dcl_monai")),
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"LC_ALL": "C"},
        )
        return done.stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", "__init__.py")  # an installed package may lie within some other repository
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "-uno"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def read_record(path: Path) -> dict[str, Any]:
    """The record in a JSON file; empty if there is none."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}
