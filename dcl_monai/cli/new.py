"""Make a bundle for your own data: check it, plan a network, write everything that training needs."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from .arguments import positive, positive_float

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", type=Path, help="YAML or JSON file that describes the data")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder to write; its name is the bundle's")
    parser.add_argument(
        "--size",
        choices=["small", "full"],
        help="small: coarse grid and small network, for CPUs; full: the planned grid and a network of nnU-Net's size, "
        "for a GPU (default: by the device)",
    )
    parser.add_argument("--memory", type=positive_float, default=8.0, metavar="GB", help="of the device (default: 8)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="what will train (default: CUDA if there is one)")
    parser.add_argument("--dims", type=int, choices=[2, 3], help="2: slices, 3: volumes (default: by the data)")
    parser.add_argument("--modality", choices=["ct", "mr"], help="how intensities are scaled (default: by the data)")
    parser.add_argument("--authors", default="not given", help="who makes the bundle, for its metadata")
    parser.add_argument(
        "--workers", type=positive, default=os.cpu_count() or 1, help="processes that read (default: all cores)"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace configs and README of a bundle; its models and runs stay"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the bundle, and say what it will do, how long that takes and what comes next."""
    # networks and losses take a while to import, and other commands do without
    from dcl_monai.bundle.new import SCHEDULES, prepare_bundle, refuse_folder, write_new_bundle

    refuse_folder(arguments.bundle, arguments.force)
    bundle = prepare_bundle(
        arguments.file,
        arguments.bundle,
        arguments.size,
        arguments.memory,
        arguments.device,
        arguments.dims,
        arguments.modality,
        arguments.authors,
        arguments.workers,
    )
    write_new_bundle(bundle)
    schedule, folder = SCHEDULES[bundle.size], shlex.quote(str(arguments.bundle))
    print(bundle.table)
    print(
        f"training: size {bundle.size}, {schedule.stage1_epochs} + {schedule.stage2_epochs} epochs of "
        f"{schedule.iterations} steps, {sum(schedule.steps)} in all; {bundle.time_said()}"
    )
    print(f"bundle: {arguments.bundle}; complete {arguments.bundle}/docs/data_license.txt\nnext:")
    print(f"  dcl-monai train {folder}")
    return 0
