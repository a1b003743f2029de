"""What a network does for annotators: full labels from partial ones, by models that did not see the image."""

from .crossfit import CrossFit, fold_subjects
from .predict import Prediction, Predictor

__all__ = ["CrossFit", "Prediction", "Predictor", "fold_subjects"]
