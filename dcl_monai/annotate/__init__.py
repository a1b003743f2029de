"""What a network does for annotators: full labels from partial ones, by models that did not see the image."""

from .bounds import calibrate_model
from .complete import complete_datalist, fill_labels
from .crossfit import CrossFit
from .predict import Prediction, Predictor
from .writers import WRITERS, Writer

__all__ = [
    "WRITERS",
    "CrossFit",
    "Prediction",
    "Predictor",
    "Writer",
    "calibrate_model",
    "complete_datalist",
    "fill_labels",
]
