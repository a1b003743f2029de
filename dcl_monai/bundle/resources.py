"""Where the overlays and the bundles of this project are, with or without a clone of it.

``configs/`` and ``bundles/`` lie at the top of the repository. This package links to them, and a wheel carries copies.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def overlay_folder() -> Path:
    """The folder of the overlays, ``configs/``."""
    return Path(str(files("dcl_monai.bundle") / "configs")).resolve()


def bundle_folder() -> Path:
    """The folder of the project's own bundles, ``bundles/``."""
    return Path(str(files("dcl_monai.bundle") / "bundles")).resolve()


def is_installed(path: Path) -> bool:
    """Whether a path lies within the installed package, where nothing should be written."""
    return path.resolve().is_relative_to(Path(str(files("dcl_monai"))).resolve())
