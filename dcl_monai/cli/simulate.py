"""Turn a fully labelled datalist into a partial one: hide classes per subject, or draw scribbles."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from dcl_monai import __version__
from dcl_monai.datalist import Datalist, Item, load_datalist, simulate_datalist, write_datalist
from dcl_monai.datalist.items import shown_classes
from dcl_monai.datalist.simulate import PAPER_TASKS
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.synthetic.scribbles import scribble_items

from .arguments import SPLIT, refuse_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "full", type=Path, metavar="FULL.yaml", help="datalist whose training images are labelled in full"
    )
    parser.add_argument("out", type=Path, metavar="OUT.json", help="partial datalist to write")
    parser.add_argument(
        "--classes-per-subject",
        type=int,
        metavar="K",
        help="number of classes, background included, that are annotated in each training subject (default: 1, or the "
        "task's; with --scribbles: all)",
    )
    parser.add_argument(
        "--scribbles",
        action="store_true",
        help="draw strokes instead of hiding classes; beside OUT.json as NIfTI files",
    )
    division = parser.add_mutually_exclusive_group()
    division.add_argument(
        "--split",
        **SPLIT,
        help="sizes of training, validation and test, in proportion to each other (default: the splits of FULL.yaml)",
    )
    division.add_argument(
        "--task",
        choices=sorted(PAPER_TASKS),
        help="the paper's split and classes per subject: "
        + "; ".join(f"{task} {'/'.join(map(str, parts))} and {k}" for task, (parts, k) in PAPER_TASKS.items()),
    )
    parser.add_argument(
        "--partial-validation", action="store_true", help="treat the validation images like the training images"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random choices (default: 0)")
    parser.add_argument("--force", action="store_true", help="replace OUT.json and its scribbles if they exist")


def run(arguments: argparse.Namespace) -> int:
    """Simulate, write, and say what was made."""
    out: Path = arguments.out
    strokes = out.with_name(f"{out.stem}_scribbles") if arguments.scribbles else None
    refuse_output(out, strokes, arguments.full, arguments.force)
    split, per_subject = PAPER_TASKS.get(arguments.task, (arguments.split, 1))
    full = load_datalist(arguments.full)
    num_classes = len(full["classes"])
    if arguments.classes_per_subject is not None:
        per_subject = arguments.classes_per_subject
    elif arguments.scribbles:
        per_subject = num_classes
    datalist = simulate_datalist(full, split, "partial", per_subject, arguments.partial_validation, arguments.seed)
    coverage: dict[str, float] = {}
    if strokes is not None:
        training, validation = datalist["training"], datalist["validation"]
        items = [*training, *validation] if arguments.partial_validation else training
        items, means = scribble_items(items, num_classes, strokes, arguments.seed)
        datalist["training"] = items[: len(training)]
        datalist["validation"] = items[len(training) :] or validation
        coverage = dict(zip(full["classes"], means, strict=True))
    digest = write_datalist(datalist, out)
    print(describe(datalist, coverage))
    print(f"SHA-256     {digest}\n")
    print(f"For a methods section:\n  {methods_sentence(datalist, per_subject, arguments, digest)}\n")
    print(f"Written to {out}. Next:\n  python -m dcl_monai check {out}")
    return 0


def describe(datalist: Datalist, coverage: Mapping[str, float]) -> str:
    """Say how many subjects and images there are, what the training subjects show, and how much strokes cover."""
    lines = [f"{name:<10}  {count_subjects(datalist[name])} subjects, {len(datalist[name])} images" for name in SPLITS]
    classes = datalist["classes"]
    shown = [(item, shown_classes(item, len(classes))) for item in datalist["training"]]
    counts = [count_subjects([item for item, js in shown if j in js]) for j in range(len(classes))]
    lines.append("annotated   " + ", ".join(map("{}: {}".format, classes, counts)) + " training subjects")
    if coverage:
        shares = (f"{name}: {share:.1%}" for name, share in coverage.items() if not math.isnan(share))
        lines.append("strokes     cover " + ", ".join(shares) + " of the class on average")
    return "\n".join(lines)


def methods_sentence(datalist: Datalist, per_subject: int, arguments: argparse.Namespace, digest: str) -> str:
    """The sentence by which readers of a paper can make the same data."""
    kind = "Scribbles" if arguments.scribbles else "Partial annotations"
    sizes = "/".join(str(count_subjects(datalist[name])) for name in SPLITS)
    number = len(datalist["classes"])
    amount = f"all {number}" if per_subject == number else f"{per_subject} of {number}"
    return (
        f"{kind}: dcl-monai {__version__}, seed {arguments.seed}, {amount} classes per subject, split {sizes} subjects "
        f"(training/validation/test), datalist SHA-256 {digest}."
    )


def count_subjects(items: Sequence[Item]) -> int:
    """Number of subjects of items."""
    return len({item["subject"] for item in items})
