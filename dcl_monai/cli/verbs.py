"""What the verbs share: a bundle, and options that are ids of its configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dcl_monai.utils import DataError

__all__ = ["add_bundle", "run_verb"]


def add_bundle(parser: argparse.ArgumentParser, *folders: tuple[str, str]) -> None:
    """
    Add the bundle, other folders, and the options that are passed on.

    Args:
        parser: the command's.
        *folders: name and meaning of other positional arguments.
    """
    parser.add_argument("bundle", metavar="BUNDLE", help="folder of the bundle")
    for name, meaning in folders:
        parser.add_argument(name, help=meaning)
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="--id VALUE",
        help="ids of the configuration (--batch_size 4), and --overlay FILE for a config file that is merged over it",
    )


def run_verb(verb: str, arguments: argparse.Namespace, words: Sequence[str] = ()) -> int:
    """
    Run the command behind a verb.

    Args:
        verb: its name.
        arguments: what was parsed.
        words: options that it adds.
    """
    # MONAI takes a while to import, and other commands do without
    from dcl_monai.bundle.commands import command_of, run_command

    overlays, given = split_overlays(arguments.words)
    return run_command(command_of(verb, arguments.bundle, [*words, *given], overlays))


def split_overlays(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take ``--overlay FILE`` out of the options."""
    overlays, rest, left = [], list[str](), iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name != "--overlay":
            rest.append(word)
            continue
        file = value if equals else next(left, "")
        if not file:
            raise DataError("--overlay: give the config file, such as --overlay losses/ce.json.")
        overlays.append(file)
    return overlays, rest
