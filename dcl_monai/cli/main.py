"""Commands by name, and how their mistakes are shown."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from dcl_monai.utils import DataError

from .verbs import VERBS, add_verb

COMMANDS = {
    "audit": "find drawn labels contradicted by models that did not see them",
    "bank": "show the images that a model carries, or replace them",
    "bounds": "calibrate bounds of Dice and volume for the results of a model",
    "check": "look at every file of a datalist and write a report",
    "check-loss": "tell whether a loss of your own is compatible",
    "complete": "fill what nobody drew, and write full labels for other tools",
    "convert": "make a datalist of a public data set in its original layout",
    "evaluate": "test the model of a bundle",
    "export": "write the model of a bundle as TorchScript, ONNX or a program of torch.export",
    "new": "make a bundle for your own data",
    "next": "say which structure in which image to draw next",
    "plan": "set up a network from the data, as an overlay for a bundle",
    "predict": "segment a folder of images with a bundle",
    "report": "make the report of a study: tables, statistics and pictures",
    "simulate": "hide classes of a fully labelled datalist, or draw scribbles",
    "study": "run a study of the paper: ablation, data sensitivity, losses, baselines",
    "train": "train a bundle",
    "verify": "run the model zoo's checks on a bundle",
    "view": "show images and what is drawn on them in the browser",
}
"""Each but the verbs is a module of this package with ``add_arguments(parser)`` and ``run(arguments) -> exit code``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run a command.

    Args:
        arguments: words of the command line; default: those of the process.

    Returns:
        the exit code: 0, or 1 for a mistake of the user, which is shown as one line.
    """
    name = "dcl-monai" if Path(sys.argv[0]).stem == "dcl-monai" else "python -m dcl_monai"
    parser = argparse.ArgumentParser(prog=name, description="Train on partial labels, with MONAI.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in VERBS:
            add_verb(command, name)
            continue
        module = import_module(f"dcl_monai.cli.{name.replace('-', '_')}")
        command.description = module.__doc__
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    parsed = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:  # the reader of a pipe (`| head`) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (DataError, OSError) as error:  # a mistake; a full disk, a folder that may not be written
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        return 130
