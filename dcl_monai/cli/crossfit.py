"""What commands share that use models which did not see the images."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from .arguments import add_file, positive
from .verbs import split_overlays

if TYPE_CHECKING:
    from dcl_monai.annotate import CrossFit


def add_crossfit(parser: argparse.ArgumentParser, fast: bool = True) -> None:
    """Add data, bundle and how its models are trained; ``fast``: the bundle's own model can be used instead."""
    add_file(parser)
    parser.add_argument("--bundle", type=Path, required=True, metavar="BUNDLE", help="folder of the bundle")
    parser.add_argument(
        "--folds", type=positive, default=3, metavar="K", help="models, each of which sees all but 1/K of the subjects"
    )
    if fast:
        parser.add_argument("--fast", action="store_true", help="use the bundle's own model, which has seen the images")
    parser.add_argument(
        "--training",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="--id VALUE",
        help="last: options of the folds' trainings, as dcl-monai train takes them",
    )


def make_crossfit(arguments: argparse.Namespace) -> CrossFit:
    """The models that the arguments describe, not trained yet."""
    # networks and losses take a while to import, and other commands do without
    from dcl_monai.annotate import CrossFit

    overlays, words = split_overlays(arguments.training)
    fast = getattr(arguments, "fast", False)
    return CrossFit(arguments.file, arguments.bundle, arguments.folds, fast, words, overlays)
