"""What a datalist is made of: which image is in which split, and what its label says about which class.

:class:`Datalist`, :class:`Item` and :class:`Annotation` are dictionaries with typed keys. At run time they are plain
dictionaries, which MONAI's data sets and transforms take, and MONAI Label puts in their place
(``train#dataset#data``). :func:`~dcl_monai.datalist.load_datalist` makes them from a user's file
(:mod:`dcl_monai.datalist.schema`). On disk the same is written with class names instead of indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypedDict

from typing_extensions import NotRequired, Required

from dcl_monai.candidates import all_classes, annotated_classes, label_sets, outlines, shown_set

Split = Literal["training", "validation", "test"]


class Annotation(TypedDict, total=False):
    """One label file of an image, and what it says. Classes are given by their index, background first."""

    label: str
    """The label file."""
    values: Mapping[int, int | Sequence[int]]
    """Label value -> class that it stands for, or several of them for a union; default: value j is class j."""
    unlabelled: Sequence[int]
    """Label values about whose voxels nothing is known."""
    annotated: Sequence[int | Sequence[int]]
    """What the annotator drew: classes, and unions as lists of them; default: all that the values name. See
    :class:`~dcl_monai.transforms.EncodeCandidates`."""
    drawn: Sequence[int | Sequence[int]]
    """The same of the file itself, where some of it is hidden to simulate partial annotation."""
    rater: int
    """Annotations with the same number are the masks of one rater, a structure each; others are by different raters."""
    overlap: Literal["first", "either"]
    """What a voxel is in which masks of one rater overlap, see :func:`~dcl_monai.candidates.agreed`; default: an
    error."""
    disagreement: Literal["either"]
    """A voxel on which raters disagree may be what any of them says; default: an error."""
    annotated_slices: Literal["drawn"] | Sequence[int]
    """Slices that the rater looked at: those in which something is drawn, or their numbers from 1 on."""
    uncertain_border: float
    """Distance in mm to what is drawn otherwise, within which a voxel may be that, too."""
    region: str
    """Of an RTSTRUCT or SEG: the name of the region that is meant, as the file has it."""
    content: str
    """Digest of the strokes in a file of simulated scribbles, so that the hash of the datalist covers them."""


class Item(Annotation, total=False):
    """
    An image and its annotations: its own entries are the first one; without a ``label`` nothing is known of it.

    Whatever else the user noted of an image (``phase``, ...) travels with the item under its own name.
    """

    image: Required[str]
    """File, or folder of a DICOM series."""
    subject: Required[str]
    """Who it is; no subject stands in two splits."""
    dataset: str
    """Data set it comes from."""
    case: str
    """Its name within the data set, the same on every machine."""
    further_labels: Sequence[Annotation]
    """Other annotations of the same image."""
    further_images: Sequence[str]
    """Files of its other channels, in the order of the datalist's ``channels``."""
    pixel_size: Sequence[float]
    """Of a picture (PNG, JPEG, TIFF): width and height of a pixel in mm."""


class Datalist(TypedDict):
    """The images of every split, and the classes that their labels speak of."""

    classes: list[str]
    """Class names, background first."""
    unions: dict[str, list[int]]
    """Name of a union -> its classes."""
    channels: NotRequired[list[str]]
    """Names of the channels of an image, where there are several; see :func:`channels_of`."""
    training: list[Item]
    """Images to learn from; they may be labelled in part, or not at all."""
    validation: list[Item]
    """Images to choose the model by."""
    test: list[Item]
    """Images to measure the model on; there may be none."""
    minutes: NotRequired[dict[str, float]]
    """Name of a structure -> minutes that it takes to draw."""


class ListedItem(TypedDict, total=False):
    """An image as the user listed it, notes included, before it is known what its label means."""

    image: Required[str]
    label: str
    subject: str
    dataset: str
    case: str
    further_images: Sequence[str]
    pixel_size: Sequence[float]
    split: Split | None
    """The split that the user put it in; ``None`` where the subjects are still to be divided."""
    annotated: list[str | int]
    """What the user says is annotated: names of classes and unions, or label values."""
    masks: dict[str, str]
    """Name of a structure -> its mask, instead of a label; only the masks that exist."""
    annotated_slices: Literal["drawn"] | Sequence[int]
    """As in :class:`Annotation`."""


class UndividedItem(Item, total=False):
    """An item that still has to be put into its split."""

    split: Split | None
    """As in :class:`ListedItem`."""


SPECIFICATION = (*(key for key in Annotation.__annotations__ if key != "label"), "further_labels")
"""Entries of an item that say what its label means."""


def channels_of(datalist: Datalist) -> list[str]:
    """Names of the channels of an image; ``image`` where there is one without a name."""
    return list(datalist.get("channels") or ["image"])


def annotations_of(item: Item) -> list[Annotation]:
    """The annotations of an item; none, one or more."""
    own: list[Annotation] = [item] if item.get("label") is not None else []
    return [*own, *item.get("further_labels", ())]


def unhidden(item: Item) -> Item:
    """The item with all that its files show, where some of it was hidden to simulate partial annotation."""
    shown = item.copy()
    if "drawn" in item:
        shown["annotated"] = item["drawn"]
    if "further_labels" in item:
        shown["further_labels"] = [
            {**other, "annotated": other["drawn"]} if "drawn" in other else other for other in item["further_labels"]
        ]
    return shown


def decided_classes(item: Item, num_classes: int) -> tuple[int, ...]:
    """
    Classes that the annotations of the item decide at every voxel, as far as the list tells without reading files.

    A union decides none of its members, and scribbles decide nothing.
    """
    return annotated_classes(item_sets(item, num_classes), num_classes) if annotations_of(item) else ()


def shown_classes(item: Item, num_classes: int) -> tuple[int, ...]:
    """Classes that the item's labels may show on their own: decided ones, and those of which there may be strokes."""
    drawn = item_sets(item, num_classes)
    return tuple(sorted({j for j in range(num_classes) if 1 << j in drawn} | set(decided_classes(item, num_classes))))


def item_sets(item: Item, num_classes: int) -> set[int]:
    """Candidate sets, as bits, that voxels of the item may have."""
    return annotation_sets(annotations_of(item), num_classes)


def annotation_sets(annotations: Iterable[Annotation], num_classes: int) -> set[int]:
    """
    Candidate sets, as bits, that all these annotations together allow.

    Voxels on which they disagree, or within an uncertain border, are known from the files alone.
    """
    everything = all_classes(num_classes)
    sets = {everything}
    for annotation in annotations:
        said = {*annotation_table(annotation, num_classes).values()}
        if "annotated_slices" in annotation:  # nothing is known of the others
            said.add(everything)
        sets = {one & other for one in sets for other in said} - {0}
    return sets


def annotation_table(annotation: Annotation, num_classes: int) -> dict[int, int]:
    """Candidate set, as bits, of every label value of an annotation."""
    values = label_sets(num_classes, annotation.get("values"), annotation.get("unlabelled"))
    shown = outlines(annotation.get("annotated"), num_classes)
    return {value: shown_set(bits, shown, num_classes) for value, bits in values.items()}
