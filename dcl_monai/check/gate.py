"""The check that every training runs first."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from dcl_monai.datalist import Datalist
from dcl_monai.utils import DataError
from dcl_monai.utils.images import check_size

from .problems import find_problems
from .reading import inspect_datalist

__all__ = ["check_datalist"]

logger = logging.getLogger(__name__)


def check_datalist(datalist: Datalist, progress: bool = True, pixdim: Sequence[float] = ()) -> Datalist:
    """
    Read every image and label, raise if there is a mistake, and log in one line if something looks odd.

    One process reads some thirty volumes of the heart in a second; ``python -m dcl_monai check`` uses all cores and
    tells everything that is found.

    Args:
        datalist: the datalist.
        progress: whether to show a progress bar, if there is a terminal.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is; empty if there is no network yet.

    Returns:
        the datalist, so that the call can stand in a config where the datalist is meant.

    Raises:
        DataError: the first error of :func:`find_problems`, and how many more there are; or for an image that is too
            large on the network's grid.
    """
    records = inspect_datalist(datalist, progress=progress)
    problems = find_problems(datalist, records)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more, see python -m dcl_monai check)" if len(errors) > 1 else ""
        raise DataError(errors[0].message + more)
    for record in records:
        check_size(record.files.image, record.files.shape, record.files.spacing, pixdim)
    if problems:
        more = f" (and {len(problems) - 1} more, see python -m dcl_monai check)" if len(problems) > 1 else ""
        logger.warning(problems[0].message + more)
    return datalist
