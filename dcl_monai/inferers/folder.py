"""Folder in, folder out: segment every NIfTI file of a folder."""

from __future__ import annotations

import copy
import logging
import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
from monai.data import Dataset, MetaTensor
from monai.inferers import SliceInferer, SlidingWindowInferer
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from dcl_monai.metrics import expected_dice
from dcl_monai.networks import DCLNet, bank_sizes, load_model, load_weights
from dcl_monai.transforms.images import open_source, write_picture
from dcl_monai.utils import DataError, as_bool
from dcl_monai.utils.errors import find_user_error
from dcl_monai.utils.files import file_hash
from dcl_monai.utils.images import check_inside, save_like, voxel_ml
from dcl_monai.utils.locks import take_lock
from dcl_monai.utils.plausibility import Plausibility
from dcl_monai.visualize.overlays import COLOURS

from .bounds import bounds_of_frames, bounds_words
from .names import output_name
from .report import RunReport, stamp
from .sets import predict_sets
from .sheet import Case, draw_contact_sheets
from .volumes import ejection_fractions, volumes_ml

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class FolderSegmenter:
    """
    Segment every image of a folder, and write a report that grows with each file.

    The outputs lie in ``output_dir`` as the images lie in ``dataset_dir``, with the geometry of their image:
    ``x.nii.gz`` becomes ``x_seg.nii.gz``, class indices; and if asked for ``x_probabilities.nii.gz`` and
    ``x_uncertainty.nii.gz`` with one more axis, the classes. A file that cannot be segmented is reported and the rest
    goes on. A run that was interrupted goes on where it stopped, see :class:`~dcl_monai.inferers.report.RunReport`.

    Args:
        dataset: items with an ``image``; its transform checks
            (:class:`~dcl_monai.transforms.CheckImaged`), loads and preprocesses one, to (T, H, W, D) with T frames.
        dataset_dir: folder of the images.
        output_dir: folder of the outputs.
        model_file: weights and conditional bank.
        network: the network the weights are for.
        inferer: runs the 2D network over a volume.
        postprocessing: brings ``pred`` and ``uncertainty``, class probabilities (m, H, W, D) and their spread, back to
            the grid of the image, keeps the former as ``probabilities``, and turns ``pred`` into class indices
            (1, H, W, D).
        classes: class names, background first.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.
        spatial_size: size of that grid, for the report.
        single_parts: names of the structures of which the postprocessing keeps the largest part alone, for the report.
        device: device of the network.
        num_sets: number of conditional sets to average over, see :func:`~dcl_monai.inferers.predict_sets`.
        save_probabilities: whether to write class probabilities.
        save_uncertainty: whether to write the standard deviation of the class probabilities over the sets.
        contact_sheet: whether to draw all segmentations.
        channels: names of the channels of an image; where there are several, the fourth axis of a file holds them, and
            no frames.
        further_models: models of other folds; the mean of all probabilities is taken, and their spread is the
            uncertainty.
    """

    dataset: Dataset
    dataset_dir: str
    output_dir: str
    model_file: str
    network: DCLNet
    inferer: Callable[..., torch.Tensor]
    postprocessing: Callable[[dict[str, Any]], Mapping[str, Any]]
    classes: Sequence[str]
    pixdim: Sequence[float]
    spatial_size: Sequence[int]
    single_parts: Sequence[str]
    device: torch.device
    num_sets: int = 1
    save_probabilities: bool | str = False
    save_uncertainty: bool | str = False
    contact_sheet: bool | str = True
    channels: Sequence[str] = ("image",)
    further_models: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.images, self.outputs = Path(self.dataset_dir), Path(self.output_dir)
        self.networks = [self.network]
        maps = {"probabilities": self.save_probabilities, "uncertainty": self.save_uncertainty}
        self.maps = [name for name, wanted in maps.items() if as_bool(wanted)]
        self.plausibility: Plausibility | None = None  # needs the bank of the model
        self.bounds: Mapping[str, Any] | None = None  # travel in the model

    def run(self) -> None:
        """
        Segment all that is not yet done.

        Raises:
            DataError: before anything is written, when model, settings or folders do not fit, or another run writes to
                the folder; at the end, when files could not be segmented.
        """
        if self.outputs.resolve() == self.images.resolve():
            raise DataError(f"{self.outputs}: is the folder of the images. Set --output_dir to another one.")
        self.load()
        settings = self.settings()
        if self.network.conditional:
            self.plausibility = Plausibility(self.network.bank, self.classes)
        lock = take_lock(self.outputs)
        if lock is None:
            raise DataError(
                f"{self.outputs}: another run is writing to it. Wait until it ends, or set another --output_dir."
            )
        try:
            self.segment_all(RunReport(self.outputs, settings))
        finally:
            os.close(lock)

    def load(self) -> None:
        """
        Load all models.

        Raises:
            DataError: when one cannot be used, or was not trained for the same classes on the same grid.
        """
        content = load_model(self.model_file)
        self.networks = [load_weights(self.network, content, self.model_file).eval()]
        self.check_dims()
        # bounds hold for the one model that they were measured for
        self.bounds = None if self.further_models else content["settings"].get("bounds")
        for file in self.further_models:
            other = load_model(file)
            for name in ("classes", "pixdim", "spatial_size", "intensity"):
                here, there = content["settings"].get(name), other["settings"].get(name)
                if here != there:
                    raise DataError(
                        f"{file}: has {name} {there}, {self.model_file} has {here}. Average models of one bundle only."
                    )
            self.networks.append(load_weights(copy.deepcopy(self.network), other, file).eval())

    def segment_all(self, report: RunReport) -> None:
        """Segment all that the report does not have, and draw the contact sheets."""
        report.write()
        names = [Path(item["image"]).relative_to(self.images).as_posix() for item in self.dataset.data]
        with logging_redirect_tqdm():
            for index, name in enumerate(tqdm(names, desc="segmenting", unit="file", disable=None)):
                if not report.is_done(name, self.images / name):
                    report.add(name, self.attempt(index, name))
        report.ejection_fraction = ejection_fractions(report.done(), self.images)
        report.complete = True
        report.write()
        if as_bool(self.contact_sheet):
            cases = [
                Case(
                    name,
                    self.images / name,
                    self.outputs / entry["outputs"]["segmentation"],
                    entry.get("unusual", []),
                    bounds_words(entry.get("bounds", {}), self.bounds["level"]) if self.bounds else "",
                )
                for name, entry in report.done().items()
                if (self.images / name).is_file()
            ]
            draw_contact_sheets(cases, self.classes, self.outputs)
        done, failed = report.done(), report.failed()
        logger.info(f"{len(done)} file(s) segmented, report: {report.path}")
        if done:
            logger.info(f"see them slice by slice: python -m dcl_monai view {shlex.quote(str(self.outputs))}")
        if failed:
            raise DataError(
                f"{len(failed)} of {len(names)} file(s) could not be segmented, see {report.path}; the first: "
                f"{next(iter(failed.values()))}"
            )

    def check_dims(self) -> None:
        """Refuse a network of slices in a bundle of volumes, and the other way round."""
        dims = max((parameter.dim() - 2 for parameter in self.network.parameters()), default=0)
        if isinstance(self.inferer, SlidingWindowInferer) and dims in (2, 3):
            wanted = 2 if isinstance(self.inferer, SliceInferer) else 3
            if dims != wanted:
                raise DataError(
                    f"{self.model_file}: is a {dims}D network, but this bundle runs {wanted}D networks. Use the bundle "
                    "that it was trained with."
                )

    def settings(self) -> dict[str, Any]:
        """All that the outputs depend on, for the report."""
        sizes = bank_sizes(self.network, self.classes)
        held = min((size for size in sizes.values() if size), default=1)  # a class without any is the same in all sets
        if not isinstance(self.num_sets, int) or not 1 <= self.num_sets <= held:
            raise DataError(
                f"--num_sets {self.num_sets}: {self.model_file} has conditions for 1 to {held} set(s). Choose such a "
                "number, or give it a larger bank (python -m dcl_monai bank)."
            )
        if "uncertainty" in self.maps and self.num_sets < 2 and not self.further_models:
            raise DataError(
                "--save_uncertainty needs several conditional sets to differ: add --num_sets 4, for example."
            )
        others = {file: file_hash(file) for file in self.further_models}
        return {
            "model": {
                "file": str(self.model_file),
                "sha256": file_hash(self.model_file),
                "classes": list(self.classes),
                "bank": sizes,
            }
            | ({"further_models": others} if others else {}),
            "dataset_dir": str(self.images.resolve()),
            "channels": list(self.channels),
            "pixdim": list(self.pixdim),
            "spatial_size": list(self.spatial_size),
            "pixel_size": next((item["pixel_size"] for item in self.dataset.data if "pixel_size" in item), None),
            "single_parts": list(self.single_parts),
            "num_sets": self.num_sets,
            "maps": self.maps,
        }

    def attempt(self, index: int, name: str) -> dict[str, Any]:
        """Segment one file and return its entry in the report, whatever happens."""
        start = time.perf_counter()
        try:
            entry = {"status": "done"} | self.segment(index, name)
        except Exception as error:  # one bad file must not stop the others
            known = find_user_error(error)
            reason = str(known) if known else f"{self.images / name}: {one_line(error)}"
            logger.error(reason)
            entry = {"status": "failed", "error": reason}
        return entry | {"seconds": round(time.perf_counter() - start, 3)}

    def segment(self, index: int, name: str) -> dict[str, Any]:
        """Segment one file, write the outputs, and return what the report says of it."""
        path = self.images / name
        check_inside(path, self.images)
        before = stamp(path)
        image = self.dataset[index]["image"]
        source = open_source(path, self.dataset.data[index].get("pixel_size"))
        width = len(self.channels)
        frames = source.shape[3] if source.ndim == 4 and width == 1 else 1
        if len(image) != frames * width:
            expected = f"{width} channels ({', '.join(self.channels)})" if width > 1 else f"{frames} frame(s)"
            remedy = "Give --pattern a list, one per channel" if width > 1 else "Convert the file"
            raise DataError(f"{path}: {len(image)} frames or channels were read, not {expected}. {remedy}.")
        arrays: dict[str, list[np.ndarray]] = {kind: [] for kind in ("segmentation", *self.maps)}
        unusual: list[str] = []
        confidence: list[list[float]] = []
        for frame in range(frames):
            found, notes, promised = self.segment_frame(image[frame * width : (frame + 1) * width])
            confidence.append(promised)
            unusual += [f"frame {frame + 1}: {note}" if frames > 1 else note for note in notes]
            for kind, array in found.items():
                arrays[kind].append(array)
        volumes = volumes_ml(np.stack(arrays["segmentation"], axis=3), self.classes, voxel_ml(source))
        bounds: dict[str, Any] = {}
        if self.bounds:
            bounds["bounds"], notes = bounds_of_frames(self.bounds, self.classes, confidence, volumes)
            unusual += notes
        if unusual:
            logger.warning(f"{path}: unusual, look at it. {'; '.join(unusual[:3])}")
        outputs = {}
        for kind, parts in arrays.items():
            outputs[kind] = output_name(name, "seg" if kind == "segmentation" else kind)
            array = np.stack(parts, axis=3)
            if source.ndim == 3 or width > 1:
                array = array[:, :, :, 0]
            if outputs[kind].endswith(".png"):
                write_picture(array[:, :, 0], COLOURS, self.outputs / outputs[kind])
                continue
            save_like(source, array, self.outputs / outputs[kind], f"dcl-monai {kind}")
        return {
            "outputs": outputs,
            "input": before,
            "shape": list(source.shape),
            "spacing_mm": [round(float(size), 5) for size in source.header.get_zooms()[:3]],
            "volumes_ml": volumes,
            "unusual": unusual,
            **bounds,
        } | header_note(source)

    def segment_frame(self, image: MetaTensor) -> tuple[dict[str, np.ndarray], list[str], list[float]]:
        """
        Segment one volume.

        Args:
            image: preprocessed, (C, H, W, D).

        Returns:
            on the image's own grid: ``segmentation`` (H, W, D), and the maps asked for (H, W, D, m); and what is
            unusual of image and segmentation, see :class:`~dcl_monai.utils.plausibility.Plausibility`; and Dice that
            the probabilities promise of every class, if the model has bounds.
        """
        pixels = image.as_tensor()[None].to(self.device)
        mean, spread = predict_sets(self.networks, self.inferer, pixels, self.num_sets)
        labels = mean[0].argmax(dim=0).cpu().numpy()
        notes = [] if self.plausibility is None else self.plausibility.notes(pixels[0], labels)
        data = {"image": image, "pred": MetaTensor(mean[0].cpu())}
        if "uncertainty" in self.maps:
            data["uncertainty"] = MetaTensor(spread[0].cpu())
        data = dict(self.postprocessing(data))
        dtype = np.uint8 if len(self.classes) <= 256 else np.uint16
        segmentation = data["pred"][0].numpy().astype(dtype)
        maps = {kind: np.moveaxis(data[kind].numpy(), 0, -1) for kind in self.maps}
        promised = expected_dice(data["probabilities"], data["pred"][0]) if self.bounds else []
        return {"segmentation": segmentation, **maps}, notes, promised


def header_note(source: nib.Nifti1Image) -> dict[str, str]:
    """A note for the report where the header gives two voxel sizes that disagree, as ACDC's own files do."""
    by_affine, by_pixdim = nib.affines.voxel_sizes(source.affine), source.header.get_zooms()[:3]
    if np.allclose(by_affine, by_pixdim, rtol=0.01):
        return {}
    sizes = (" x ".join(f"{size:.4g}" for size in values) for values in (by_affine, by_pixdim))
    return {"note": "the affine gives voxels of {} mm, pixdim of {} mm: the latter was used".format(*sizes)}


def one_line(error: BaseException) -> str:
    """The innermost cause of an error, in one line; MONAI wraps what its transforms raise."""
    while error.__cause__ is not None:
        error = error.__cause__
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[-1].strip() if words else 'no reason given'}"
