"""The images of a data set: found by patterns of file names, or taken from a list."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import ValidationError

from dcl_monai.utils import DataError

from .items import Annotation, ListedItem, UndividedItem, annotations_of
from .schema import RESERVED, DatalistDocument, DatasetEntry, ItemEntry, describe_mistake, misspelt
from .splits import SPLITS
from .yaml_file import read_file

logger = logging.getLogger(__name__)

FURTHER: Literal["further_labels"] = "further_labels"

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
EXTENSIONS = (".nii.gz", ".nii", ".nrrd", ".nhdr", ".mha", ".mhd", *PICTURES)
FORMS = ("values", "annotated", "names", "overlap", "disagreement", "annotated_slices", "uncertain_border")
"""Entries of a data set that say what its labels mean."""
LIST_ENTRIES = (*DatasetEntry.model_fields, *DatalistDocument.model_fields, "numTraining", "numTest", "name")
"""Entries of a Decathlon-style list that nothing else may look like."""


def list_items(name: str, entry: DatasetEntry, folder: Path, where: str) -> tuple[list[ListedItem], DatasetEntry]:
    """
    List the images of a data set, and complete its description by what the list that it names adds.

    Args:
        name: its name.
        entry: its description.
        folder: folder that the description's paths are relative to.
        where: place in the user's file, for messages.
    """
    root = path_below(folder, entry.folder)
    if not os.path.isdir(root):
        raise DataError(f"{where}, `folder`: {root} is not a folder. Paths are relative to the file that names them.")
    if entry.images is not None:
        items = list(_by_pattern(entry, root, where))
    else:
        if entry.listing is not None:
            path = Path(path_below(root, entry.listing))
            entry, root = read_listing(entry, path, where), str(path.parent)
        items = list(_by_list(entry, root, where))
    if not items:
        there = ", ".join(sorted(os.listdir(root))[:3]) or "nothing"
        raise DataError(
            f"{where}: no image in {root} fits {entry.images!r}; the folder holds {there}. Correct one of them."
        )
    # Names are relative to the data, wherever it lies: to its folder, unless some images are elsewhere.
    if not all(Path(item["image"]).is_relative_to(root) for item in items):
        root = os.path.commonpath([os.path.dirname(item["image"]) for item in items])
    for item in items:
        labels = [item["label"]] if "label" in item else [*item.get("masks", {}).values()]
        images = image_files(item)
        if re.search(r"[\x00-\x1f\ud800-\udfff]", "".join([*images, *labels])):
            raise DataError(f"{where}: {item['image']!r} or its label has an odd file name. Rename it.")
        files = [os.path.realpath(path) for path in images]
        if any(os.path.realpath(label) in files for label in labels):
            raise DataError(f"{where}: {item['image']} is given as image and as its own label. Correct one of them.")
        if len(set(files)) < len(files):
            raise DataError(f"{where}: {item['image']} is given as two channels of one image. Correct one of them.")
        if entry.pixel_size is not None and not item["image"].lower().endswith(PICTURES):
            raise DataError(
                f"{where}, `pixel_size`: {item['image']} is no picture, and says itself how large its voxels are. Take "
                "`pixel_size` out."
            )
        if entry.pixel_size is not None:
            item["pixel_size"] = entry.pixel_size
        item["case"] = case_name(item["image"], root)
        item.setdefault("subject", item["case"])
        item["dataset"] = name
    return items, entry


def image_files(item: ListedItem) -> list[str]:
    """The files of all channels of an image."""
    return [item["image"], *item.get("further_images", ())]


def path_below(folder: str | Path, path: str) -> str:
    """A path of the user's file, which is relative to ``folder`` unless it is absolute."""
    return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))


def read_listing(entry: DatasetEntry, path: Path, where: str) -> DatasetEntry:
    """Complete a description by the Decathlon-style list that it names; what the description says comes first."""
    try:
        listed = DatasetEntry.model_validate(decathlon_entry(read_file(path), path))
    except ValidationError as error:
        raise DataError(f"{path}, list of {where}: {describe_mistake(error)}. Correct the list.") from error
    said = {key: getattr(entry, key) for key in (*FORMS, "split", "pixel_size") if key in entry.model_fields_set}
    return listed.model_copy(update={key: value for key, value in said.items() if value is not None})


