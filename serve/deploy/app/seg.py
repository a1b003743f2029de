"""DICOM SEG out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monai.deploy.operators import DICOMSegmentationWriterOperator

__all__ = ["SegWriterOperator"]


class SegWriterOperator(DICOMSegmentationWriterOperator):
    """
    The stock writer of DICOM SEG, which does not stop the application: the NIfTI label map is not lost.

    What is unusual of the case stands in the descriptions of series and content, and in full in ImageComments.

    Args:
        failures: list that gets what went wrong.
        notes: what is unusual; complete when the segmentation is there.
    """

    def __init__(self, *args: Any, failures: list[Exception], notes: Sequence[str], **kwargs: Any) -> None:
        self.failures = failures
        self.notes = notes
        super().__init__(*args, **kwargs)

    def compute(self, op_input: Any, op_output: Any, context: Any) -> None:
        self._custom_tags = described(self.notes)
        try:
            super().compute(op_input, op_output, context)
        except Exception as error:  # highdicom raises whatever it likes
            self.failures.append(error)


def described(notes: Sequence[str]) -> dict[str, str]:
    """Descriptions of a segmentation, which say whether something is unusual; 64 letters is what most of them hold."""
    if not notes:
        return {"SeriesDescription": "dcl-monai segmentation, for research only"}
    return {
        "SeriesDescription": "dcl-monai segmentation, research only; UNUSUAL: look at it",
        "ContentDescription": shortened(notes[0]),
        "ImageComments": "; ".join(notes)[:10240],
    }


def shortened(text: str, length: int = 64) -> str:
    """A text of at most so many letters."""
    return text if len(text) <= length else f"{text[: length - 3]}..."
