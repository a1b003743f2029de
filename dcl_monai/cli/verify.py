"""Run the model zoo's checks on a bundle, offline: one line each."""

from __future__ import annotations

import argparse
from pathlib import Path

from dcl_monai.utils import DataError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle")


def run(arguments: argparse.Namespace) -> int:
    """Print what every check found, and return 1 if one failed."""
    # MONAI takes a while to import, and other commands do without
    from dcl_monai.bundle.verify import verify_bundle

    if not (arguments.bundle / "configs").is_dir():
        raise DataError(f"{arguments.bundle}: is not a bundle: it has no folder configs. Make one: dcl-monai new.")
    failed = 0
    for name, problem in verify_bundle(arguments.bundle):
        failed += problem is not None
        print(f"{'ok' if problem is None else 'FAILED':<8}{name}" + (f": {problem}" if problem else ""))
    if not (arguments.bundle / "models" / "model.pt").is_file():
        print("there is no models/model.pt yet: model and export were not checked.")
    return 1 if failed else 0
