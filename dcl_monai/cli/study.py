"""Run a study of the paper: every row is trained by the same budget on the same split. Call it again to go on."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from dcl_monai.utils import DataError

from .arguments import SPLIT

STUDIES = ("ladder", "ablation", "sensitivity", "losses", "baselines", "all")
BUDGETS = ("smoke", "short", "paper")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("study", choices=STUDIES, help="which rows; a row of several studies is trained once")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of all runs, and of the report")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="K", help="default: 0 1 2")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="only these rows, by name; see --list")
    parser.add_argument("--list", action="store_true", help="show the runs and how far they are, and run nothing")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs at a time (default: one per core, or 1 with a GPU)")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        metavar="N",
        help="CPU threads of each run (default: 1; another number rounds differently)",
    )
    shared = parser.add_argument_group("shared by all runs; fixed by the first call")
    shared.add_argument("--bundle", help="acdc (default), mscmr, mmwhs, or the folder of a bundle")
    data = shared.add_mutually_exclusive_group()
    data.add_argument("--dataset_dir", metavar="DIR", help="data in the layout of the bundle (default: synthetic)")
    data.add_argument("--datalist", metavar="FILE", help="fully labelled data of your own, see docs/start/own_data.md")
    shared.add_argument(
        "--split",
        **SPLIT,
        help="sizes of training, validation and test in proportion to each other (default: the bundle's)",
    )
    shared.add_argument("--split_seed", type=int, metavar="N", help="seed of the split (default: 0)")
    shared.add_argument(
        "--fold", type=int, metavar="N", help="fold of the split: each fold tests other subjects (default: 0)"
    )
    shared.add_argument("--budget", choices=BUDGETS, help="epochs and iterations by name (default: short)")
    shared.add_argument("--epochs", type=int, nargs=2, metavar=("A", "B"), help="epochs of stage 1 and stage 2")
    shared.add_argument("--iterations", type=int, metavar="N", help="iterations per epoch")
    shared.add_argument("--overlay", nargs="+", metavar="FILE", help="config files for all runs, before the row's own")
    shared.add_argument("--set", nargs="+", metavar="ID=VALUE", help="single ids of the configuration, for all runs")


def run(arguments: argparse.Namespace) -> int:
    """Run the study, and return 1 if a run failed."""
    # torch and MONAI take a while to import, and other commands do without
    from dcl_monai.studies import open_study, run_study, save_study
    from dcl_monai.studies.checks import check_ids, count_subjects
    from dcl_monai.studies.progress import Display
    from dcl_monai.studies.runs import make_run
    from dcl_monai.studies.tables import recipes_of

    check_numbers(arguments)
    recipes = recipes_of(arguments.study, arguments.only)
    settings = open_study(arguments.out, asked_settings(arguments))
    # seed by seed, so that a study that is stopped early has whole tables
    runs = [
        make_run(arguments.out, settings, recipe, seed) for seed in dict.fromkeys(arguments.seeds) for recipe in recipes
    ]
    check_ids(settings, runs)
    for planned in runs:
        planned.check()
    subjects = ", ".join(f"{count} {split}" for split, count in count_subjects(runs[0]).items())
    print(f"subjects: {subjects} (split seed {settings.split_seed}, fold {settings.fold})")
    jobs = arguments.jobs or default_jobs()
    if arguments.list:
        from rich import print as show

        show(Display(runs, status={run.folder: run.status() for run in runs}).table())
        return 0
    save_study(arguments.out, settings)
    elsewhere, failures = run_study(runs, jobs, arguments.threads, Display(runs, jobs))
    for other in elsewhere:
        print(f"{other.name}: is running elsewhere and was skipped.")
    for failure in failures:
        print(failure.describe(), file=sys.stderr)
    if failures:
        print(f"{len(failures)} of {len(runs)} runs failed; run the command again to continue them.", file=sys.stderr)
        return 1
    print(f"done. Next:\n  python -m dcl_monai report {arguments.out}")
    return 0


def check_numbers(arguments: argparse.Namespace) -> None:
    """Refuse numbers that are too small."""
    if min(arguments.seeds) < 0:
        raise DataError(f"--seeds {min(arguments.seeds)}: a seed must not be negative.")
    for option, least in {"split_seed": 0, "fold": 0, "jobs": 1, "threads": 1, "iterations": 1}.items():
        given = getattr(arguments, option)
        if given is not None and given < least:
            raise DataError(f"--{option} {given}: give at least {least}.")
    stage1, stage2 = arguments.epochs or (1, 0)
    if stage1 < 1 or stage2 < 0:
        raise DataError(f"--epochs {stage1} {stage2}: give at least 1 and 0.")


def asked_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The shared settings that the user gave."""
    from dcl_monai.studies import BUDGETS

    asked: dict[str, Any] = {}
    if arguments.budget is not None:
        *epochs, iterations = BUDGETS[arguments.budget]
        asked = {"epochs": tuple(epochs), "iterations": iterations}
    names = ("bundle", "dataset_dir", "datalist", "split", "split_seed", "fold", "epochs", "iterations")
    given = {name: getattr(arguments, name) for name in names} | {"overlays": arguments.overlay}
    asked |= {name: tuple(v) if isinstance(v, list) else v for name, v in given.items() if v is not None}
    if arguments.set is not None:
        asked["settings"] = dict(map(parse_setting, arguments.set))
    return asked


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``id=value``; a value that is no JSON is a word."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise DataError(f"--set {text}: write ID=VALUE, like batch_size=16.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def default_jobs() -> int:
    """One run per core, or one if there is a GPU."""
    import torch

    if torch.cuda.is_available():
        return 1
    # of the cores of a machine a scheduler may give but some; macOS cannot tell
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
