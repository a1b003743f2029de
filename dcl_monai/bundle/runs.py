"""A folder for every training of a bundle, and the way of its model into the bundle."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path

import ignite.distributed as idist

from dcl_monai.networks import load_model
from dcl_monai.utils.distributed import on_first_rank
from dcl_monai.utils.files import copy_atomic

logger = logging.getLogger(__name__)


@on_first_rank
def run_folder(bundle_root: str) -> str:
    """
    Make a new folder, ``runs/<time>`` of the bundle; two trainings never get the same one.

    Args:
        bundle_root: folder of the bundle.
    """
    time = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in count(1):
        folder = Path(bundle_root) / "runs" / (time if number == 1 else f"{time}-{number}")
        with suppress(FileExistsError):  # another training started in the same second
            folder.mkdir(parents=True)
            break
    return str(folder)


def install_model(source: str, model_file: str) -> None:
    """
    Put the best model of a training that is complete in its place, in one step.

    Args:
        source: the model, in the folder of the training.
        model_file: where the bundle's other commands look for it.
    """
    if idist.get_rank() == 0 and Path(source).resolve() != Path(model_file).resolve():
        load_model(source)  # one that cannot be used does not replace one that can
        copy_atomic(source, model_file)
        logger.info(f"best model of this training: {source}, copied to {model_file}")