def decathlon_entry(content: Mapping[str, Any], name: Path) -> dict[str, Any]:
    """Bring a Decathlon-style list (``training``, ``labels``, ``annotated``, ...) into the form of a data set."""
    for key in content:
        meant = None if key in LIST_ENTRIES else misspelt(str(key), LIST_ENTRIES)
        if meant:
            raise DataError(f"{name}: {key!r} is unknown; do you mean {meant!r}? Correct it or take it out.")
    entry: dict[str, Any] = {key: content[key] for key in SPLITS if content.get(key)}
    entry |= {key: content[key] for key in FORMS if key in content}
    labels = content.get("labels")
    if isinstance(labels, Mapping) and "values" not in entry:
        if not all(re.fullmatch(r"[0-9]{1,18}", str(value)) for value in labels):
            raise DataError(
                f"{name}: `labels` must read value: name, as the Decathlon has it. An nnU-Net dataset.json is turned "
                "into a datalist by `python -m dcl_monai convert nnunet`."
            )
        if len({int(value) for value in labels}) < len(labels):
            raise DataError(f"{name}, `labels`: a label value is given twice. Take one out.")
        entry["values"] = {int(value): labels[value] for value in sorted(labels, key=int)}
    return entry


def case_name(image: str, root: str) -> str:
    """Path of an image within its data set, without extension."""
    relative = Path(os.path.relpath(image, root)).as_posix()
    return next((relative[: -len(end)] for end in EXTENSIONS if relative.lower().endswith(end)), relative)


def _by_pattern(entry: DatasetEntry, root: str, where: str) -> Iterator[ListedItem]:
    """Find images by a pattern like ``{subject}/frame{frame}.nii.gz``, and their labels by the same fields."""
    assert entry.images is not None
    first, *others = [entry.images] if isinstance(entry.images, str) else entry.images
    images = Pattern(first, f"{where}, `images`")
    if images.fields and "subject" not in images.fields:
        raise DataError(
            f"{where}, `images`: no field {{subject}} says whose image it is, so one person could be in two splits. "
            f"Name it, for example {first.replace(images.fields[0], 'subject')}."
        )
    further = [filled_pattern(other, images, f"{where}, `images`") for other in others]
    labels = filled_pattern(entry.labels, images, f"{where}, `labels`") if entry.labels is not None else None
    masks = {
        name: filled_pattern(text, images, f"{where}, `masks`, {name!r}") for name, text in (entry.masks or {}).items()
    }
    matches = images.matches(root)
    for pattern in further:  # a pattern like {subject}.nii.gz fits the files of other channels, too
        channel = {pattern.fill(fields) for name, fields in matches.items() if pattern.fill(fields) != name}
        matches = {name: fields for name, fields in matches.items() if name not in channel}
    for what, one in [("labels", labels), *((f"masks`, `{name}", mask) for name, mask in masks.items())]:
        if one is not None and not one.fields and len(matches) > 1:
            raise DataError(
                f"{where}, `{what}`: {one.text!r} is one file for all {len(matches)} images. Say by fields like "
                "{subject} which file belongs to which image."
            )
    label_of = {} if labels is None else {name: labels.fill(fields) for name, fields in matches.items()}
    alone = [] if labels is None else sorted(set(labels.matches(root)) - set(label_of.values()) - set(matches))
    if alone:
        logger.warning(
            f"{where}: {len(alone)} file(s) fit `labels` but belong to no image; the first is {alone[0]}, left out."
        )
    masks_of = {name: {key: mask.fill(fields) for key, mask in masks.items()} for name, fields in matches.items()}
    # A pattern of images may fit labels too ("_gt" read as part of a field): what is somebody's label is no image.
    theirs = {*label_of.values(), *(mask for own in masks_of.values() for mask in own.values())}
    found: set[str] = set()
    for name in sorted(set(matches) - theirs):
        fields = {"image": path_below(root, name), **matches[name]}
        item = cast(ListedItem, fields | {"split": entry.split if isinstance(entry.split, str) else None})
        for pattern in further:
            path = path_below(root, pattern.fill(matches[name]))
            if not os.path.exists(path):
                raise DataError(
                    f"{path}: no such file, though {item['image']} should have this channel. Add it, correct `images` "
                    f"of {where}, or take the image out."
                )
            item["further_images"] = [*item.get("further_images", ()), path]
        if labels is not None:
            label = path_below(root, label_of[name])
            if os.path.exists(label):
                item["label"] = label
            elif labels.expression.fullmatch(name):
                raise DataError(
                    f"{item['image']}: looks like a label, by `labels` of {where}, but its image is missing. Add it or "
                    "take the label out."
                )
            elif not entry.allow_missing_labels:
                raise DataError(
                    f"{label}: no such file, though {item['image']} should have this label. Correct `labels` of "
                    f"{where}, or set allow_missing_labels: true to use the image as one of which nothing is known."
                )
        paths = {key: path_below(root, mask) for key, mask in masks_of[name].items()}
        there = {key: path for key, path in paths.items() if os.path.exists(path)}  # one that is missing: not annotated
        found |= {*there}
        if there:
            item["masks"] = there
        yield item
    for name in (name for name in masks if matches and name not in found):
        raise DataError(
            f"{where}, `masks`: no file fits {masks[name].text!r}, the pattern of {name!r}. Correct it, or take the "
            "name out."
        )


