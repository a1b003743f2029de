"""Make a bundle for your own data: check it, plan a network, write everything that training needs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from .arguments import add_file, add_planning, add_workers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder to write; its name is the bundle's")
    parser.add_argument(
        "--size",
        choices=["small", "full"],
        help="small: coarse grid and small network, for CPUs; full: the planned grid and a network of nnU-Net's size, "
        "for a GPU (default: by the device)",
    )
    add_planning(parser)
    parser.add_argument("--authors", default="not given", help="authors of the bundle, for its metadata")
    add_workers(parser)
    parser.add_argument(
        "--force", action="store_true", help="replace configs and README of a bundle; its models and runs stay"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the bundle, and say what it will do, how long that takes and what comes next."""
    # networks and losses take a while to import, and other commands do without
    from dcl_monai.bundle.new import SCHEDULES, prepare_bundle, refuse_folder, write_new_bundle

    refuse_folder(arguments.bundle, arguments.force)
    names = ("size", "device", "dims", "modality", "authors", "workers")
    options = {name: getattr(arguments, name) for name in names}
    bundle = prepare_bundle(arguments.file, arguments.bundle, memory_gb=arguments.memory, **options)
    write_new_bundle(bundle)
    schedule, folder = SCHEDULES[bundle.size], shlex.quote(str(arguments.bundle))
    print(bundle.table)
    print(
        f"training: size {bundle.size}, {schedule.stage1_epochs} + {schedule.stage2_epochs} epochs of "
        f"{schedule.iterations} steps, {sum(schedule.steps)} in all; {bundle.time_said()}"
    )
    said = arguments.authors != "not given"
    authors = "" if said else f", authors and copyright in {arguments.bundle}/configs/metadata.json"
    print(f"bundle: {arguments.bundle}; complete {arguments.bundle}/docs/data_license.txt{authors}\nnext:")
    print(f"  dcl-monai train {folder}")
    return 0
