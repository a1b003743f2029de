"""Find drawn labels contradicted by models that did not see them: swapped names, forgotten slices, moved masks."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import positive, say_view
from .crossfit import add_crossfit, make_crossfit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--out", type=Path, required=True, metavar="OUT", help="folder to write")
    parser.add_argument("--count", type=positive, default=40, help="structures on the page (default: 40)")
    add_crossfit(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train what is missing, compare, and say where the result is."""
    crossfit = make_crossfit(arguments)
    from dcl_monai.annotate.audit import audit, describe, say

    findings, protocols = audit(crossfit, arguments.out, arguments.count)
    for rank, finding in enumerate(findings[:5], 1):
        name, image = crossfit.classes[finding.structure], crossfit.annotated[finding.case]["image"]
        print(f"{rank}. {name} in {image}: {say(finding, crossfit.classes)} (score {finding.score:.1f})")
    for protocol in protocols:
        print(f"difference between data sets: {describe(protocol, crossfit.classes)}")
    print(f"all {len(findings)}: {arguments.out / 'audit.csv'}, with pictures: {arguments.out / 'audit.html'}")
    say_view(arguments.out)
    return 0
