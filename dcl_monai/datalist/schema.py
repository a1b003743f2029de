"""The form of the file in which a user describes data, and saying in one line what is wrong with it.

It is documented in ``docs/reference/datalist_file.md``; :class:`DatalistDocument` is its definition. Mistakes that
would pass silently (a misspelt entry, a label value like 1.5) are refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from reprlib import repr as short
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from dcl_monai.utils import DataError

from .items import UndividedItem
from .splits import SPLITS
from .yaml_file import one_line

UNLABELLED = "unlabelled"
"""Name of a label value about whose voxels nothing is known: "scribble left blank", "ignore"."""

MAX_CLASSES = 256
"""Most classes of a model, background included: label maps are written in a byte per voxel."""
MAX_BORDER = 100
"""Widest uncertain border in mm."""
MAX_CHANNELS = 64
"""Most channels of an image."""
MAX_PIXEL = 100.0
"""Largest pixel in mm."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} has a line break or another character that cannot be shown")
    return text


def _proportions(value: Any) -> Any:
    numbers = isinstance(value, (list, tuple)) and all(type(part) in (int, float) for part in value)
    if not numbers or len(value) != 3 or not all(0 <= part <= 1e9 for part in value) or not sum(value) > 0:
        raise ValueError(f"must be three numbers that are not all 0, like [60, 20, 20], got {short(value)}")
    return list(value)


def _division(value: Any) -> Any:
    if isinstance(value, str) and value not in SPLITS:
        raise ValueError(f"must be training, validation, test, or three numbers like [60, 20, 20], got {short(value)}")
    return value if value is None or isinstance(value, str) else _proportions(value)


def _slices(value: Any) -> Any:
    numbers = isinstance(value, (list, tuple)) and all(type(number) is int and number > 0 for number in value)
    if value != "drawn" and not (numbers and value):
        raise ValueError(f"must be `drawn`, or slice numbers from 1, like [3, 7], got {short(value)}")
    return value if value == "drawn" else sorted({*value})


