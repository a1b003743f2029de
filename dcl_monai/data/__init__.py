"""Partial labels, datalists, conditional data sets and the synthetic heart."""

from .acdc import ACDC_CLASSES, acdc_document, acdc_items
from .bank import fill_bank
from .check import check_datalist
from .convert import convert_mmwhs, convert_mscmr
from .datalist import datalist_hash, load_datalist, write_datalist
from .dataset import ConditionalDataset, SliceDataset
from .patches import CandidateSampler, PatchDataset
from .phantom import write_synthetic_acdc, write_synthetic_mmwhs, write_synthetic_mscmr
from .prepare import prepare_datalist
from .simulate import simulate_datalist, simulate_partial
from .splits import split_subjects

__all__ = [
    "ACDC_CLASSES",
    "CandidateSampler",
    "ConditionalDataset",
    "PatchDataset",
    "SliceDataset",
    "acdc_document",
    "acdc_items",
    "check_datalist",
    "convert_mmwhs",
    "convert_mscmr",
    "datalist_hash",
    "fill_bank",
    "load_datalist",
    "prepare_datalist",
    "simulate_datalist",
    "simulate_partial",
    "split_subjects",
    "write_datalist",
    "write_synthetic_acdc",
    "write_synthetic_mmwhs",
    "write_synthetic_mscmr",
]
