"""What a study trains: a recipe is a few overlays over the bundle, trained once, shown in as many tables as need it.

To add one, add a line to ``RECIPES`` and a :class:`~dcl_monai.studies.tables.Row` to a study that shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dcl_monai
from dcl_monai.utils import DataError

__all__ = ["RECIPES", "Recipe", "repository"]


@dataclass(frozen=True)
class Recipe:
    """
    A way to train.

    Args:
        overlays: files of ``configs/``, merged over the bundle's ``train.json`` in this order.
        settings: single ids that differ.
        teacher: overlays of a first training of half the budget, whose predictions complete the labels of the second
            (pseudo-labelling); the whole budget is the same.
        stage2: the part of the budget that stage 2 takes, where it is not that of the study.
    """

    overlays: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    teacher: tuple[str, ...] = ()
    stage2: float | None = None


RECIPES: dict[str, Recipe] = {
    # compatibility, step by step
    "conventional_ce": Recipe(("ablation/1.json",)),
    "unet_p": Recipe(("baselines/unet_p.json",)),
    "compatible_ce": Recipe(("ablation/3.json",)),
    "conditions": Recipe(("ablation/4.json",)),
    "prior": Recipe(("ablation/5.json",)),
    "dcl_ce": Recipe(("ablation/6.json",)),
    # other losses
    "dcl_ce_dice": Recipe(("losses/ce_dice.json",)),
    "dcl_mmee": Recipe(("losses/mmee.json",)),
    "ce_dice": Recipe(("baselines/ce_dice.json",)),
    "mmee": Recipe(("baselines/mmee.json",)),
    # other amounts of labels
    "dcl_full_20": Recipe((), {"full_fraction": 0.2}),
    "dcl_full_40": Recipe((), {"full_fraction": 0.4}),
    "dcl_full_60": Recipe((), {"full_fraction": 0.6}),
    "dcl_full_80": Recipe((), {"full_fraction": 0.8}),
    "dcl_full": Recipe(("full_annotation.json",)),
    "unet_f_few": Recipe(("baselines/unet_f_few.json",)),
    "unet_f": Recipe(("baselines/unet_f.json",)),
    # the strongest simple rivals, which the paper lacks
    "nnunet_ignore": Recipe(("baselines/nnunet_ignore.json",)),
    "pseudo": Recipe(("ablation/3.json",), teacher=("ablation/3.json",)),
    # ours: DualNet fills what nobody drew
    "self_training": Recipe(("self_training.json",), stage2=0.5),
}


def repository() -> Path:
    """
    The checkout with ``bundles/`` and ``configs/``, which an installation without them lacks.

    Raises:
        DataError: when there is none.
    """
    root = Path(dcl_monai.__file__).resolve().parents[1]
    if not (root / "configs").is_dir() or not (root / "bundles").is_dir():
        raise DataError(
            f"{root}: has no bundles/ and configs/, which studies need: clone the project, pip install -e ."
        )
    return root
