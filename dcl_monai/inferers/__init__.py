"""From a trained model to segmentations: a folder of NIfTI files in, a folder of label maps and a report out."""

from .folder import FolderSegmenter
from .names import find_images
from .sets import predict_sets

__all__ = ["FolderSegmenter", "find_images", "predict_sets"]