def _choice(*words: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value not in words:
            raise ValueError(f"must be {', '.join(words[:-1])} or {words[-1]}, got {short(value)}")
        return value

    return BeforeValidator(check)


def _millimetres(value: Any) -> Any:
    if type(value) not in (int, float) or not 0 <= value <= MAX_BORDER:
        raise ValueError(f"must be a distance in mm, 0 to {MAX_BORDER}, got {short(value)}")
    return float(value)


def _pixel_size(value: Any) -> Any:
    sizes = list(value) if isinstance(value, (list, tuple)) else [value, value]
    if value is None:
        return None
    if len(sizes) != 2 or not all(type(size) in (int, float) and 0 < size <= MAX_PIXEL for size in sizes):
        raise ValueError(f"must be mm per pixel, like 0.5, or [width, height], got {short(value)}")
    return [float(size) for size in sizes]


Text = Annotated[str, Field(min_length=1), AfterValidator(_printable)]


Slices = Annotated[str | list[int], BeforeValidator(_slices)]


class Strict(BaseModel):
    """A model that refuses entries it does not know, and texts that are no texts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ItemEntry(BaseModel):
    """
    One image of a list, in the manner of the Decathlon's ``dataset.json``.

    Further entries (``phase``, ``group``, ...) travel with the image.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    image: Text | Annotated[list[Text], Field(min_length=1)]
    """A file; or a list of files, one per channel."""
    label: Text | None = None
    subject: Text | None = None
    annotated: list[str | int] | None = None
    masks: dict[Text, Text] | None = None
    annotated_slices: Slices | None = None

    @model_validator(mode="before")
    @classmethod
    def _notes(cls, item: Any) -> Any:
        """Refuse notes that are misspelt entries: the entry meant would be missed in silence."""
        if not isinstance(item, Mapping):
            return item
        for key, value in item.items():
            if key in cls.model_fields:
                continue
            if not isinstance(key, str) or not key.isprintable():
                raise ValueError(f"{key!r} is not the name of an entry; put it in quotes")
            if value is None and not key.isidentifier():  # {image: a.nii.gz, label b.nii.gz}
                raise ValueError(f"{key!r} has no value; a colon with a blank after it may be missing")
            if key in RESERVED:
                raise ValueError(f"{key!r} cannot be used in the list of images: the name is reserved")
            meant = misspelt(key, cls.model_fields)
            if meant:
                raise ValueError(f"{key!r} is unknown; do you mean {meant!r}? Give a note of your own another name")
            if not isinstance(value, (str, int, float, type(None))) or not str(value).isprintable():
                raise ValueError(f"{key!r} must be a text in one line, or a number, got {short(value)}")
        subject = item.get("subject")
        return {**item, "subject": str(subject)} if type(subject) is int else item


RESERVED = UndividedItem.__annotations__.keys() - ItemEntry.model_fields.keys()
"""Entries of a datalist's items that are made for the user: notes have other names."""


class DatasetEntry(Strict):
    """One data set: where its images are, what its label values mean, which classes are annotated in it."""

    folder: Text = "."
    images: Text | Annotated[list[Text], Field(min_length=1)] | None = None
    """A pattern; or a list of patterns, one per channel."""
    labels: Text | None = None
    listing: Text | None = Field(None, alias="list")
    training: list[ItemEntry] | None = None
    validation: list[ItemEntry] | None = None
    test: list[ItemEntry] | None = None
    values: dict[int, list[str]] | None = None
    annotated: dict[Text, list[str]] | None = None
    """Names by subject or file name, where ``*`` and ``?`` stand for any text; a list in the file is one for ``*``."""
    masks: dict[Text, Text] | None = Field(None, min_length=1)
    """Patterns of the mask files of every structure, instead of ``labels``."""
    names: dict[Text, Text] = {}
    """Names that the data set has for classes and unions."""
    overlap: Annotated[str, _choice("error", "first", "either")] = "error"
    disagreement: Annotated[str, _choice("error", "either")] = "error"
    annotated_slices: dict[Text, Slices] | None = None
    """By subject or file name, as ``annotated``."""
    uncertain_border: Annotated[float, BeforeValidator(_millimetres)] = 0.0
    split: Annotated[str | list[float] | None, BeforeValidator(_division)] = None
    allow_missing_labels: bool = False
    pixel_size: Annotated[list[float] | None, BeforeValidator(_pixel_size)] = None
    """Width and height of a pixel in mm, of pictures (PNG, JPEG, TIFF); default: as their files say."""

    @field_validator("values", mode="before")
    @classmethod
    def _whole_numbers(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        result: dict[int, Any] = {}
        for key, names in values.items():
            if type(key) is not int and not (isinstance(key, str) and re.fullmatch(r"-?[0-9]{1,18}", key)):
                raise ValueError(f"label value {short(key)} is not a whole number")
            if int(key) in result:
                raise ValueError(f"label value {int(key)} is given twice")
            result[int(key)] = [names] if isinstance(names, (str, int, float)) else names
        return result

    @field_validator("annotated", "annotated_slices", mode="before")
    @classmethod
    def _everywhere(cls, annotated: Any) -> Any:
        return annotated if annotated is None or isinstance(annotated, Mapping) else {"*": annotated}

    @field_validator("training", "validation", "test", mode="before")
    @classmethod
    def _bare_images(cls, items: Any) -> Any:
        """The Decathlon lists test images by name alone."""
        if not isinstance(items, list):
            return items
        return [{"image": item} if isinstance(item, str) else item for item in items]

    @model_validator(mode="after")
    def _one_source(self) -> DatasetEntry:
        inline = any(getattr(self, split) is not None for split in SPLITS)
        given = [self.images is not None, self.listing is not None, inline]
        if sum(given) != 1:
            raise ValueError(
                "give either `images` (a pattern of file names), or `list` (a file), or the lists `training`, "
                "`validation`, `test` themselves"
            )
        listed = [item for split in SPLITS for item in getattr(self, split) or ()]
        has_masks = self.masks is not None or any(item.masks is not None for item in listed)
        if self.masks is not None and (self.images is None or self.labels is not None):
            raise ValueError("`masks` are patterns of file names; they need `images`, a pattern too, and no `labels`")
        if any(item.masks is not None and (item.label is not None or item.annotated is not None) for item in listed):
            raise ValueError("an image in the lists has `masks`, which need neither `label` nor `annotated`")
        if self.masks is not None and (self.values is not None or self.annotated is not None):
            raise ValueError(
                "`masks` say by their names what is drawn, and by the files that exist what is annotated: leave "
                "`values` and `annotated` out"
            )
        if self.overlap != "error" and not has_masks and self.listing is None:
            raise ValueError("`overlap` needs `masks`, but there are none")
        if self.images is not None and self.labels is None and self.masks is None:
            for key in ("annotated_slices", "uncertain_border", "names"):
                if getattr(self, key):
                    raise ValueError(f"`{key}` needs labels, but `labels` or `masks` is missing")
        if self.labels is not None and self.images is None:
            raise ValueError("`labels` is a pattern of file names and needs `images`, a pattern too")
        labelled = self.labels is not None or self.masks is not None
        if self.images is not None and not labelled and (self.values is not None or self.annotated is not None):
            raise ValueError("`values` and `annotated` need labels, but `labels`, a pattern too, is missing")
        return self


class DatalistDocument(Strict):
    """The whole file: the classes of the model, and data sets that merge by class name."""

    classes: list[Text] = Field(min_length=2, max_length=MAX_CLASSES)
    unions: dict[Text, list[Text]] = {}
    channels: list[Text] | None = Field(None, min_length=1, max_length=MAX_CHANNELS)
    """Names of the channels of an image; needed where one file holds several."""
    datasets: dict[Text, DatasetEntry] = Field(min_length=1)
    split: Annotated[list[float], BeforeValidator(_proportions)] = [60, 20, 20]
    seed: int = Field(0, ge=0)
    minutes: dict[Text, Annotated[float, Field(gt=0, strict=False)]] = {}

    @model_validator(mode="after")
    def _names(self) -> DatalistDocument:
        for channel in self.channels or ():
            if (self.channels or []).count(channel) > 1:
                raise ValueError(f"the name {channel!r} is given twice among `channels`")
        names = [*self.classes, *self.unions]
        folded = [name.casefold() for name in names]
        for name in names:
            if name != name.strip():
                raise ValueError(f"{name!r} cannot name a class or union: it begins or ends with a blank")
            if name.casefold() == UNLABELLED:
                raise ValueError(f"{name!r} cannot name a class: it marks label values of which nothing is known")
            if folded.count(name.casefold()) > 1:
                raise ValueError(f"the name {name!r} is given twice among `classes` and `unions` (case does not count)")
        if any(name.casefold() == "background" for name in self.classes[1:]):
            raise ValueError("the background must be the first of `classes`: it is what surrounds everything")
        for name in self.minutes:
            if name not in self.classes[1:]:
                raise ValueError(f"minutes: {unknown_name(name, self.classes[1:])}")
        for union, members in self.unions.items():
            for member in members:
                if member not in self.classes:
                    raise ValueError(f"union {union!r}: {unknown_name(member, self.classes)}")
            if len(set(members)) < 2 or len(set(members)) == len(self.classes):
                raise ValueError(f"union {union!r} needs at least two classes, and not all of them")
        return self


def misspelt(key: str, entries: Iterable[str]) -> str | None:
    """The entry that an unknown one looks like, where unknown ones are allowed: it would be missed in silence."""
    close = get_close_matches(key.casefold(), entries, n=1, cutoff=0.8)
    return close[0] if close else "annotated" if key.casefold().startswith("annotati") else None


def unknown_name(name: object, known: Iterable[str]) -> str:
    """Say that a name is unknown, which ones are known, and which one is probably meant."""
    known = list(known)
    by_case = {other.casefold(): other for other in known}
    close = get_close_matches(str(name).casefold(), list(by_case), n=1)
    meant = f" (do you mean {by_case[close[0]]!r}?)" if close else ""
    return f"{name!r} is unknown, known are {', '.join(known)}{meant}"


def parse_document(content: Mapping[str, Any], name: str | Path) -> DatalistDocument:
    """Check the content of a file against its form; an error names the entry, the value and what is expected."""
    try:
        return DatalistDocument.model_validate(dict(content))
    except ValidationError as error:
        raise DataError(f"{name}: {describe_mistake(error)}. See docs/reference/datalist_file.md.") from error


EXPECTED = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list, like [a, b]",
    "dict_type": "must hold entries, like {name: ...}",
    "model_type": "must hold entries, like {name: ...}",
    "string_too_short": "is empty",
    "too_short": "has too few entries",
    "too_long": f"has more than {MAX_CLASSES} entries",
    "greater_than_equal": "must not be negative",
    "recursion_loop": "holds itself",
}
"""What pydantic expected, by its type of error, in words of the file."""


def describe_mistake(error: ValidationError) -> str:
    """The first mistake that pydantic found, in words of the file."""
    first, *others = error.errors()
    if others and first["type"] == "string_type" and isinstance(first["input"], list):
        first = others[0]  # of "a text or a list of texts" the list was meant
    kind, found = first["type"], first["input"]
    place = _place(first["loc"])
    if kind == "extra_forbidden":
        model = DatasetEntry if len(first["loc"]) > 1 else DatalistDocument
        entries = [field.alias or key for key, field in model.model_fields.items()]
        return f"{place}: the entry {unknown_name(first['loc'][-1], entries)}"
    if kind == "missing":
        return f"{place} is missing"
    if kind == "value_error":
        message = one_line(first["ctx"]["error"])
    elif found is None:
        message = "is left empty; fill it in or leave it out"
    else:
        message = EXPECTED.get(kind, first["msg"].replace("Input should be", "must be"))
        if isinstance(found, (str, int, float)):
            message += f", got {short(found)}"
        if kind == "string_type" and isinstance(found, (int, float)):
            message += "; put it in quotes if it is a name"
    return f"{place}: {message}" if place else message


def _place(location: Iterable[str | int]) -> str:
    """The place of a mistake, like `datasets.north.training[0].image`; the tags of pydantic's unions are left out."""
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part != "*" and not re.search(r"\[|^(str|int|constrained-\w+)$", part):
            place += f".{part}" if place else part
    return f"`{one_line(place)}`" if place else ""
