"""Converters: each describes a public data set in its original layout as a datalist document, and copies no image.

A converter takes the folder of the data set, options of its own, and ``note``, a function that gets what the reader of
the document should know, a sentence at a time: images left out, assumptions made. It returns a document in the form of
:mod:`dcl_monai.datalist.schema`, whose ``folder`` entries are absolute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .acdc import convert_acdc
from .decathlon import convert_decathlon
from .mmwhs import convert_mmwhs
from .mscmr import convert_mscmr
from .nnunet import convert_nnunet
from .totalsegmentator import convert_totalsegmentator

__all__ = [
    "CONVERTERS",
    "convert_acdc",
    "convert_decathlon",
    "convert_mmwhs",
    "convert_mscmr",
    "convert_nnunet",
    "convert_totalsegmentator",
]

CONVERTERS: dict[str, Callable[..., dict[str, Any]]] = {
    "acdc": convert_acdc,
    "mscmr": convert_mscmr,
    "mmwhs": convert_mmwhs,
    "decathlon": convert_decathlon,
    "nnunet": convert_nnunet,
    "totalsegmentator": convert_totalsegmentator,
}
"""Converters by the name of their layout."""
