"""Show what images a model carries in its conditional bank, or give it a bank of other images."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from monai.bundle import ConfigParser

from dcl_monai.conditions import ConditionBank, fill_bank
from dcl_monai.data import ConditionalDataset
from dcl_monai.networks import load_model, save_model
from dcl_monai.utils import DataError, as_literal
from dcl_monai.utils.errors import find_user_error
from dcl_monai.utils.files import replace_atomic
from dcl_monai.visualize.overlays import COLOURS

from .arguments import refuse_existing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", type=Path, metavar="MODEL.pt", help="model file of a bundle")
    parser.add_argument("--show", type=Path, metavar="BANK.png", help="draw the images of the bank")
    parser.add_argument("--datalist", type=Path, help="make a new bank from the training images of this datalist")
    parser.add_argument("--out", type=Path, metavar="NEW.pt", help="model file to write, with the new bank")
    parser.add_argument("--size", type=int, default=16, metavar="N", help="images per class at most (default: 16)")
    parser.add_argument(
        "--config_file",
        type=Path,
        default=Path("bundles/acdc/configs/train.json"),
        help="the bundle's configs/train.json, which says how images are prepared (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace NEW.pt and BANK.png if they exist")


def run(arguments: argparse.Namespace) -> int:
    """Make a new bank if asked to, and say what is in it."""
    if (arguments.datalist is None) != (arguments.out is None):
        raise DataError("a new bank needs both: --datalist (its images) and --out (the model file to write).")
    refuse_existing((arguments.out, arguments.show), arguments.force)
    content = load_model(arguments.model)
    model, settings = arguments.model, content["settings"]
    if settings and not settings["network"].get("conditional", True):
        raise DataError(f"{model}: was trained without conditions, so it has no bank to show or replace.")
    if arguments.datalist is not None:
        if arguments.size < 1:
            raise DataError(f"--size {arguments.size}: at least one image per class is needed.")
        dataset = training_set(arguments.config_file, arguments.datalist, settings)
        replace_bank(content["model"], dataset, arguments.size, model)
        save_model(content["model"], settings, arguments.out)
        model = arguments.out
    state = content["model"]
    if state.get("bank.images", torch.zeros(0)).dim() < 5:
        raise DataError(f"{model}: carries no conditional bank. Make one with --datalist and --out.")
    classes = settings.get("classes", [f"class {j}" for j in range(len(state["bank.images"]))])
    print(describe(state, classes, model))
    if arguments.show is not None:
        draw_bank(state, classes, arguments.show)
        print(f"picture: {arguments.show}")
    return 0


def training_set(config_file: Path, datalist: Path, settings: Mapping[str, Any]) -> ConditionalDataset:
    """The training images of a datalist as the bundle prepares them, on the grid of the model."""
    for path in (config_file, datalist):
        if not path.is_file():
            raise DataError(f"{path}: no such file. Give --config_file of the model's bundle and --datalist.")
    parser = ConfigParser()
    parser.read_config(str(config_file))
    grid = {key: settings[key] for key in ("pixdim", "spatial_size", "intensity") if key in settings}
    with tempfile.TemporaryDirectory() as folder:  # where the bundle writes down the datalist
        parser.update({"datalist": as_literal(datalist), "output_dir": as_literal(folder), "conditional": True, **grid})
        try:
            dataset = parser.get_parsed_content("train#conditional_dataset")
            classes = parser.get_parsed_content("classes")
        except Exception as error:  # MONAI wraps what went wrong
            known = find_user_error(error)
            if known is None:
                raise
            raise known from error
    if list(classes) != settings.get("classes", list(classes)):
        raise DataError(
            f"{datalist}: its classes are {list(classes)}, but the model has {settings['classes']}. Give a datalist "
            "of these classes in the same order."
        )
    return dataset


def replace_bank(state: dict[str, torch.Tensor], dataset: ConditionalDataset, size: int, model: Path) -> None:
    """Put images of a data set into the bank of a model."""
    bank = ConditionBank()
    fill_bank(bank, dataset, size)
    old = state.get("bank.images", torch.zeros(0))
    if old.dim() > 4 and (len(old) != len(bank.images) or old.shape[2:] != bank.images.shape[2:]):
        raise DataError(
            f"{model}: has a bank of {len(old)} classes and images of {tuple(old.shape[2:])}, but the new one has "
            f"{len(bank.images)} and {tuple(bank.images.shape[2:])}. Give the --config_file of its training."
        )
    state.update({f"bank.{name}": value for name, value in bank.state_dict().items()})


def describe(state: Mapping[str, torch.Tensor], classes: Sequence[str], model: Path) -> str:
    """Say how many images of which size a bank holds for each class, and what that means."""
    images, valid = state["bank.images"], state["bank.valid"]
    counts = ", ".join(f"{name} {int(count)}" for name, count in zip(classes, valid.sum(dim=1), strict=True))
    size = " x ".join(map(str, images.shape[3:]))
    return (
        f"{model}: a bank of {int(valid.sum())} images of {size} with their masks ({counts}).\n"
        "Anyone who has the model has these images: share it only with people who may have them."
    )


def draw_bank(state: Mapping[str, torch.Tensor], classes: Sequence[str], path: Path) -> None:
    """Draw the images of every class in a row, the middle slice of volumes, with the outline of the mask."""
    images, masks, valid = (state[f"bank.{name}"] for name in ("images", "masks", "valid"))
    figure = Figure(figsize=(1.2 * valid.shape[1] + 0.6, 1.25 * len(classes)), layout="constrained")
    for j, row in enumerate(figure.subplots(*valid.shape, squeeze=False)):
        for k, axes in enumerate(row):
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if valid[j, k]:
                image, mask = middle(images[j, k, 0]), middle(masks[j, k] == 1)
                axes.imshow(image.T, cmap="gray")
                if 0 < mask.sum() < mask.numel():
                    axes.contour(mask.T, levels=[0.5], colors=[COLOURS[j % len(COLOURS)]], linewidths=0.8)
        row[0].set_ylabel(classes[j], fontsize=7)
    replace_atomic(path, lambda temporary: figure.savefig(temporary, dpi=110, format="png"))


def middle(volume: torch.Tensor) -> torch.Tensor:
    """The middle slice (H, W) of a volume; an image is itself."""
    return volume[..., volume.shape[-1] // 2] if volume.dim() > 2 else volume
