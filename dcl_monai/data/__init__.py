"""Partial labels, datalists, conditional data sets and the synthetic heart."""

from .acdc import ACDC_CLASSES, acdc_document, acdc_items
from .bank import fill_bank
from .cache import cached_dataset
from .check import check_datalist
from .convert import convert_mmwhs, convert_mscmr
from .datalist import datalist_hash, load_datalist, write_datalist
from .dataset import ConditionalDataset, SliceDataset
from .patches import PatchDataset
from .phantom import write_synthetic_acdc, write_synthetic_mmwhs, write_synthetic_mscmr
from .prepare import prepare_datalist
from .pseudo import prediction_name, pseudo_datalist
from .rehearsal import BankDataset
from .samplers import CandidateSampler, DrawSampler
from .simulate import simulate_datalist, simulate_partial
from .splits import split_subjects

__all__ = [
    "ACDC_CLASSES",
    "BankDataset",
    "CandidateSampler",
    "ConditionalDataset",
    "DrawSampler",
    "PatchDataset",
    "SliceDataset",
    "acdc_document",
    "acdc_items",
    "cached_dataset",
    "check_datalist",
    "convert_mmwhs",
    "convert_mscmr",
    "datalist_hash",
    "fill_bank",
    "load_datalist",
    "prediction_name",
    "prepare_datalist",
    "pseudo_datalist",
    "simulate_datalist",
    "simulate_partial",
    "split_subjects",
    "write_datalist",
    "write_synthetic_acdc",
    "write_synthetic_mmwhs",
    "write_synthetic_mscmr",
]