def _by_list(entry: DatasetEntry, root: str, where: str) -> Iterator[ListedItem]:
    """Take images from lists; where there is but a training list, the subjects are divided later."""
    lists: dict[str, list[ItemEntry]] = {split: getattr(entry, split) or [] for split in SPLITS}
    # The Decathlon's own test images have no public labels: nothing can be measured on them.
    only_training = not lists["validation"] and not any(item.label for item in lists["test"])
    if only_training:
        lists["test"] = []
    elif isinstance(entry.split, list):
        raise DataError(
            f"{where}, `split`: {entry.split} cannot be used, because there are lists of training, validation and test "
            "images. Leave `split` out, or merge the lists into `training`."
        )
    for split, listed in lists.items():
        for item in listed:
            first, *further = [item.image] if isinstance(item.image, str) else item.image
            fields = item.model_dump(exclude_none=True) | {"image": _listed(first, root, where, "image")}
            if item.label is not None:
                fields["label"] = _listed(item.label, root, where, "label")
            if further:
                fields["further_images"] = [_listed(path, root, where, "image") for path in further]
            if item.masks is not None:
                fields["masks"] = {name: _listed(path, root, where, name) for name, path in item.masks.items()}
            fields["split"] = entry.split if isinstance(entry.split, str) else None if only_training else split
            yield cast(ListedItem, fields)


def _listed(path: str, root: str, where: str, what: str) -> str:
    """The path of a file that a list names, which must be there."""
    path = path_below(root, path)
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file, though {where} lists it as {what}. Correct it.")
    return path


def filled_pattern(text: str, images: Pattern, where: str) -> Pattern:
    """A pattern of labels or further channels, all of whose fields are known from the images."""
    pattern = Pattern(text, where)
    unknown = [f"{{{field}}}" for field in pattern.fields if field not in images.fields]
    unknown += re.findall(r"[*?]", pattern.text)
    if unknown:
        raise DataError(
            f"{where}: `images` does not say what {unknown[0]} stands for. Name the parts that both have in "
            "common by fields like {subject}, in both."
        )
    return pattern


