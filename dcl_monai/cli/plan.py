"""Set up a network from the data, as nnU-Net does: write an overlay for a bundle, and a table that explains it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from dcl_monai.utils.files import write_atomic

from .arguments import add_file, add_planning, add_workers, refuse_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_file(parser)
    add_planning(parser)
    parser.add_argument("--out", type=Path, help="overlay to write (default: <file>_plan.json beside the file)")
    add_workers(parser)
    parser.add_argument("--force", action="store_true", help="replace the overlay and its table if they exist")


def run(arguments: argparse.Namespace) -> int:
    """Read the data, plan, write overlay and table, and say how to train."""
    # networks and losses take a while to import, and other commands do without
    import torch

    from dcl_monai.bundle.template import BUNDLES
    from dcl_monai.datalist import datalist_hash, load_datalist
    from dcl_monai.datalist.items import channels_of
    from dcl_monai.planning import (
        as_json,
        as_table,
        epoch_steps,
        make_overlay,
        make_plan,
        say_time,
        take_fingerprint,
    )

    out: Path = arguments.out or arguments.file.with_name(f"{arguments.file.stem}_plan.json")
    table = out.with_suffix(".txt")
    refuse_output(out, table, arguments.file, arguments.force)
    datalist = load_datalist(arguments.file)
    fingerprint = take_fingerprint(datalist, arguments.workers)
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    ct = None if arguments.modality is None else arguments.modality == "ct"
    plan = make_plan(fingerprint, arguments.memory, device, arguments.dims, ct)
    overlay, text = make_overlay(plan, datalist_hash(datalist)), as_table(plan, fingerprint, str(arguments.file))
    write_atomic(out, as_json(overlay))
    write_atomic(table, text)
    files = f"['{overlay['plan']['bundle']}/train.json','{out}']"
    print(text)
    bundle, steps = BUNDLES[Path(overlay["plan"]["bundle"]).name], epoch_steps(plan, fingerprint)
    epochs = bundle.stage1_epochs, bundle.stage2_epochs
    stages = steps * epochs[0], steps * epochs[1]
    time = say_time(plan, len(datalist["classes"]), len(channels_of(datalist)), stages)
    print(f"training: {epochs[0]} + {epochs[1]} epochs by default, about {sum(stages)} steps; {time}")
    print(f"overlay: {out}\nthis table: {table}\nnext:")
    print(
        f'  python -m monai.bundle run training --config_file "{files}" --datalist {shlex.quote(str(arguments.file))}'
    )
    return 0
