"""Write the model of a bundle for other programs, models/model.ts. Further options are ids of its configuration."""

from __future__ import annotations

import argparse

from dcl_monai.utils import DataError

from .verbs import add_bundle, run_verb, take_option

__all__ = ["add_arguments", "run"]

FORMATS = ("ts", "onnx", "pt2")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_bundle(parser, words="--format ts (TorchScript, the default), onnx or pt2 (torch.export)")


def run(arguments: argparse.Namespace) -> int:
    """Run ``monai.bundle``, and return its exit code."""
    forms, arguments.words = take_option(arguments.words, "--format", f"give one of {', '.join(FORMATS)}")
    if set(forms) - set(FORMATS):
        raise DataError(f"--format {forms[-1]}: give one of {', '.join(FORMATS)}.")
    return run_verb("export", arguments, form=forms[-1] if forms else "ts")
