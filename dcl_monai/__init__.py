"""Deep Compatible Learning (DCL) for partially-supervised medical image segmentation, on MONAI.

The rooms are MONAI's own: ``transforms``, ``data``, ``losses``, ``networks``, ``engines``, ``handlers``, ``inferers``,
``metrics`` and ``visualize``; beside them ``datalist`` (what a user says about data), ``check`` (reads it all once),
``conditions`` (the paper's conditional idea), ``bundle`` (the model file) and ``synthetic`` (hearts to try it on).
Imports go down only, as ``[tool.importlinter]`` in ``pyproject.toml`` states. Equation numbers in the docstrings are
those of Zhang and Zhuang, "Deep Compatible Learning for Partially-Supervised Medical Image Segmentation";
``docs/concepts/equations.md`` maps each of them to its code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

VERBS = ("evaluate", "export", "predict", "train")


def __getattr__(name: str) -> Any:
    # torch and MONAI take a while to import, and most of the package does without these
    if name in VERBS:
        return getattr(import_module("dcl_monai.bundle.commands"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
