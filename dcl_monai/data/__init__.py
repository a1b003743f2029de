"""Partial labels, datalists, conditional data sets and the synthetic heart."""

from .acdc import ACDC_CLASSES, acdc_document, acdc_items
from .bank import fill_bank
from .check import check_datalist
from .datalist import datalist_hash, load_datalist, write_datalist
from .dataset import ConditionalDataset, SliceDataset
from .phantom import write_synthetic_acdc
from .prepare import prepare_datalist
from .simulate import simulate_datalist, simulate_partial
from .splits import split_subjects

__all__ = [
    "ACDC_CLASSES",
    "ConditionalDataset",
    "SliceDataset",
    "acdc_document",
    "acdc_items",
    "check_datalist",
    "datalist_hash",
    "fill_bank",
    "load_datalist",
    "prepare_datalist",
    "simulate_datalist",
    "simulate_partial",
    "split_subjects",
    "write_datalist",
    "write_synthetic_acdc",
]
