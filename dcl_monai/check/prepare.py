"""What every training does first: from a datalist as a config names it to one that it can rely on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from dcl_monai.datalist import Datalist, load_datalist, write_datalist
from dcl_monai.datalist.items import annotations_of
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError
from dcl_monai.utils.distributed import on_first_rank
from dcl_monai.utils.images import check_size

from .problems import find_problems, first_of
from .reading import inspect_datalist

logger = logging.getLogger(__name__)


@on_first_rank
def prepare_datalist(
    datalist: str | Path | Datalist,
    output: str | Path,
    allow_unlabelled: bool = False,
    pixdim: Sequence[float] = (),
) -> Datalist:
    """
    Load a datalist, look at every file of it, and write down what will be used.

    Args:
        datalist: a user's file, or a datalist.
        output: file the datalist is written to; its hash is logged.
        allow_unlabelled: whether the method can use training images without any label.
        pixdim: voxel size in mm of the network's grid, -1 where it stays as it is.

    Returns:
        the datalist.

    Raises:
        DataError: for every mistake in the list or its files, see :func:`~dcl_monai.check.check_datalist`; and for
            training images without a label, if the method cannot use them.
    """
    loaded = load_datalist(datalist) if isinstance(datalist, (str, Path)) else datalist.copy()
    unlabelled = [item["image"] for item in loaded["training"] if not annotations_of(item)]
    if unlabelled and not allow_unlabelled:
        raise DataError(
            f"{unlabelled[0]} ({len(unlabelled)} training image(s) in all) has no label. Only the dual loop "
            "(--dual true) and filling (--fill_weight 3) learn from such images: use one of them, or remove the images "
            "from the list."
        )
    # nothing can be measured on images without labels
    loaded["validation"] = [item for item in loaded["validation"] if annotations_of(item)]
    loaded["test"] = [item for item in loaded["test"] if annotations_of(item)]
    check_datalist(loaded, pixdim=pixdim)
    digest = write_datalist(loaded, output)
    counts = ", ".join(f"{len({item['subject'] for item in loaded[split]})} {split}" for split in SPLITS)
    logger.info(f"datalist {digest[:12]}: {counts} subjects, written to {output}")
    return loaded


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
        raise DataError(first_of(errors))
    for record in records:
        check_size(record.files.image, record.files.shape, record.files.spacing, pixdim)
    if problems:
        logger.warning(first_of(problems))
    return datalist
