"""How much training fits into a time, measured on the first steps of both stages by the data and network of the run."""

from __future__ import annotations

import copy
import json
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from ignite.engine import Events
from torch.utils.data import DataLoader, RandomSampler

from dcl_monai.data import ConditionalDataset
from dcl_monai.engines import DCLTrainer
from dcl_monai.handlers import Schedule
from dcl_monai.networks import CompNet, DCLNet
from dcl_monai.utils import DataError, as_bool
from dcl_monai.utils.distributed import on_first_rank
from dcl_monai.utils.files import write_atomic
from dcl_monai.utils.provenance import STARTED
from dcl_monai.utils.tables import read_table

logger = logging.getLogger(__name__)

SHARE = 0.3
"""Part of the epochs that is stage 1, as in the schedule of the bundles."""
LEAST = 25
"""Steps of either stage, and of an epoch, below which nothing is learned."""
MOST_EPOCHS = 60
VALIDATING = 0.2
"""Part of the time that validation may take."""
FOLLOWING = 5.0
"""Seconds of pictures and tables at the end."""
MEASURED = 4
"""Steps that are timed, after one that is not."""
SOME = 3
"""Validation volumes that are timed."""
OVERHEAD = 1.3
"""A volume's validation over its prediction: Dice, loading."""
TESTING = 1.5
"""A test over a validation of the same volume: it is brought back to its own grid."""


@on_first_rank
def fit_schedule(
    minutes: float,
    output_dir: str,
    dataset: ConditionalDataset,
    batch_size: int,
    network: DCLNet,
    trainer: Callable[..., DCLTrainer],
    inferer: Callable[..., torch.Tensor],
    validation: Sequence[Any],
    tested: Sequence[Any],
    resume: bool | str = False,
    dual_network: CompNet | None = None,
) -> Schedule:
    """
    Measure the first steps, and choose epochs that end in time. Nothing of the run itself is changed.

    Args:
        minutes: time of the whole run, from its start until the end of its test.
        output_dir: folder of the run; ``schedule.json`` is written to it, and read by a run that is resumed.
        dataset: training data, whose first epoch alone is without conditions.
        batch_size: items per step.
        network: the network with its bank; a copy is trained.
        trainer: makes a trainer of ``network``, ``optimizer``, ``dual_network``, ``train_data_loader``, ``max_epochs``
            and ``epoch_length``.
        inferer: that of validation.
        validation: preprocessed validation volumes.
        tested: test volumes; only their number is used.
        resume: whether the run is resumed: it goes on with the schedule that it began with.
        dual_network: DualNet.

    Raises:
        DataError: when the time is too short; it says what the least is.
    """
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)) or not 0 < minutes < 1e6:
        raise DataError(f"--minutes {minutes}: give a number of minutes, such as --minutes 30.")
    path = Path(output_dir) / "schedule.json"
    if as_bool(resume) and path.is_file():
        return resumed(path, Path(output_dir) / "history.csv", 60.0 * minutes)
    primnet = copy.deepcopy(network.compnet)
    steps = measure_steps(primnet, copy.deepcopy(dual_network), dataset, batch_size, trainer)
    volume = measure_volume(network, inferer, validation)
    validating = volume * len(validation) * (2 if dataset.conditional else 1)
    after = volume * (len(validation) + TESTING * len(tested)) + FOLLOWING
    now = time.monotonic()
    least = LEAST * sum(steps) + 2 * validating
    left = STARTED + 60.0 * minutes - now - after
    if left < least:
        parts = (now - STARTED, least, after)
        begun, training, ending = (f"{seconds / 60:.1f}" for seconds in parts)
        raise DataError(
            f"--minutes {minutes:g} is too short. At least {1.1 * sum(parts) / 60:.1f} are needed here: {begun} "
            f"until training starts, {training} for {LEAST} steps of each stage and two validations, {ending} for the "
            "test."
        )
    stage1, stage2, iterations = divide_time(left, steps, validating)
    seconds = (iterations * steps[0] + validating, iterations * steps[1] + validating, after)
    logger.info(
        f"--minutes {minutes:g}: {stage1} + {stage2} epochs of {iterations} steps. Measured: {steps[0]:.2f} s for a "
        f"step of stage 1, {steps[1]:.2f} s of stage 2, {validating:.0f} s for a validation."
    )
    schedule = Schedule(stage1, stage2, iterations, seconds, STARTED + 60.0 * minutes)
    write_atomic(path, json.dumps(asdict(schedule), indent=2) + "\n")
    return schedule


def divide_time(left: float, steps: tuple[float, float], validating: float) -> tuple[int, int, int]:
    """
    Divide the time between the stages, and between training and validation.

    Args:
        left: seconds for training and its validations.
        steps: seconds of a step of either stage.
        validating: seconds of a validation, which ends every epoch.

    Returns:
        epochs of stage 1 and of stage 2, and steps of an epoch.
    """
    shared = SHARE * steps[0] + (1 - SHARE) * steps[1]
    # few where a validation takes long, and so that an epoch has some steps
    epochs = min(VALIDATING * left / max(validating, 1e-3), left / (LEAST * shared + validating), MOST_EPOCHS)
    stage1 = max(1, round(SHARE * epochs))
    stage2 = max(1, round(epochs) - stage1)
    each = (left - (stage1 + stage2) * validating) / (stage1 * steps[0] + stage2 * steps[1])
    return stage1, stage2, max(1, int(each))


def measure_steps(
    primnet: CompNet,
    dualnet: CompNet | None,
    dataset: ConditionalDataset,
    batch_size: int,
    trainer: Callable[..., DCLTrainer],
) -> tuple[float, float]:
    """Seconds of a step of stage 1 and of one of stage 2; the networks are trained by it."""
    optimizer = torch.optim.Adam(primnet.parameters())
    seconds = []
    for stage in (1, 2):
        sampler = RandomSampler(dataset, replacement=True, num_samples=batch_size * (MEASURED + 1))
        loader = DataLoader(dataset, batch_size, sampler=sampler)
        dataset.set_epoch(stage)
        engine = trainer(
            network=primnet,
            optimizer=optimizer,
            dual_network=dualnet,
            train_data_loader=loader,
            max_epochs=1,
            epoch_length=MEASURED + 1,
        )
        engine.dual = stage == 2 and dualnet is not None
        times: list[float] = []
        engine.add_event_handler(Events.GET_BATCH_STARTED, lambda _, times=times: times.append(time.monotonic()))
        engine.add_event_handler(Events.EPOCH_COMPLETED, lambda _, times=times: times.append(time.monotonic()))
        engine.run()
        # the first step warms up
        seconds.append((times[-1] - times[1]) / (len(times) - 2))
    return seconds[0], seconds[1]


def measure_volume(network: DCLNet, inferer: Callable[..., torch.Tensor], volumes: Sequence[Any]) -> float:
    """Mean seconds of a validation volume, by a few of them."""
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    some = range(0, len(volumes), max(1, len(volumes) // SOME))[:SOME]
    begun = time.monotonic()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bank is filled later
        for index in some:
            inferer(volumes[index]["image"][None].to(device), network).cpu()
    network.train(training)
    return OVERHEAD * (time.monotonic() - begun) / max(1, len(some))


def resumed(path: Path, history: Path, seconds: float) -> Schedule:
    """The schedule of a run that goes on, and a deadline by the part that is left of it."""
    values = json.loads(path.read_text(encoding="utf-8"))
    schedule = Schedule(**{**values, "seconds": tuple(values["seconds"])})
    part = 1 - min(1.0, len(read_table(history)) / schedule.epochs)
    return replace(schedule, deadline=STARTED + part * seconds)
