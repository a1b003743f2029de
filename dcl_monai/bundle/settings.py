"""The numbers of a training, checked before anything is read or written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from dcl_monai.utils import DataError

Rate = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class TrainingSettings(BaseModel):
    """What a training can be run with."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    batch_size: PositiveInt
    iterations_per_epoch: PositiveInt | None
    stage1_epochs: PositiveInt
    stage2_epochs: NonNegativeInt
    val_interval: PositiveInt
    learning_rate: Rate
    stage2_learning_rate: Rate
    warmup_steps: NonNegativeInt
    max_gradient_norm: Rate | None
    dual_weight: Share
    bank_size: PositiveInt
    num_workers: NonNegativeInt
    cache_memory: Weight


def check_settings(**settings: Any) -> None:
    """
    Raise if a training cannot be run with these settings.

    Args:
        **settings: by the ids of ``train.json``, see :class:`TrainingSettings`.

    Raises:
        DataError: one line with the first setting that is wrong.
    """
    try:
        TrainingSettings(**settings)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        needed = first["msg"].replace("Input should be", "it must be")
        raise DataError(f"--{first['loc'][0]} is {first['input']!r}, but {needed}. Set another value.") from None
