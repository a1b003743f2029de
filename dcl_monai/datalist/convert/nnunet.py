"""nnU-Net v2: ``dataset.json`` (``labels`` by name), ``imagesTr/CASE_0000.nii.gz``, ``labelsTr/CASE.nii.gz``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, field_validator

from dcl_monai.datalist.schema import UNLABELLED, describe_mistake
from dcl_monai.utils import DataError

from .files import Note, existing_folder, log, read_dataset_json


class Case(BaseModel):
    """Files of a case, where ``dataset.json`` names them: one image per channel."""

    model_config = ConfigDict(strict=True)

    images: list[str]
    label: str


class Description(BaseModel):
    """What is used of nnU-Net's ``dataset.json``."""

    model_config = ConfigDict(strict=True)

    channel_names: dict[str, str] = Field(min_length=1)
    labels: dict[str, Annotated[list[NonNegativeInt], Field(min_length=1)]]
    regions_class_order: list[int] = []
    file_ending: str = Field(min_length=2)
    dataset: dict[str, Case] | None = None

    @field_validator("labels", mode="before")
    @classmethod
    def _lists(cls, labels: Any) -> Any:
        """Read a single value as a region of one value, as nnU-Net does."""
        if not isinstance(labels, Mapping):
            return labels
        return {name: values if isinstance(values, list) else [values] for name, values in labels.items()}


def convert_nnunet(root: str | Path, channel: int | None = None, note: Note = log) -> dict[str, Any]:
    """
    Describe the training cases of an nnU-Net v2 data set, split 60/20/20.

    The ignore label becomes ``unlabelled``. Of a region-based data set every value of the label maps becomes a class,
    since the classes of the model exclude each other, and every region of several values a union, see
    :func:`name_values`.

    All channels are used, unless one is chosen by its number.
    """
    root = existing_folder(root, "dataset.json, imagesTr and labelsTr")
    path = root / "dataset.json"
    description = read_description(path, read_dataset_json(root))
    names, unions = name_values(description, path)
    values = names | dict.fromkeys(description.labels.get("ignore", ()), UNLABELLED)
    channels = choose_channels(description.channel_names, channel, path)
    if description.dataset is None:
        cases = cases_of_folders(root, description.file_ending, channels)
    else:
        cases = cases_of_entry(description.dataset, channels, path)
    for case in cases:
        for file in [*case["image"], case["label"]]:
            if not os.path.exists(root / file):
                key = "label" if file == case["label"] else "image"
                raise DataError(f"{root}: no file {file!r}, the {key} of case {case['subject']!r}. Add it.")
        if len(channels) == 1:
            case["image"] = case["image"][0]
    tests = cases_in(root / "imagesTs", description.file_ending)
    if tests:
        note(f"{len(tests)} case(s) in imagesTs are left out.")
    note(
        "Every case counts as a subject of its own. Where several are of one person, give these the same `subject` in "
        "this file."
    )
    return {
        "classes": list(names.values()),
        "unions": unions,
        **({"channels": list(description.channel_names.values())} if len(channels) > 1 else {}),
        "split": [60, 20, 20],
        "datasets": {root.name: {"folder": str(root), "values": values, "training": cases}},
    }


def read_description(path: Path, content: Mapping[str, Any]) -> Description:
    """Check ``dataset.json`` against its form."""
    labels = content.get("labels")
    by_value = isinstance(labels, Mapping) and any(isinstance(name, str) for name in labels.values())
    if by_value or ("modality" in content and "channel_names" not in content):
        raise DataError(
            f"{path}: has the form of the Decathlon (and of nnU-Net v1), labels by value. Use `python -m dcl_monai "
            "convert decathlon`."
        )
    try:
        description = Description.model_validate(dict(content))
    except ValidationError as error:
        raise DataError(f"{path}: {describe_mistake(error)}. It must be a dataset.json of nnU-Net v2.") from error
    if description.labels.get("background") != [0]:
        raise DataError(f'{path}: `labels` has no "background": 0, which nnU-Net v2 demands. Add it.')
    return description


