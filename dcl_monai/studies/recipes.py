"""What a study trains: a recipe is a few overlays over the bundle, trained once, shown in as many tables as need it.

To add one, add a line to ``RECIPES`` and a :class:`~dcl_monai.studies.tables.Row` to a study that shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """
    A way to train.

    Args:
        overlays: files of ``configs/``, merged over the bundle's ``train.json`` in this order.
        settings: single ids that differ.
        teacher: overlays of a first training of half the budget, whose predictions complete the labels of the second
            (pseudo-labelling); the whole budget is the same.
        two_stages: whether it has a second stage; one without takes all epochs for its first.
    """

    overlays: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    teacher: tuple[str, ...] = ()
    two_stages: bool = True


def single_stage(*overlays: str, **settings: Any) -> Recipe:
    """A recipe without DualNet."""
    return Recipe(overlays, settings, two_stages=False)


RECIPES: dict[str, Recipe] = {
    # the paper's rows, as printed
    "paper_1": single_stage("paper/ablation_1.json"),
    "paper_2": single_stage("paper/ablation_2.json"),
    "paper_3": single_stage("paper/ablation_3.json"),
    "paper_4": single_stage("paper/ablation_4.json"),
    "paper_5": single_stage("paper/ablation_5.json"),
    "paper_6": Recipe(("paper/ablation_6.json",)),
    # the schedule of #6 without its loop: what of its gain is the second stage alone?
    "paper_restart": Recipe(("paper/ablation_6.json",), {"dual_weight": 0.0}),
    "paper_dcl_mmee": Recipe(("paper/dcl_mmee.json",)),
    # the same losses with our network, schedule and augmentation
    "conventional_ce": single_stage("baselines/conventional_ce.json"),
    "unet_p": single_stage("baselines/unet_p.json"),
    "compatible_ce": single_stage("baselines/compatible_ce.json"),
    # the default of the bundles, and without one of its parts: the dual loss, DualNet's filling of what nobody drew,
    # MMEE in stage 2, Dice of whole structures, everything that needs conditions
    "dcl": Recipe(),
    "no_dual": Recipe(settings={"dual_weight": 0.0}),
    "no_filling": Recipe(settings={"fill_weight": 0.0}),
    "no_mmee": Recipe(("losses/ce.json",)),
    "no_region": Recipe(settings={"region_weight": 0.0}),
    "self_training": Recipe(("self_training.json",)),
    "region": single_stage("region.json"),
    # other losses
    "ce_dice": single_stage("baselines/ce_dice.json"),
    "mmee": single_stage("baselines/mmee.json"),
    # other amounts of labels
    "dcl_full_20": Recipe(settings={"full_fraction": 0.2}),
    "dcl_full_40": Recipe(settings={"full_fraction": 0.4}),
    "dcl_full_60": Recipe(settings={"full_fraction": 0.6}),
    "dcl_full_80": Recipe(settings={"full_fraction": 0.8}),
    "dcl_full": Recipe(("full_annotation.json",)),
    "unet_f_sixth": single_stage("baselines/unet_f_few.json", full_fraction=1 / 6),
    "unet_f_few": single_stage("baselines/unet_f_few.json"),
    "unet_f": single_stage("baselines/unet_f.json"),
    # full labels with all that helps partial ones: Dice of whole structures; the default's two losses in two stages
    "unet_f_region": single_stage("region.json", annotation="full"),
    "unet_f_staged": Recipe(("self_training.json",), {"annotation": "full"}),
    # the strongest simple rivals, which the paper lacks
    "nnunet_ignore": single_stage("baselines/nnunet_ignore.json"),
    "pseudo": Recipe(("baselines/compatible_ce.json",), teacher=("baselines/compatible_ce.json",), two_stages=False),
}
