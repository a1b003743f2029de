"""Looking at every file of a datalist before hours of training are lost to a mistake in one of them."""

from .prepare import check_datalist, prepare_datalist
from .problems import find_problems
from .reading import inspect_datalist
from .records import CaseRecord, FileRecord, Problem, State
from .repair import repair_headers

__all__ = [
    "CaseRecord",
    "FileRecord",
    "Problem",
    "State",
    "check_datalist",
    "find_problems",
    "inspect_datalist",
    "prepare_datalist",
    "repair_headers",
]
