"""Partial labels, datalists, conditional data sets and the synthetic heart."""

from .acdc import ACDC_CLASSES, acdc_items
from .bank import fill_bank
from .check import check_datalist
from .datalist import datalist_hash, partial_datalist, simulate_partial, split_subjects
from .dataset import ConditionalDataset, SliceDataset
from .phantom import write_synthetic_acdc

__all__ = [
    "ACDC_CLASSES",
    "ConditionalDataset",
    "SliceDataset",
    "acdc_items",
    "check_datalist",
    "datalist_hash",
    "fill_bank",
    "partial_datalist",
    "simulate_partial",
    "split_subjects",
    "write_synthetic_acdc",
]