class Pattern:
    """
    A path with fields in braces, each of which stands for some text without a slash.

    A field that stands in it twice has the same text at both places.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = os.path.normpath(text)
        parts = re.split(r"\{(.*?)\}", self.text)
        self.fields = list(dict.fromkeys(parts[1::2]))
        braces = any("{" in part or "}" in part for part in parts[::2])
        if braces or os.path.isabs(text) or not all(field.isidentifier() for field in self.fields):
            raise DataError(
                f"{where}: {text!r} is not a pattern. Write a path relative to `folder` with fields in braces, like "
                "imagesTr/{subject}.nii.gz."
            )
        for field in self.fields:
            if field in RESERVED or (field != "subject" and misspelt(field, ItemEntry.model_fields)):
                raise DataError(
                    f"{where}: {{{field}}} cannot be a field: the name is reserved, or looks like a reserved one. "
                    "Rename it; {subject} is the person."
                )
        wildcards = {r"\*\*/": r"(?:[^/]+/)*", r"\*": r"[^/]*", r"\?": r"[^/]"}
        expression, seen = "", set()
        for index, part in enumerate(parts):
            if index % 2 == 0:
                expression += re.sub(r"\\\*\\\*/|\\\*|\\\?", lambda found: wildcards[found[0]], re.escape(part))
            else:
                expression += f"(?P={part})" if part in seen else f"(?P<{part}>[^/]+)"
                seen.add(part)
        self.expression = re.compile(expression)

    def matches(self, root: str) -> dict[str, dict[str, str]]:
        """Files (or folders, for DICOM series) below ``root`` that fit, and the texts of the fields."""
        found = glob(re.sub(r"\{.*?\}", "*", self.text.replace("[", "[[]")), root_dir=root, recursive=True)
        matches = ((name, self.expression.fullmatch(Path(name).as_posix())) for name in found)
        return {name: match.groupdict() for name, match in matches if match}

    def fill(self, fields: Mapping[str, str]) -> str:
        """The path in which every field has its text."""
        return self.text.format(**fields)


def merge_annotations(items: Iterable[UndividedItem]) -> list[UndividedItem]:
    """Bring several annotations of one image together in one item; refuse those that cannot be of one image."""
    merged: dict[str, UndividedItem] = {}
    for item in items:
        image = os.path.realpath(item["image"])
        if image not in merged:
            merged[image] = item.copy()
            continue
        first = merged[image]
        both = f"(data sets {first['dataset']!r} and {item['dataset']!r})"
        if first["split"] != item["split"]:
            splits = " and ".join(other["split"] or "to be divided" for other in (first, item))
            raise DataError(f"{item['image']}: is in two splits, {splits} {both}. Choose one.")
        if first["dataset"] == item["dataset"] and first["subject"] != item["subject"]:
            subjects = f"{first['subject']!r} and {item['subject']!r}"
            raise DataError(f"{item['image']}: is listed twice, of subjects {subjects}. Choose one.")
        if image_files(cast(ListedItem, first))[1:] != image_files(cast(ListedItem, item))[1:]:
            raise DataError(f"{item['image']}: is listed twice, with other further channels {both}. Choose one.")
        annotations, new = annotations_of(first), annotations_of(item)
        if annotations and not new:
            continue
        if not new or any(same_annotation(one, other) for one in new for other in annotations):
            raise DataError(f"{item['image']}: is listed twice with the same label {both}. Take one entry out.")
        raters = 1 + max((annotation.get("rater", -1) for annotation in annotations), default=-1)
        joined = [*map(said_of, annotations), *(renumbered(said_of(other), raters) for other in new)]
        kept = {key: value for key, value in first.items() if key not in (*Annotation.__annotations__, FURTHER)}
        merged[image] = cast(UndividedItem, kept | joined[0] | ({FURTHER: joined[1:]} if joined[1:] else {}))
    return list(merged.values())


def said_of(annotation: Annotation) -> Annotation:
    """What an annotation says, without the other entries of the item that it stands in."""
    return cast(Annotation, {key: value for key, value in annotation.items() if key in Annotation.__annotations__})


def renumbered(annotation: Annotation, start: int) -> Annotation:
    """The annotation as that of another rater."""
    return {**annotation, "rater": annotation["rater"] + start} if "rater" in annotation else annotation


def same_annotation(one: Annotation, other: Annotation) -> bool:
    """Whether an annotation says nothing that another one does not."""
    said = {key: value for key, value in said_of(one).items() if key not in ("label", "rater")}
    return os.path.samefile(one["label"], other["label"]) and said.items() <= other.items()
