"""The ranking of ``dcl-monai next`` as a strategy of MONAI Label: *Next Sample* brings what is to be drawn next."""

from __future__ import annotations

import csv
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dcl_monai.transforms.stored import stored_annotation
from dcl_monai.utils import DataError
from dcl_monai.utils.tables import read_table

__all__ = ["Ranking"]

logger = logging.getLogger(__name__)


class Ranking:
    """
    A strategy as MONAI Label calls it. An image of the server is one of the ranking if it is the same file, or has the
    name of one alone.

    Args:
        file: ``next.csv`` of the command.
        classes: class names of the model, background first.

    Raises:
        DataError: when the file cannot be read, or ranks other structures.
    """

    def __init__(self, file: Path, classes: Sequence[str]) -> None:
        self.classes = list(classes)
        try:
            self.rows = [(Path(row["image"]), row["structure"]) for row in read_table(file)]
        except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{file}: is not a ranking ({error}). Give next.csv of `dcl-monai next`.") from error
        others = sorted({structure for _, structure in self.rows} - set(self.classes))
        if others or not self.rows:
            raise DataError(
                f"{file}: ranks {', '.join(others) or 'nothing'}, but the model has {', '.join(self.classes[1:])}. "
                "Give the ranking of this bundle."
            )

    def info(self) -> dict[str, str]:
        """What MONAI Label says of a strategy."""
        return {"description": "The structure with the most expected gain per minute, by dcl-monai next"}

    def __call__(self, request: Mapping[str, Any], datastore: Any) -> dict[str, Any] | None:
        """The next image with a structure that is not drawn yet, and this structure; ``None`` when all are drawn."""
        files = {image: Path(datastore.get_image_uri(image)) for image in datastore.list_images()}
        places = {path.resolve(): image for image, path in files.items()}
        names = {named(path.name): image for image, path in files.items()}
        listed = Counter(named(path.name) for path in {path for path, _ in self.rows})
        for rank, (path, structure) in enumerate(self.rows, 1):
            image = places.get(path.resolve())
            if image is None and listed[named(path.name)] == 1:  # a copy of the image
                image = names.get(named(path.name))
            if image is not None and structure not in self.drawn(image, datastore, request.get("label_tag") or "final"):
                logger.info(f"next: draw {structure} in {image} (rank {rank})")
                return {"id": image, "structure": structure, "rank": rank}
        return None

    def drawn(self, image: str, datastore: Any, tag: str) -> set[str]:
        """Structures that an annotator has stored for an image."""
        label = datastore.get_labels_by_image_id(image).get(tag)
        if label is None:
            return set()
        try:
            annotation = stored_annotation(datastore.get_label_uri(label, tag), self.classes)
        except DataError as error:
            logger.warning(f"next: {error}")
            return set()
        if "unlabelled" in annotation:  # strokes
            return set()
        return {self.classes[j] for j in annotation["annotated"] if isinstance(j, int)}


def named(file: str) -> str:
    """Name of an image without its ending."""
    return file.split(".nii")[0].removesuffix(".nrrd")
