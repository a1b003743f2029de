"""Every overlay of `configs/`: a step of training, and what the overlay is there for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from monai.utils import set_determinism

from dcl_monai.datalist.items import decided_classes
from dcl_monai.handlers import GradientRatio
from dcl_monai.losses.terms import NEGATIVE, POSITIVE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COMPATIBLE, PAPER = {"positive", "negative"}, {"positive", "negative", "prior", "dual"}
FULL = PAPER | {"fill", "region"}

# overlay -> terms of the loss, conditions used, DualNet in stage 2, annotated classes per training image
EXPECTED = {
    "losses/ce.json": (FULL, True, True, 1),
    "losses/ce_dice.json": (FULL, True, True, 1),
    "losses/mmee.json": (FULL, True, True, 1),
    "paper/ablation_1.json": ({"supervised"}, False, False, 1),
    "paper/ablation_2.json": ({"positive"}, False, False, 1),
    "paper/ablation_3.json": (COMPATIBLE, False, False, 1),
    "paper/ablation_4.json": (COMPATIBLE, True, False, 1),
    "paper/ablation_5.json": (COMPATIBLE | {"prior"}, True, False, 1),
    "paper/ablation_6.json": (PAPER, True, True, 1),
    "paper/dcl_ce.json": (PAPER, True, True, 1),
    "paper/dcl_mmee.json": (PAPER, True, True, 1),
    "paper/cpu_scale.json": (FULL, True, True, 1),
    "paper/paper_scale.json": (FULL, True, True, 1),
    "baselines/conventional_ce.json": ({"supervised"}, False, False, 1),
    "baselines/compatible_ce.json": (COMPATIBLE, False, False, 1),
    "baselines/unet_p.json": ({"positive"}, False, False, 1),
    "baselines/ce_dice.json": ({"positive"}, False, False, 1),
    "baselines/unet_f.json": (COMPATIBLE, False, False, 4),
    "baselines/unet_f_few.json": (COMPATIBLE, False, False, 4),
    "baselines/mmee.json": (COMPATIBLE, False, False, 1),
    "baselines/nnunet_ignore.json": ({"supervised"}, False, False, 1),
    "region.json": (COMPATIBLE | {"region"}, False, False, 1),
    "self_training.json": (COMPATIBLE | {"fill", "region"}, False, True, 1),
    "full_annotation.json": (FULL, True, True, 1),
    "channels_last.json": (FULL, True, True, 1),
    "compile.json": (FULL, True, True, 1),
}
PARTS = {
    "losses/ce.json": (("ce",), ("ce",)),
    "losses/ce_dice.json": (("ce", "dice"), ("ce", "dice")),
    "losses/mmee.json": (("ta_ce", "ta_dice"), ("ex_ce", "ex_dice")),
    "baselines/compatible_ce.json": (("ce",), ("ce",)),
    "baselines/unet_p.json": (("ce",), ()),
    "baselines/ce_dice.json": (("ce", "dice"), ()),
    "baselines/mmee.json": (("ta_ce", "ta_dice"), ("ex_ce", "ex_dice")),
}
# Inductor takes minutes on a CPU: what is tested is that the network and the trainer can be captured.
CAPTURE = {"train#trainer#compile_kwargs": {"backend": "aot_eager"}}
OVERRIDE = {"compile.json": CAPTURE}


def stages_of(loss):
    """The compatible part of the loss of each stage."""
    stages = [loss.stage1, loss.stage2] if hasattr(loss, "stage1") else [loss]
    return [getattr(stage, "compatible", stage) for stage in stages]


def parts_of(loss):
    names = [{part: name for name, part in parts.items()} for parts in (POSITIVE, NEGATIVE)]
    return tuple(names[0][part] for part in loss.positive), tuple(names[1][part] for part in loss.negative)


def averages_of(loss):
    return {type(stage.averaging).__name__ for stage in stages_of(loss)}


def test_every_overlay_is_expected():
    found = {str(path.relative_to(ROOT / "configs")) for path in (ROOT / "configs").rglob("*.json")}
    # these need several processes (see tests/distributed), a trained model (see tests/cli/test_study.py), 3D data, a
    # budget of minutes, a fold or an export (see tests/bundle)
    elsewhere = {"multi_gpu.json", "relabel.json", "torch_export.json"}
    elsewhere |= {"paper/paper_scale_3d.json", "minutes.json", "fold.json"}
    assert found - elsewhere == set(EXPECTED)


@pytest.mark.parametrize("overlay", EXPECTED)
def test_step(parse, overlay):
    terms, conditions, dual, annotated = EXPECTED[overlay]
    parser = parse(f"configs/{overlay}", **OVERRIDE.get(overlay, {}))
    trainer = parser.get_parsed_content("train#trainer")
    network = parser.get_parsed_content("primnet")
    assert network.conditional == conditions
    assert (trainer.dual_network is not None) == dual

    trainer.dual = dual
    before = [p.detach().clone() for p in network.parameters()]
    batch = next(iter(trainer.data_loader))
    trainer.state.iteration = 1
    trainer.state.output = {}
    (output,) = trainer._iteration(trainer, batch)
    assert {name for name in output if name not in ("image", "label", "pred", "loss")} == terms
    assert torch.isfinite(output["loss"])
    assert any(not torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    assert ("cond_image" in batch) == conditions

    training = parser.get_parsed_content("datalist")["training"]
    assert {len(decided_classes(item, 4)) for item in training} == {annotated}
    full = (batch["label"].sum(1) == 1).all()
    assert bool(full) == (annotated == 4), "labels seen by the loss"


@pytest.mark.parametrize("overlay", PARTS)
def test_parts_of_the_loss(parse, overlay):
    loss = parse(f"configs/{overlay}").get_parsed_content("loss")
    assert {parts_of(stage) for stage in stages_of(loss)} == {PARTS[overlay]}


@pytest.mark.parametrize("overlay", ["full_annotation.json", "self_training.json"])
def test_stage_2_has_a_loss_of_its_own(parse, overlay):
    loss = parse(f"configs/{overlay}").get_parsed_content("loss")
    assert [parts_of(stage) for stage in stages_of(loss)] == [PARTS["losses/ce.json"], PARTS["losses/mmee.json"]]


def test_full_annotation_as_several_partial_images(parse):
    """Each training volume is listed once for every class, and so is seen in full."""
    training = parse("configs/full_annotation.json").get_parsed_content("datalist")["training"]
    by_image: dict[str, list[int]] = {}
    for item in training:
        by_image.setdefault(item["image"], []).extend(item["annotated"])
    assert all(sorted(classes) == [0, 1, 2, 3] for classes in by_image.values())


def test_switches_given_as_words(parse):
    """MONAI's command line passes `false` on as a string."""
    parser = parse(dual="false", conditional="true")
    assert parser.get_parsed_content("dualnet") is None
    assert parser.get_parsed_content("primnet").conditional is True


