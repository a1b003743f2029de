"""The rows of `configs/paper` are the method as printed; a departure from it makes a test here fail."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from monai.bundle import ConfigParser
from monai.transforms import RandAdjustContrastd, RandAffined, RandAxisFlipd

from dcl_monai.losses import CompatibleLoss, ConditionalCompatibleLoss, ConventionalCELoss
from dcl_monai.losses.averaging import SumMean
from dcl_monai.synthetic import write_synthetic_mmwhs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "configs" / "paper"
ROWS = sorted(path.stem for path in FOLDER.glob("*.json") if "scale" not in path.stem)
SCALES = sorted(path.stem for path in FOLDER.glob("*scale*.json"))
CONDITIONAL = ("ablation_4", "ablation_5", "ablation_6", "dcl_ce", "dcl_mmee")
DUAL = ("ablation_6", "dcl_ce", "dcl_mmee")


def content(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole_hearts(tmp_path_factory) -> Path:
    return write_synthetic_mmwhs(tmp_path_factory.mktemp("mmwhs"), 10, progress=False)


@pytest.fixture
def parse_row(parse, whole_hearts):
    """Parse a row of the paper, over bundles/acdc or bundles/mmwhs, small enough for a test."""

    def make(row: str, bundle: str = "acdc", **override: Any) -> ConfigParser:
        if bundle == "mmwhs":
            small = {"dataset_dir": str(whole_hearts), "split": [8, 1, 1], "pixdim": [8.0] * 3}
            small |= {"spatial_size": [16] * 3, "network_def#compnet#filters": [4, 4, 8, 8]}
            parser = parse(f"configs/paper/{row}.json", bundle=bundle, **small | override)
            del parser["network_def"]["compnet"]["features"]
            return parser
        return parse(f"configs/paper/{row}.json", bundle=bundle, **override)

    return make


def assert_as_printed(parser: ConfigParser, row: str) -> None:
    """Section 3 and "Implementation" of the paper, one assertion for each thing that it says."""
    get = parser.get_parsed_content
    network, trainer, loss = get("primnet"), get("train#trainer"), get("loss")
    conditional, dims = row in CONDITIONAL, parser["spatial_dims"]
    assert type(network.backbone).__name__ == ("UNetPlus" if dims == 2 else "DynUNet")
    assert network.conditional == conditional
    assert network.routing.numel() == 0, "2m logits straight from the backbone"
    assert network.condition_scale == 1.0
    assert (trainer.dual_network is not None) == (row in DUAL)

    dataset = get("train#conditional_dataset")
    if conditional:
        first = next(p for p in network.backbone.parameters() if p.dim() == dims + 2)
        assert first.shape[1] == 1 + 2 * network.num_classes
        assert first[:, 1:].abs().sum(0).flatten(1).sum(1).min() > 0, "ordinary initialisation"
        dataset.set_epoch(1)
        assert dataset[0]["cond_image"].any(), "conditions from the first step"
        assert dataset.pool == 1, "random conditions in training"
        bank = get("network").bank
        (fill,) = (k for k, step in enumerate(parser["training"]) if "fill_bank" in str(step))
        get(f"training#{fill}")  # as a training does first
        assert bank.valid.any()
        assert not bank.descriptors.any(), "random conditions at test"

    stages = [loss.stage1, loss.stage2] if conditional else [loss]
    for stage in stages:
        if row == "ablation_1":
            assert isinstance(stage, ConventionalCELoss)
            continue
        compatible = stage.compatible if conditional else stage
        assert isinstance(stage, ConditionalCompatibleLoss if conditional else CompatibleLoss)
        expected = "mmee" if row == "dcl_mmee" else "ce"
        wanted = CompatibleLoss(4, expected, negative=[] if row == "ablation_2" else None)
        assert (compatible.positive, compatible.negative) == (wanted.positive, wanted.negative)
        assert (compatible.positive_weight, compatible.negative_weight) == (1.0, 1.0)
        assert isinstance(compatible.averaging, SumMean)
        assert compatible.region_weight == 0.0
        if conditional:
            assert stage.prior_weight == (0.0 if row == "ablation_4" else 1.0)
            assert isinstance(stage.prior.averaging, SumMean)
    assert trainer.fill_loss.weight == 0.0
    assert trainer.dual_weight == (0.2 if row in DUAL else 0.0)

    handlers = [type(handler).__name__ for handler in get("train#handlers") + get("validate#handlers")]
    if row in DUAL:
        assert "DualWeightSync" in handlers, "DualNet is copied at each new best"
        assert "DualWeightAverage" not in handlers

    optimizer, scheduler = get("optimizer"), get("lr_scheduler")
    assert type(optimizer) is torch.optim.Adam
    (group,) = optimizer.param_groups
    assert group["weight_decay"] == 0.0
    steps = len(get("train#dataloader"))
    rates = [scheduler.lr_lambdas[0](step) * 0.01 for step in range(2 * steps)]
    later = 1e-4 if row in DUAL else 1e-2
    assert rates == pytest.approx([1e-2] * steps + [later] * steps), "constant rates, no warm-up"
    for handler in get("train#handlers"):
        if type(handler).__name__ == "ClipGradients":
            assert handler.max_norm is None

    transforms = dataset.transform.transforms
    assert {type(t) for t in transforms} == {RandAffined, RandAxisFlipd, RandAdjustContrastd}
    for transform in transforms:
        if isinstance(transform, RandAffined):
            affine = transform.rand_affine.rand_affine_grid
            assert affine.rotate_range
            assert not any(affine.shear_range or ())
            assert not any(affine.translate_range or ())
            assert not any(affine.scale_range or ())
            assert set(transform.keys) in ({"image", "label"}, {"cond_image", "cond_label"}), "each moves on its own"
        if isinstance(transform, RandAxisFlipd):
            assert transform.flipper.prob == 0.5 or transform.prob == 0.5
    assert not parser["largest_parts"], "no post-processing"


@pytest.mark.parametrize("bundle", ["acdc", "mmwhs"])
@pytest.mark.parametrize("row", ROWS)
def test_rows_are_as_printed(parse_row, row, bundle):
    assert_as_printed(parse_row(row, bundle), row)


NET = "network_def#compnet#"
DEPARTURES = {f"{NET}routing": True, f"{NET}zero_conditions": True, f"{NET}condition_scale": 0.1}
DEPARTURES |= {f"{NET}backbone": "BasicUNet", "plain_epochs": 1, "condition_choice": "similar", "cosine": True}
DEPARTURES |= {
    "warmup_steps": 3,
    "flip_prob": 0.0,
    "max_gradient_norm": 5.0,
    "largest_parts": True,
    "prior_weight": 0.1,
}
DEPARTURES |= {"dual_weight": 0.3, "dual_decay": 0.99, "fill_weight": 3.0, "region_weight": 1.0, "averaging": "anneal"}
DEPARTURES |= {"stage2_combination": "mmee", "learning_rate": 0.002, "stage2_learning_rate": 0.01}


@pytest.mark.parametrize("departure", DEPARTURES)
def test_a_departure_is_noticed(parse_row, departure):
    with pytest.raises(AssertionError):
        assert_as_printed(parse_row("ablation_6", **{departure: DEPARTURES[departure]}), "ablation_6")


def test_rows_differ_in_what_they_are_there_for_alone():
    rows = {name: content(name) for name in ROWS}
    own = {"conditional", "dual", "loss", "prior_weight", "combination", "stage2_learning_rate"}
    shared = [{key: value for key, value in row.items() if key not in own} for row in rows.values()]
    assert all(row == shared[0] for row in shared)
    assert rows["dcl_ce"] == rows["ablation_6"]


def test_method_and_scale_set_different_ids():
    """So their order on the command line does not matter."""
    for row, scale in itertools.product(ROWS, SCALES):
        assert not content(row).keys() & content(scale).keys()


@pytest.mark.parametrize("order", [("paper_scale", "ablation_6"), ("ablation_6", "paper_scale")])
def test_paper_scale(order):
    parser = ConfigParser()
    parser.read_config(["bundles/acdc/configs/train.json", *(FOLDER / f"{name}.json" for name in order)])
    assert parser["pixdim"] == [1.37, 1.37, -1]
    assert parser["spatial_size"] == [212, 212, -1]
    assert (parser["stage1_epochs"], parser["stage2_epochs"]) == (200, 50)
    assert parser["network_def"]["compnet"]["features"][:5] == [64, 128, 256, 512, 1024]
    assert parser["prior_weight"] == 1.0


def test_paper_scale_in_3d(parse_row):
    network = {key: value for key, value in content("paper_scale_3d").items() if "#" in key}
    parser = parse_row("ablation_6", "mmwhs", **network | {"network_def#compnet#filters": [4] * 5})
    network = parser.get_parsed_content("primnet")
    assert network.eval()(*(torch.zeros(1, c, 32, 32, 32) for c in (1, 8, 8))).shape == (1, 16, 32, 32, 32)
