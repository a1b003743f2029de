"""Complete partial labels: keep what was drawn, fill the rest by models that did not see the image."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import positive, say_view
from .crossfit import add_crossfit, make_crossfit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--out", type=Path, required=True, metavar="OUT", help="folder to write")
    parser.add_argument(
        "--format",
        choices=["nnunet", "decathlon", "masks"],
        default="nnunet",
        help="nnU-Net v2 raw, a Decathlon list, or one mask per structure (default: nnunet)",
    )
    parser.add_argument(
        "--ignore",
        type=float,
        metavar="P",
        help="give voxels that are filled with a probability of P or less the ignore label; 1: all that nobody drew",
    )
    parser.add_argument(
        "--number", type=positive, default=1, metavar="N", help="number of nnU-Net's data set (default: 1)"
    )
    add_crossfit(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train what is missing, complete, and say where the result is."""
    crossfit = make_crossfit(arguments)
    from dcl_monai.annotate import complete_datalist

    complete_datalist(crossfit, arguments.out, arguments.format, arguments.ignore, arguments.number)
    print(f"completed labels: {arguments.out}\nlook first at: {arguments.out}/work_list.csv")
    say_view(arguments.out)
    if arguments.format == "nnunet":
        print(
            f"next: nnUNet_raw={arguments.out} nnUNetv2_plan_and_preprocess -d {arguments.number} "
            "--verify_dataset_integrity"
        )
    return 0
