"""Torch data sets of candidate sets: volumes in a cache, slices or patches of them, and targets with conditions."""

from .cache import cached_dataset
from .conditional import ConditionalDataset
from .patches import PatchDataset
from .samplers import CandidateSampler, DrawSampler
from .slices import SliceDataset
from .workers import default_workers

__all__ = [
    "CandidateSampler",
    "ConditionalDataset",
    "DrawSampler",
    "PatchDataset",
    "SliceDataset",
    "cached_dataset",
    "default_workers",
]