def name_values(description: Description, path: Path) -> tuple[dict[int, str], dict[str, list[str]]]:
    """
    Name every value of the label maps, and every region as the union of its values.

    A region of one value gives it its name. A value that has only regions of several is named after the smallest of
    those that ``regions_class_order`` paints with this value. For KiTS, ``kidney: [1, 2, 3], masses: [2, 3], tumor: 2``
    in the order ``[1, 3, 2]``, the values are 1 ``kidney only``, 2 ``tumor``, 3 ``masses only``.

    Returns:
        value -> class, background first; and union -> classes.
    """
    regions = {name: sorted(set(values)) for name, values in description.labels.items()}
    ignored = regions.pop("ignore", [])
    names: dict[int, str] = {}
    for name, values in regions.items():
        if len(values) == 1 and values[0] in names:
            raise DataError(
                f"{path}: label value {values[0]} has two names, {names[values[0]]!r} and {name!r}. Choose one."
            )
        if len(values) == 1:
            names[values[0]] = name
    several = {name: values for name, values in regions.items() if len(values) > 1}
    foreground = [name for name, values in regions.items() if values != [0]]
    order = description.regions_class_order
    if several and len(order) != len(foreground):
        raise DataError(
            f"{path}: `regions_class_order` has {len(order)} entries for {len(foreground)} regions. Give one value per "
            "region, as nnU-Net demands."
        )
    for value in sorted({value for values in several.values() for value in values} - set(names)):
        around = [name for name, values in several.items() if value in values]
        painted = [name for name, paint in zip(foreground, order, strict=True) if paint == value and name in around]
        smallest = min(painted or around, key=lambda name: len(several[name]))
        names[value] = f"{smallest} only" if painted else f"{smallest}, value {value}"
    if len(ignored) > 1 or set(ignored) & set(names):
        raise DataError(f"{path}: the ignore label must be one value of its own, got {ignored}. Correct `labels`.")
    unions = {name: [names[value] for value in values] for name, values in several.items()}
    return {value: names[value] for value in sorted(names)}, unions


def choose_channels(channels: Mapping[str, str], channel: int | None, path: Path) -> list[int]:
    """Return the numbers of the channels that are used."""
    listed = ", ".join(f"{number} {name!r}" for number, name in enumerate(channels.values()))
    if channel is None:
        return list(range(len(channels)))
    if not 0 <= channel < len(channels):
        raise DataError(f"{path}: there is no channel {channel}, only {listed}. Choose one of these with --channel N.")
    return [channel]


def cases_of_folders(root: Path, ending: str, channels: Sequence[int]) -> list[dict[str, Any]]:
    """List the cases of which there is an image or a label."""
    cases = cases_in(root / "imagesTr", ending)
    if not cases:
        name = f"CASE_0000{ending}"
        raise DataError(f"{root / 'imagesTr'}: no file like {name!r} in it. Add the images or correct `file_ending`.")
    cases |= {name.removesuffix(ending) for name in visible_files(root / "labelsTr") if name.endswith(ending)}
    return [
        {
            "image": [f"imagesTr/{case}_{channel:04d}{ending}" for channel in channels],
            "label": f"labelsTr/{case}{ending}",
            "subject": case,
        }
        for case in sorted(cases)
    ]


def cases_of_entry(dataset: Mapping[str, Case], channels: Sequence[int], path: Path) -> list[dict[str, Any]]:
    """List the cases that the entry ``dataset`` of ``dataset.json`` names."""
    for name, case in dataset.items():
        if len(case.images) <= max(channels):
            raise DataError(
                f"{path}: case {name!r} has {len(case.images)} image(s), none of channel {max(channels)}. Add it."
            )
    return [
        {"image": [case.images[channel] for channel in channels], "label": case.label, "subject": name}
        for name, case in sorted(dataset.items())
    ]


def cases_in(folder: Path, ending: str) -> set[str]:
    """Names of the cases that have an image in a folder."""
    matches = (re.fullmatch(rf"(.+)_\d{{4}}{re.escape(ending)}", name) for name in visible_files(folder))
    return {match[1] for match in matches if match}


def visible_files(folder: Path) -> list[str]:
    """Names in a folder, but for hidden ones like the ``._x.nii.gz`` that macOS leaves in archives."""
    return [path.name for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []
