"""The application: one case through the bundle, by MONAI Deploy's operators."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bundle import Bundle
from cases import Case
from dicom import SeriesLoaderOperator, SeriesToVolumeOperator
from errors import DataError, one_line
from monai.data import MetaTensor
from monai.deploy.conditions import CountCondition
from monai.deploy.core import AppContext, Application, Image, IOType
from monai.deploy.operators import (
    DICOMSeriesSelectorOperator,
    IOMapping,
    ModelInfo,
    MonaiBundleInferenceOperator,
)
from monai.deploy.operators.dicom_seg_writer_operator import SegmentDescription
from nifti import NiftiLoaderOperator, NiftiWriterOperator
from seg import SegWriterOperator
from utils.plausibility import Plausibility

__all__ = ["PartialResultError", "SegmentationApp", "segment"]

RULES = '{"selections": [{"name": "image", "conditions": {"Modality": "%s"}}]}'


class InferenceOperator(MonaiBundleInferenceOperator):
    """
    The stock operator, which also notes what is unlike the images of the model's bank.

    Args:
        classes: class names, background first.
        frames: number of frames of the case.
        notes: list that gets a short sentence each.
    """

    def __init__(self, *args: Any, classes: Sequence[str], frames: int, notes: list[str], **kwargs: Any) -> None:
        self.classes = classes
        self.frames = frames
        self.frame = 0
        self.notes = notes
        super().__init__(*args, **kwargs)

    def predict(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        """Segment a preprocessed image (1, C, H, W, D)."""
        output = super().predict(data, *args, **kwargs)
        self.frame += 1
        bank = getattr(self._model_network, "bank", None)
        if hasattr(bank, "describe") and bank.images.dim() >= 5:  # a model of before, and one without conditions
            image = data.as_tensor() if isinstance(data, MetaTensor) else data
            labels = output[0].argmax(dim=0).cpu().numpy()
            found = Plausibility(bank, self.classes).notes(image[0], labels)
            self.notes += [f"frame {self.frame}: {note}" if self.frames > 1 else note for note in found]
        return output


class SegmentationApp(Application):
    """
    Segment one case.

    NIfTI: loader -> bundle -> writer. DICOM: loader -> selector -> volume -> bundle -> writers of NIfTI and DICOM SEG.

    Args:
        case: what to segment.
        bundle: the model.
        segments: descriptions of the segments, for DICOM.
        label: NIfTI file to write.
        folder: where to write the DICOM SEG, by a name that the stock writer chooses.
    """

    def __init__(
        self, *args: Any, case: Case, bundle: Bundle, segments: list[SegmentDescription], label: Path, folder: Path
    ) -> None:
        self.case = case
        self.bundle = bundle
        self.segments = segments
        self.label = label
        self.folder = folder
        self.failures: list[Exception] = []
        self.notes: list[str] = []
        super().__init__(*args)

    def compose(self) -> None:
        infer = InferenceOperator(
            self,
            classes=self.bundle.classes,
            frames=self.case.frames,
            notes=self.notes,
            app_context=AppContext({"model": str(self.folder / "none")}),  # the operator takes models/model.ts itself
            input_mapping=[IOMapping("image", Image, IOType.IN_MEMORY)],
            output_mapping=[IOMapping("pred", Image, IOType.IN_MEMORY)],
            bundle_path=self.bundle.folder,
            name="infer",
        )
        is_nifti = self.case.kind == "nifti"
        write = NiftiWriterOperator(
            self,
            path=self.label,
            frames=self.case.frames,
            source=self.case.files[0] if is_nifti else None,
            channels=self.bundle.channels,
            name="write_nifti",
        )
        self.add_flow(infer, write, {("pred", "pred")})
        if is_nifti:
            count = CountCondition(self, self.case.frames)
            load = NiftiLoaderOperator(self, count, path=self.case.files[0], channels=self.bundle.channels, name="load")
            self.add_flow(load, infer, {("image", "image")})
        else:
            self.compose_dicom(infer)

    def compose_dicom(self, infer: InferenceOperator) -> None:
        """The flow before and after inference that differs for DICOM."""
        load = SeriesLoaderOperator(
            self, CountCondition(self, 1), files=self.case.files, scratch=self.folder, name="load"
        )
        select = DICOMSeriesSelectorOperator(self, rules=RULES % self.bundle.modality, name="select")
        volume = SeriesToVolumeOperator(self, name="volume")
        # which weights it was, not only which version of the bundle; LO holds 64 letters, as many as the hash has
        version = f"{self.bundle.version}\\{self.bundle.sha256}"
        write = SegWriterOperator(
            self,
            failures=self.failures,
            segment_descriptions=self.segments,
            model_info=ModelInfo("dcl-monai", self.bundle.name[:64], version, self.bundle.device_uid),
            notes=self.notes,
            output_folder=self.folder,
            name="write_seg",
        )
        selected = ("study_selected_series_list", "study_selected_series_list")
        self.add_flow(load, select, {("dicom_study_list", "dicom_study_list")})
        self.add_flow(select, volume, {selected})
        self.add_flow(volume, infer, {("image", "image")})
        self.add_flow(infer, write, {("pred", "seg_image")})
        self.add_flow(select, write, {selected})


class PartialResultError(DataError):
    """
    The label map is there, but no DICOM SEG.

    Args:
        message: why.
        outputs: what is there.
    """

    def __init__(self, message: str, outputs: list[str]) -> None:
        super().__init__(message)
        self.outputs = outputs


def segment(
    case: Case, bundle: Bundle, segments: list[SegmentDescription], output: Path
) -> tuple[list[str], list[str]]:
    """
    Run the application on a case, and put its outputs in place.

    Returns:
        paths of the outputs, relative to the folder; and what is unusual of image and segmentation.

    Raises:
        PartialResultError: when the DICOM SEG could not be written.
    """
    targets = [output / name for name in case.outputs]
    targets[0].parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix=".") as scratch:
        label = Path(scratch, targets[0].name)
        app = SegmentationApp(case=case, bundle=bundle, segments=segments, label=label, folder=Path(scratch))
        app.run()
        if app.failures:
            os.replace(label, targets[0])
            raise PartialResultError(
                f"{case.name}: {case.outputs[0]} is written, but no DICOM SEG ({one_line(app.failures[0])}). Correct "
                "the headers of the series.",
                case.outputs[:1],
            )
        for path, target in zip([label, *Path(scratch).glob("*.dcm")], targets, strict=True):
            os.replace(path, target)
    return case.outputs, app.notes
