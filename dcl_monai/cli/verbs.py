"""What people do with a bundle: train, evaluate, predict, export. Further options are ids of its configuration."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dcl_monai.utils import DataError

VERBS = {
    "evaluate": "Test the model of a bundle.",
    "export": "Write the model of a bundle for other programs, models/model.ts.",
    "predict": "Segment a folder of NIfTI files with the model of a bundle.",
    "train": "Train a bundle: both stages, then the test.",
}
FORMATS = ("ts", "onnx", "pt2")


def add_verb(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add the arguments of a verb: a bundle, and the options that are passed on."""
    parser.description = f"{VERBS[verb]} Further options are ids of its configuration."
    parser.add_argument("bundle", metavar="BUNDLE", help="folder of the bundle")
    words = "ids of the configuration (--batch_size 4), and --overlay FILE for a config file that is merged over it"
    if verb == "predict":
        parser.add_argument("IN", help="folder of the images")
        parser.add_argument("OUT", help="folder of the segmentations")
        words += "; --fold K, or all for the mean of all folds"
    if verb == "train":
        words += "; --minutes 30 (train by the clock); --resume true (continue); --fold K (hold out another part)"
    if verb == "export":
        words += "; --format ts (TorchScript, the default), onnx or pt2 (torch.export)"
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="--id VALUE", help=words)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command of ``monai.bundle`` behind a verb, and return its exit code."""
    # MONAI takes a while to import, and other commands do without
    from dcl_monai.bundle.commands import command_of, run_command

    overlays, words = split_overlays(arguments.words)
    form = "ts"
    if arguments.command == "predict":
        words = ["--dataset_dir", arguments.IN, "--output_dir", arguments.OUT, *words]
    if arguments.command == "export":
        remedy = f"give one of {', '.join(FORMATS)}"
        forms, words = take_option(words, "--format", remedy)
        form = forms[-1] if forms else form
        if form not in FORMATS:
            raise DataError(f"--format {form}: {remedy}.")
    return run_command(command_of(arguments.command, arguments.bundle, words, overlays, form))


def split_overlays(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Take ``--overlay FILE`` out of the options."""
    return take_option(words, "--overlay", "give the config file, such as --overlay losses/ce.json")


def take_option(words: Sequence[str], option: str, remedy: str) -> tuple[list[str], list[str]]:
    """Take an option of the command itself, which may come several times, out of the words; return both."""
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
