"""What a user says about data: which images there are, in which split, and what their labels mean.

A user's file (``schema``) names folders or lists (``sources``) and what label values stand for (``labels``);
:func:`load_datalist` makes a :class:`Datalist` of it (``items``), divided by subject (``splits``). ``simulate`` makes
partial annotation from full labels; ``convert`` writes the file for the layouts of known data sets.
"""

from .convert import convert_mmwhs, convert_mscmr
from .convert.acdc import ACDC_CLASSES, acdc_document, acdc_items
from .folds import choose_fold, fold_subjects
from .items import Annotation, Datalist, Item
from .load import datalist_hash, load_datalist, write_datalist
from .pseudo import prediction_name, pseudo_datalist
from .simulate import simulate_datalist, simulate_partial
from .splits import split_subjects

__all__ = [
    "ACDC_CLASSES",
    "Annotation",
    "Datalist",
    "Item",
    "acdc_document",
    "acdc_items",
    "choose_fold",
    "convert_mmwhs",
    "convert_mscmr",
    "datalist_hash",
    "fold_subjects",
    "load_datalist",
    "prediction_name",
    "pseudo_datalist",
    "simulate_datalist",
    "simulate_partial",
    "split_subjects",
    "write_datalist",
]
