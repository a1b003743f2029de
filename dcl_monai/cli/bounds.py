"""Calibrate bounds of Dice and volume, and write them into the bundle's model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .crossfit import add_crossfit, make_crossfit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--level", type=float, default=0.9, metavar="P", help="probability of every bound (default: 0.9)"
    )
    parser.add_argument(
        "--model", type=Path, metavar="FILE", help="model to write them into (default: models/model.pt of the bundle)"
    )
    add_crossfit(parser, fast=False)


def run(arguments: argparse.Namespace) -> int:
    """Train what is missing, calibrate, and show the bounds."""
    crossfit = make_crossfit(arguments)
    from dcl_monai.annotate import calibrate_model

    model = arguments.model or arguments.bundle / "models" / "model.pt"
    bounds = calibrate_model(crossfit, model, arguments.level)
    print(f"bounds that hold with {bounds['level']:.0%} probability, for new subjects like these:")
    for name, entry in bounds["structures"].items():
        print(f"  {name}: {describe(entry, bounds['level'])}")
    print(f"written into {model}; dcl-monai predict and evaluate show them.")
    return 0


def describe(entry: Mapping[str, Any], level: float) -> str:
    """What was calibrated for a structure, in a line."""
    drawn = f"drawn in {entry['images']} image(s) of {entry['subjects']} subject(s)"
    if "dice_margin" not in entry:
        return f"none: {drawn}, at least {round(level / (1 - level))} subjects are needed"
    margin = entry["dice_margin"]  # below zero: the models promised too little
    return (
        f"Dice at least confidence {'-+'[margin < 0]} {abs(margin):.3f}, volume within a factor of "
        f"{entry['volume_factor']:.2f}; {drawn}"
    )
