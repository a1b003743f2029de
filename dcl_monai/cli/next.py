"""Say which structure in which image to draw next, for the most gain per minute."""

from __future__ import annotations

import argparse
from pathlib import Path

from dcl_monai.utils import DataError

from .arguments import positive, say_view
from .crossfit import add_crossfit, make_crossfit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--out", type=Path, required=True, metavar="OUT", help="folder to write")
    parser.add_argument("--count", type=positive, default=20, help="number of structures (default: 20)")
    parser.add_argument(
        "--minutes",
        action="append",
        default=[],
        metavar="NAME=M",
        help="minutes that a structure takes; may be repeated (default: `minutes` of the file, or 5)",
    )
    parser.add_argument(
        "--by",
        choices=["image", "structure"],
        default="image",
        help="image: whole images, the least certain first (default); structure: by expected gain per minute",
    )
    add_crossfit(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train what is missing, rank, and say where the result is."""
    minutes = dict(map(named_minutes, arguments.minutes))
    crossfit = make_crossfit(arguments)
    from dcl_monai.annotate.propose import propose

    choices = propose(crossfit, arguments.out, arguments.count, minutes, arguments.by)
    items, classes = crossfit.datalist["training"], crossfit.classes
    for rank, choice in enumerate(choices[:5], 1):
        item = items[choice.case]
        print(f"{rank}. {classes[choice.structure]} in {item['image']} (expected error {choice.error:.2f})")
    print(f"all {len(choices)}: {arguments.out / 'next.csv'}, with pictures: {arguments.out / 'next.html'}")
    say_view(arguments.out)
    return 0


def named_minutes(text: str) -> tuple[str, float]:
    """Split ``RV=6``."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError as error:
        raise DataError(f"--minutes {text}: give the name of a structure and a number, such as RV=6.") from error