def test_channels_last(parse):
    """The weights' layout decides that of all activations; DualNet has it, too."""
    for overlays, last in (["configs/channels_last.json"], True), ([], True), (["configs/compile.json"], False):
        parser = parse(*overlays)  # the default on a CPU
        for name in ("primnet", "dualnet"):
            weights = [p for p in parser.get_parsed_content(name).parameters() if p.dim() == 4]
            assert weights
            assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights) == last


def test_compiled_training_is_that_of_the_plain_network(parse):
    """Loss and diagnostic of the first steps, in stage 2."""
    config = json.loads((ROOT / "configs" / "compile.json").read_text(encoding="utf-8"))
    assert config["train#trainer#compile_kwargs"] == {"options": {"layout_optimization": False}}
    found = []
    for overlays, override in (([], {}), (["configs/compile.json"], CAPTURE)):
        set_determinism(0)
        parser = parse(*overlays, **override, **{"network_def#compnet#zero_conditions": False, "plain_epochs": 0})
        trainer = parser.get_parsed_content("train#trainer")
        assert hasattr(trainer.network, "_orig_mod") == bool(overlays)
        trainer.dual, trainer.state.output = True, {}
        trainer.state.batch = next(iter(trainer.data_loader))
        losses = [float(trainer._iteration(trainer, trainer.state.batch)[0]["loss"]) for _ in range(2)]
        GradientRatio()(trainer)
        found.append([*losses, trainer.state.metrics["gradient_ratio"]])
    assert found[0][2] > 0
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.mark.parametrize("iterations", [3, 50])
def test_iterations_per_epoch(parse, iterations):
    """More than the images give, and fewer: each is drawn equally often, or once more."""
    parser = parse("configs/baselines/compatible_ce.json", iterations_per_epoch=iterations)
    loader = parser.get_parsed_content("train#dataloader")
    assert len(loader) == iterations
    drawn = Counter(draw % len(loader.dataset) for draw in loader.sampler)
    assert sum(drawn.values()) == 4 * iterations
    assert max(drawn.values()) - min(drawn.get(k, 0) for k in range(len(loader.dataset))) <= 1


def test_an_epoch_is_all_images_by_default(parse):
    loader = parse("configs/baselines/compatible_ce.json").get_parsed_content("train#dataloader")
    assert len(loader) == len(loader.dataset) // 4
    assert sorted(loader.sampler) == list(range(len(loader.dataset)))


@pytest.mark.parametrize(("overlays", "allowed"), [(["self_training"], True), ([], True), (["region"], False)])
def test_unlabelled_images_where_filling_or_the_dual_loop_learn_from_them(parse, overlays, allowed):
    parser = parse(*(f"configs/{name}.json" for name in overlays))
    assert parser.get_parsed_content("data", instantiate=False).get_config()["allow_unlabelled"] == allowed
