"""What a study wants to know of every test volume beside Dice: surface distances, confusions, the prediction itself."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import ignite.distributed as idist
import nibabel as nib
import numpy as np
import torch
from ignite.engine import Events
from monai.data import MetaTensor
from monai.engines import Evaluator

from dcl_monai.candidates import known_positive
from dcl_monai.datalist import Item, prediction_name
from dcl_monai.metrics import compute_surface_distances
from dcl_monai.utils import as_bool
from dcl_monai.utils.distributed import gather
from dcl_monai.utils.images import save_like
from dcl_monai.utils.tables import write_table

from .at_event import AtEvent
from .dice_table import NOTED

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class CaseTable(ABC):
    """
    A CSV file with some lines for every volume of an evaluation.

    :py:class:`monai.handlers.MetricsSaver` writes one number per class and a file per metric, names volumes by their
    path and may leave half a file. Attach this to an evaluator with decollated batches that hold ``subject`` and
    perhaps ``dataset``, ``phase`` and ``case``, and outputs that hold one-hot ``pred`` and candidate sets ``label``.

    Args:
        classes: names of all classes, background first.
        path: the CSV file.
    """

    classes: Sequence[str]
    path: str
    lines: list[list[Any]] = field(default_factory=list, init=False)
    columns: ClassVar[Sequence[str]]

    def attach(self, engine: Evaluator) -> None:
        engine.add_event_handler(Events.STARTED, lambda _: self.lines.clear())
        engine.add_event_handler(Events.ITERATION_COMPLETED, self.add)
        engine.add_event_handler(Events.COMPLETED, self)

    def add(self, engine: Evaluator) -> None:
        """Measure the volumes of an iteration."""
        for item, output in measured(engine):
            noted = [str(item.get(key, "")) for key in NOTED]
            self.lines += [[*noted, *cells] for cells in self.measure(output)]

    @abstractmethod
    def measure(self, output: Mapping[str, torch.Tensor]) -> Iterable[Sequence[Any]]:
        """Cells of every line of a volume."""

    def log(self) -> None:  # noqa: B027  # most say nothing
        """Say on rank 0 what the table shows."""

    def __call__(self, engine: Evaluator) -> None:
        self.lines = gather(self.lines)
        if idist.get_rank() == 0:
            write_table(self.path, [[*NOTED, *self.columns], *self.lines])
            self.log()


class SurfaceTable(CaseTable):
    """
    HD95 and average symmetric surface distance in mm, a line per volume and structure.

    A structure that the volume shows and the prediction missed has the distance ``inf``: whoever averages must count
    these apart. Structures that the volume does not show have no line.

    Args:
        classes: names of all classes, background first.
        path: the CSV file.
    """

    columns = ("structure", "hd95", "assd")

    def measure(self, output: Mapping[str, torch.Tensor]) -> list[list[str]]:
        """Distances of every structure that the volume shows."""
        distances = compute_surface_distances(output["pred"], output["label"], voxel_size(output["pred"]))
        return [
            [name, f"{hd95:.4f}", f"{assd:.4f}"]
            for name, (hd95, assd) in zip(self.classes[1:], distances.tolist(), strict=True)
            if not np.isnan(hd95)
        ]

    def log(self) -> None:
        """Mean of the distances, and how many there are none of."""
        missed = sum(line[-1] == "inf" for line in self.lines)
        finite = [float(line[-2]) for line in self.lines if line[-1] != "inf"]
        if finite:
            logger.info(
                f"HD95 {np.mean(finite):.2f} mm on average over {len(finite)} structures; {missed} structures missed."
            )


class ConfusionTable(CaseTable):
    """
    Volume in ml by true and by predicted class, a line per volume and pair; voxels of unknown class do not count.

    Args:
        classes: names of all classes, background first.
        path: the CSV file.
    """

    columns = ("truth", "predicted", "ml")

    def measure(self, output: Mapping[str, torch.Tensor]) -> list[list[str]]:
        """Volumes of all pairs of classes."""
        number, pred = len(self.classes), output["pred"]
        sole = known_positive(output["label"], dim=0)
        known = sole.any(0)
        pairs = sole.int().argmax(0)[known] * number + torch.as_tensor(pred).argmax(0).to(sole.device)[known]
        counts = torch.bincount(pairs.flatten(), minlength=number**2).reshape(number, number).tolist()
        voxel_ml = math.prod(voxel_size(pred)) / 1000
        return [
            [truth, predicted, f"{counts[i][j] * voxel_ml:.4f}"]
            for i, truth in enumerate(self.classes)
            for j, predicted in enumerate(self.classes)
        ]


@dataclass(eq=False)
class SavePredictions(AtEvent):
    """
    Write every prediction as a NIfTI label map: value j is class j.

    :py:class:`monai.transforms.SaveImage` names a file by its image, which two data sets may share, and writes it in
    place: a killed study would find half a file and take it for whole.

    Attach it to an evaluator with decollated batches that hold ``subject``, ``dataset`` and ``case``, and outputs that
    hold ``pred``, one channel per class.

    Args:
        folder: folder of the files, see :func:`dcl_monai.datalist.prediction_name`.
    """

    folder: str
    event = Events.ITERATION_COMPLETED

    def __call__(self, engine: Evaluator) -> None:
        for item, output in measured(engine):
            pred = output["pred"]
            labels = torch.as_tensor(pred).argmax(0).to(torch.uint8).cpu().numpy()
            affine = pred.affine.cpu().numpy() if isinstance(pred, MetaTensor) else np.eye(4)
            path = Path(self.folder) / prediction_name(item)
            save_like(nib.Nifti1Image(labels, affine), labels, path, "dcl-monai prediction")


@dataclass(eq=False)
class CaseDetails:
    """
    All that a study wants to know of every test volume: ``test_surface.csv``, ``test_confusion.csv``, ``predictions/``.

    Args:
        classes: names of all classes, background first.
        output_dir: folder of the two tables and of the folder of the predictions.
        enabled: whether anything is written.
    """

    classes: Sequence[str]
    output_dir: str
    enabled: bool | str = True

    def attach(self, engine: Evaluator) -> None:
        if as_bool(self.enabled):
            SurfaceTable(self.classes, f"{self.output_dir}/test_surface.csv").attach(engine)
            ConfusionTable(self.classes, f"{self.output_dir}/test_confusion.csv").attach(engine)
            SavePredictions(f"{self.output_dir}/predictions").attach(engine)


def measured(engine: Evaluator) -> list[tuple[Item, dict[str, torch.Tensor]]]:
    """Item, loaded, and output of every volume, but for bare images of :func:`dcl_monai.utils.distributed.shard`."""
    pairs = zip(engine.state.batch, engine.state.output, strict=True)
    return [(item, output) for item, output in pairs if "subject" in item]


def voxel_size(image: torch.Tensor) -> list[float]:
    """Size of a voxel in mm of an image (C, \\*spatial); 1 if it does not say."""
    dims = image.dim() - 1
    return [float(size) for size in image.pixdim[:dims]] if isinstance(image, MetaTensor) else [1.0] * dims
