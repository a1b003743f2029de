"""From a trained model to segmentations: a folder of NIfTI files in, a folder of label maps and a report out."""

from .folder import FolderSegmenter, find_images
from .model import bank_sizes, check_model, load_model, load_trained, load_weights
from .sets import predict_sets

__all__ = [
    "FolderSegmenter",
    "bank_sizes",
    "check_model",
    "find_images",
    "load_model",
    "load_trained",
    "load_weights",
    "predict_sets",
]
