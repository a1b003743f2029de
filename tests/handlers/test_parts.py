"""Which structures are one piece, decided by validation patients."""

from __future__ import annotations

import pytest
import torch
from ignite.engine import Engine
from monai.handlers import from_engine

from dcl_monai.handlers import PartialMeanDice, SingleParts, largest_parts

CLASSES = ["background", "heart", "kidneys", "liver"]


def one_hot(labels: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(labels, len(CLASSES)).movedim(-1, 0)


@pytest.fixture
def case() -> dict[str, torch.Tensor]:
    """The heart has a stray part, the kidneys are two, the liver is as it should be."""
    truth = torch.zeros(20, 20, dtype=torch.long)
    truth[1:6, 1:6] = 1
    truth[10:13, 1:4] = truth[10:13, 8:11] = 2
    truth[15:18, 1:18] = 3
    pred = truth.clone()
    pred[1:3, 15:17] = 1
    return {"pred": one_hot(pred).float(), "label": one_hot(truth).bool()}


def test_of_every_structure_the_largest_part(case):
    (pred,), (label,) = largest_parts([case])
    assert torch.equal(pred[1].bool(), label[1])
    assert pred[2].sum() == 9
    assert torch.equal(pred[3].bool(), label[3])
    assert case["pred"][1].sum() == 29, "the prediction itself stays as it was"


class Saved:
    """Stands for SaveNetwork."""

    def __init__(self) -> None:
        self.settings: dict = {"classes": CLASSES}
        self.calls = 0

    def __call__(self, engine: Engine) -> None:
        self.calls += 1


@pytest.mark.parametrize("known", [CLASSES, ["background", "kidneys", "liver"]], ids=["all drawn", "no heart drawn"])
def test_decided_by_dice(case, known):
    for index, name in enumerate(CLASSES):
        if name not in known:  # nobody said what is heart and what is background
            unknown = case["label"][index] | case["label"][0]
            case["label"][index] = case["label"][0] = unknown
    engine = Engine(lambda engine, batch: [case])
    PartialMeanDice(CLASSES, output_transform=from_engine(["pred", "label"])).attach(engine, "val_dice")
    PartialMeanDice(CLASSES, output_transform=largest_parts).attach(engine, "single_dice")
    save = Saved()
    rule = SingleParts(CLASSES, save)
    rule.attach(engine)
    engine.run([0])
    expected = ["heart"] if "heart" in known else []
    assert rule.names == save.settings["single_parts"] == expected
    assert save.calls == 1
