"""Train a bundle: both stages, then the test. Further options are ids of its configuration."""

from __future__ import annotations

import argparse

from .verbs import add_bundle, run_verb

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_bundle(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run ``monai.bundle``, and return its exit code."""
    return run_verb("train", arguments)
