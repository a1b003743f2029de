"""Is your own loss compatible (Definition 1)? Look for partial labels under which it prefers something to the truth."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from dcl_monai.utils import DataError
from dcl_monai.utils.errors import in_a_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "loss",
        metavar="MODULE:NAME",
        help="function or class; called as loss(logits, candidates), it returns a scalar: logits and boolean candidate "
        "sets, both Bm[HWD]; the module may be in the working directory",
    )
    parser.add_argument("--num_classes", type=int, default=4, metavar="M", help="classes m (default: 4)")
    parser.add_argument(
        "--arguments",
        default="{}",
        metavar="JSON",
        help="arguments of the class, as JSON; num_classes is added if the class takes it",
    )
    parser.add_argument(
        "--trials", type=int, default=20, metavar="N", help="trials per kind of annotation and image size (default: 20)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check the loss, and return 1 if it is not compatible."""
    from dcl_monai.losses.compatibility import ANNOTATION_KINDS, find_counterexample, is_indifferent

    if arguments.num_classes < 2:
        raise DataError(f"--num_classes {arguments.num_classes}: give at least 2.")
    if arguments.trials < 1:
        raise DataError(f"--trials {arguments.trials}: give at least 1.")
    loss = load_loss(arguments.loss, arguments.num_classes, arguments.arguments)
    try:
        found = find_counterexample(loss, arguments.num_classes, arguments.trials)
        indifferent = found is None and is_indifferent(loss, arguments.num_classes)
    except Exception as error:  # the user's own code raises whatever it likes
        raise DataError(
            f"{arguments.loss}: failed on logits (1, {arguments.num_classes}, H, W) of double precision and boolean "
            f"candidate sets of the same shape ({type(error).__name__}: {in_a_line(error)}). It must return a scalar."
        ) from error
    if found is not None:
        print(f"{arguments.loss} is NOT compatible: a wrong prediction costs less than the ground truth.\n")
        print(found.describe())
        return 1
    print(f"{arguments.loss}: no counterexample; the ground truth was a minimiser for every kind of annotation")
    print(f"({', '.join(ANNOTATION_KINDS)}). This is evidence, not a proof.")
    if indifferent:
        print("But it also accepts predictions that contradict a full label, so it teaches nothing.")
    return 0


def load_loss(name: str, num_classes: int, arguments: str = "{}") -> Callable[..., Any]:
    """Import a function by ``module:name``, or make a class of that name of ``arguments`` in JSON."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise DataError(f"{name}: write MODULE:NAME, like my_losses:MyLoss.")
    try:
        given = dict(json.loads(arguments))
    except (ValueError, TypeError) as error:
        raise DataError(f'--arguments {arguments}: is not a JSON object ({error}). Write {{"name": value}}.') from error
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # importing runs the user's own code
        raise DataError(
            f"{module_name}: cannot be imported ({type(error).__name__}: {in_a_line(error)}). Call the command in the "
            "folder of the module, or install it."
        ) from error
    found: Any = getattr(module, attribute, None)
    if not callable(found):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise DataError(f"{name}: {module_name} has no loss {attribute!r}; it has {', '.join(public) or 'none'}.")
    if not inspect.isclass(found):
        return found
    make: Callable[..., Any] = found
    takes = inspect.signature(make).parameters
    if "num_classes" in takes and "num_classes" not in given:
        given["num_classes"] = num_classes
    try:
        return make(**given)  # type: ignore[no-any-return]
    except Exception as error:
        raise DataError(f"{name}: cannot be made of {given} ({error}). Give what it needs by --arguments.") from error
