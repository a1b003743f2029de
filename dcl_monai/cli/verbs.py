"""What the verbs share: a bundle, and options that are ids of its configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dcl_monai.utils import DataError

__all__ = ["add_bundle", "run_verb", "split_overlays", "take_option"]


def add_bundle(parser: argparse.ArgumentParser, *folders: tuple[str, str], words: str = "") -> None:
    """
    Add the bundle, other folders, and the options that are passed on.

    Args:
        parser: the command's.
        *folders: name and meaning of other positional arguments.
        words: help on options of the command itself.
    """
    parser.add_argument("bundle", metavar="BUNDLE", help="folder of the bundle")
    for name, meaning in folders:
        parser.add_argument(name, help=meaning)
    parser.add_argument(
        "words",
        nargs=argparse.REMAINDER,
        metavar="--id VALUE",
        help="ids of the configuration (--batch_size 4), and --overlay FILE for a config file that is merged over it"
        + (f"; {words}" if words else ""),
    )


def run_verb(verb: str, arguments: argparse.Namespace, words: Sequence[str] = (), form: str = "ts") -> int:
    """
    Run the command behind a verb.

    Args:
        verb: its name.
        arguments: what was parsed.
        words: options that it adds.
        form: of an export.
    """
    # MONAI takes a while to import, and other commands do without
    from dcl_monai.bundle.commands import command_of, run_command

    overlays, given = split_overlays(arguments.words)
    return run_command(command_of(verb, arguments.bundle, [*words, *given], overlays, form))


def split_overlays(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take ``--overlay FILE`` out of the options."""
    return take_option(words, "--overlay", "give the config file, such as --overlay losses/ce.json")


def take_option(words: Sequence[str], option: str, remedy: str) -> tuple[list[str], list[str]]:
    """
    Take an option of the command itself out of those that are passed on.

    Args:
        words: all of them.
        option: its name, such as ``--overlay``; it may be given several times.
        remedy: what to do if it has no value.

    Returns:
        its values, and the other words.
    """
    values, rest, left = [], list[str](), iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if name != option:
            rest.append(word)
            continue
        given = value if equals else next(left, "")
        if not given:
            raise DataError(f"{option}: {remedy}.")
        values.append(given)
    return values, rest
