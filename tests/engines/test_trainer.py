from __future__ import annotations

import copy

import pytest
import torch
from monai.engines import SupervisedTrainer
from monai.handlers import from_engine
from monai.transforms import AddCoordinateChannelsd, Compose, CopyItemsd, GaussianSmoothd, RandAffined, RandAxisFlipd
from torch import nn

from dcl_monai.engines import DCLTrainer, dual_batch, warp
from dcl_monai.losses import (
    CompatibleLoss,
    ConditionalCompatibleLoss,
    ConventionalCELoss,
    FillLoss,
    class_probabilities,
    set_progress,
)
from dcl_monai.networks import CompNet

CLASSES, BATCH, SIZE = 3, 2, 8


def tiny_net(conditional: bool = True) -> CompNet:
    """A smooth network (finite differences need one), small enough for double precision."""

    class Smooth(nn.Module):
        def __init__(self, in_channels: int, out_channels: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(in_channels, 4, 3, padding=1, bias=False),
                nn.BatchNorm2d(4),
                nn.Tanh(),
                nn.Conv2d(4, out_channels, 1),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

    torch.manual_seed(0)
    return CompNet(Smooth, CLASSES, conditional=conditional, zero_conditions=False, divisor=1)


def make_batch(
    conditional: bool = True, dtype: torch.dtype = torch.float32, items: int = BATCH
) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(1)
    truth = torch.randint(0, CLASSES, (items, SIZE, SIZE), generator=rng)
    only = torch.arange(items) % CLASSES  # item i shows class i
    inside = truth == only[:, None, None]
    one_hot = nn.functional.one_hot(only, CLASSES).bool()[:, :, None, None]
    batch = {
        "image": torch.randn(items, 1, SIZE, SIZE, generator=rng, dtype=dtype),
        "label": torch.where(inside[:, None], one_hot, ~one_hot),
    }
    if conditional:
        mask = torch.rand(items, CLASSES, SIZE, SIZE, generator=rng) > 0.7
        chosen = torch.tensor([1, 2] * items)[:items]
        rows = torch.arange(items)
        picked = mask[rows, chosen]
        images = torch.randn(items, CLASSES, SIZE, SIZE, generator=rng, dtype=dtype)
        own = nn.functional.one_hot(chosen, CLASSES).bool()[:, :, None, None]
        batch |= {
            "cond_image": images,
            "cond_mask": mask,
            "cond_known": torch.ones_like(mask),
            "dual_class": chosen,
            "dual_apart": torch.ones(len(chosen), CLASSES, dtype=torch.bool),
            "dual_image": images[rows, chosen, None],
            "dual_label": torch.where(picked[:, None], own, ~own),
        }
    return batch


def make_trainer(
    network: nn.Module, loss: nn.Module, batches: list, dual: bool = False, **kwargs: object
) -> DCLTrainer:
    optimizer = torch.optim.SGD(network.parameters(), lr=kwargs.pop("lr", 0.1))
    trainer = DCLTrainer(
        device="cpu",
        max_epochs=1,
        train_data_loader=batches,
        network=network,
        optimizer=optimizer,
        loss_function=loss,
        dual_network=copy.deepcopy(network) if dual else None,
        **kwargs,
    )
    trainer.dual = dual
    return trainer


class TestDualBatch:
    def test_swaps_target_and_selected_condition(self):
        batch = make_batch()
        prob = torch.rand(BATCH, CLASSES, SIZE, SIZE)
        swapped = dual_batch(batch, prob)
        for i, s in enumerate(batch["dual_class"].tolist()):
            assert torch.equal(swapped["image"][i, 0], batch["cond_image"][i, s])
            assert torch.equal(swapped["cond_image"][i, s], batch["image"][i, 0])
            assert torch.equal(swapped["cond_mask"][i, s], prob[i, s])
            for j in set(range(CLASSES)) - {s}:
                assert torch.equal(swapped["cond_image"][i, j], batch["cond_image"][i, j])
                assert torch.equal(swapped["cond_mask"][i, j], batch["cond_mask"][i, j].float())
        assert torch.equal(swapped["label"], batch["dual_label"])

    def test_conditions_of_its_own_subject_are_blank(self):
        batch = make_batch()
        prob = torch.rand(len(batch["image"]), CLASSES, *batch["image"].shape[2:])
        s = int(batch["dual_class"][0])
        other = (s + 1) % CLASSES
        batch["dual_apart"][0, other] = False
        swapped = dual_batch(batch, prob)
        for key in ("cond_image", "cond_mask", "cond_known"):
            assert not swapped[key][0, other].any()
            assert swapped[key][0, s].any()

    def test_prediction_is_known_everywhere(self):
        batch = make_batch()
        batch["cond_known"] = torch.zeros_like(batch["cond_known"])
        swapped = dual_batch(batch, torch.rand(BATCH, CLASSES, SIZE, SIZE))
        for i, s in enumerate(batch["dual_class"].tolist()):
            known = swapped["cond_known"][i]
            assert known[s].all()
            assert not known[[j for j in range(CLASSES) if j != s]].any()

    def test_images_of_several_channels(self):
        batch = make_batch()
        batch["image"] = torch.randn(BATCH, 2, SIZE, SIZE)
        batch["cond_image"] = torch.randn(BATCH, 2 * CLASSES, SIZE, SIZE)
        batch["dual_image"] = torch.randn(BATCH, 2, SIZE, SIZE)
        swapped = dual_batch(batch, torch.rand(BATCH, CLASSES, SIZE, SIZE))
        s = int(batch["dual_class"][0])
        assert torch.equal(swapped["image"], batch["dual_image"])
        assert torch.equal(swapped["cond_image"][0, 2 * s : 2 * s + 2], batch["image"][0])


class TestGradient:
    @pytest.mark.parametrize("combination", ["ce", "ce+dice", "mmee"])
    def test_through_the_dual_path_equals_finite_differences(self, combination):
        """Eq. 10 by central differences in double precision, PrimNet's weights moved and DualNet's held."""
        network = tiny_net().double()
        loss = ConditionalCompatibleLoss(CLASSES, combination, averaging="sum")
        batch = make_batch(dtype=torch.float64)
        trainer = make_trainer(network, loss, [batch], dual=True, dual_weight=0.7)
        network.train()

        def objective(weights: dict[str, torch.Tensor]) -> torch.Tensor:
            logits = torch.func.functional_call(
                network, weights, (batch["image"], batch["cond_image"], batch["cond_mask"])
            )
            primal, dual = trainer.losses(logits, batch)
            return 0.3 * sum(primal.values()) + 0.7 * dual

        weights = {name: p.detach().clone().requires_grad_() for name, p in network.named_parameters()}
        gradients = dict(zip(weights, torch.autograd.grad(objective(weights), list(weights.values())), strict=True))
        step, checked = 1e-6, 0
        with torch.no_grad():
            for name, weight in weights.items():
                for index in range(0, weight.numel(), max(1, weight.numel() // 6)):
                    moved = {key: value.clone() for key, value in weights.items()}
                    moved[name].view(-1)[index] += step
                    above = objective(moved)
                    moved[name].view(-1)[index] -= 2 * step
                    slope = (above - objective(moved)) / (2 * step)
                    torch.testing.assert_close(gradients[name].view(-1)[index], slope, rtol=1e-4, atol=1e-7)
                    checked += 1
        assert checked > 20

    def test_dual_loss_reaches_primnet_and_not_dualnet(self):
        network = tiny_net()
        batch = make_batch()
        trainer = make_trainer(network, ConditionalCompatibleLoss(CLASSES), [batch], dual=True)
        _, dual = trainer.losses(network(batch["image"], batch["cond_image"], batch["cond_mask"]), batch)
        dual.backward()
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
        assert all(p.grad is None for p in trainer.dual_network.parameters())


class TestFill:
    @pytest.mark.parametrize("conditional", [True, False])
    def test_dualnet_teaches_what_is_unknown(self, conditional):
        """The loss is that of the labels plus the fill of DualNet's own prediction, which gets no gradient."""
        network = tiny_net(conditional)
        batch = make_batch(conditional)
        loss = (ConditionalCompatibleLoss if conditional else CompatibleLoss)(CLASSES, averaging="balanced")
        fill = FillLoss(CLASSES)
        trainer = make_trainer(network, loss, [batch], dual=True, dual_weight=0.0, fill_loss=fill)
        inputs = [batch[key] for key in ("image", "cond_image", "cond_mask") if key in batch]
        logits = network.train()(*inputs)
        primal, dual = trainer.losses(logits, batch)
        filled = class_probabilities(trainer.dual_network(*inputs), CLASSES)
        torch.testing.assert_close(primal["fill"], fill(logits, filled, batch["label"]))
        assert primal["fill"] > 0
        assert dual is None
        primal["fill"].backward()
        assert all(p.grad is None for p in trainer.dual_network.parameters())

    def test_dualnet_sees_the_plain_image(self):
        """Intensities and places are changed for PrimNet alone: DualNet fills by the image as it was, and moves it."""
        network, batch, fill = tiny_net(), make_batch(), FillLoss(CLASSES)
        batch["plain_image"] = batch["image"] + 1.0
        rows, columns = torch.meshgrid(*(torch.linspace(-0.5, 0.5, n) for n in batch["image"].shape[2:]), indexing="ij")
        grid = torch.stack([batch["image"][0, 0], rows.flip(0), columns])  # upside down
        batch["plain_grid"] = grid.expand(len(batch["image"]), -1, -1, -1)
        trainer = make_trainer(network, ConditionalCompatibleLoss(CLASSES), [batch], dual=True, fill_loss=fill)
        conditions = [batch["cond_image"], batch["cond_mask"]]
        logits = network.train()(batch["image"], *conditions)
        primal, _ = trainer.losses(logits, batch)
        filled = class_probabilities(trainer.dual_network(batch["plain_image"], *conditions), CLASSES)
        torch.testing.assert_close(primal["fill"], fill(logits, filled.flip(2), batch["label"]))

    def test_dualnet_sees_unmoved_conditions_with_the_unmoved_image(self):
        network, batch, fill = tiny_net(), make_batch(), FillLoss(CLASSES)
        batch["plain_image"] = batch["image"].flip(2)
        batch["plain_cond_image"], batch["plain_cond_mask"] = batch["cond_image"].flip(2), batch["cond_mask"].flip(2)
        trainer = make_trainer(network, ConditionalCompatibleLoss(CLASSES), [batch], dual=True, fill_loss=fill)
        logits = network.train()(batch["image"], batch["cond_image"], batch["cond_mask"])
        primal, _ = trainer.losses(logits, batch)
        unmoved = [batch[f"plain_{key}"] for key in ("image", "cond_image", "cond_mask")]
        filled = class_probabilities(trainer.dual_network(*unmoved), CLASSES)
        torch.testing.assert_close(primal["fill"], fill(logits, filled, batch["label"]))

    @pytest.mark.parametrize("size", [(40, 30), (20, 24, 16)])
    def test_what_was_predicted_moves_as_the_image_did(self, size):
        """Coordinates that MONAI's transforms moved with an image move the image itself to the same place."""
        dims = len(size)
        augment = Compose(
            [
                GaussianSmoothd("image", 2.0),
                CopyItemsd("image", 2, ["plain_image", "plain_grid"]),
                AddCoordinateChannelsd("plain_grid", list(range(dims))),
                RandAffined(
                    ["image", "plain_grid"],
                    prob=1.0,
                    rotate_range=[0.5] * dims,
                    scale_range=[0.2] * dims,
                    translate_range=[3] * dims,
                    padding_mode="border",
                ),
                RandAxisFlipd(["image", "plain_grid"], prob=1.0),
            ]
        ).set_random_state(0)
        data = augment({"image": torch.rand(1, *size)})
        moved = warp(data["plain_image"].as_tensor()[None], data["plain_grid"].as_tensor()[None])[0]
        torch.testing.assert_close(moved, data["image"].as_tensor(), atol=1e-5, rtol=0)
        assert (data["image"] - data["plain_image"]).abs().max() > 0.05

    def test_beside_the_closed_loop(self):
        trainer = make_trainer(
            tiny_net(), ConditionalCompatibleLoss(CLASSES), [make_batch()], dual=True, fill_loss=FillLoss(CLASSES)
        )
        trainer.run()
        (output,) = trainer.state.output
        primal = output["positive"] + output["negative"] + output["prior"] + output["fill"]
        torch.testing.assert_close(output["loss"], 0.8 * primal + 0.2 * output["dual"])

    def test_dualnet_is_not_asked_once_the_filling_has_faded_out(self):
        network, fill = tiny_net(conditional=False), FillLoss(CLASSES)
        set_progress(fill, 1.0)
        trainer = make_trainer(network, CompatibleLoss(CLASSES), [make_batch(False)], dual=True, fill_loss=fill)
        trainer.dual_network.forward = None  # a call would fail
        trainer.run()
        assert "fill" not in trainer.state.output[0]

    def test_not_in_stage_1(self):
        network = tiny_net(conditional=False)
        trainer = make_trainer(network, CompatibleLoss(CLASSES), [make_batch(False)], fill_loss=FillLoss(CLASSES))
        trainer.run()
        assert "fill" not in trainer.state.output[0]


class TestIteration:
    def test_trains_as_monai_does_when_the_dual_loop_is_off(self):
        """The same weights after a step as MONAI's own trainer with the same loss."""
        batch = make_batch(conditional=False)
        loss = CompatibleLoss(CLASSES, averaging="balanced")
        ours, theirs = tiny_net(conditional=False), tiny_net(conditional=False)
        make_trainer(ours, loss, [batch, batch]).run()
        SupervisedTrainer(
            device="cpu",
            max_epochs=1,
            train_data_loader=[batch, batch],
            network=theirs,
            optimizer=torch.optim.SGD(theirs.parameters(), lr=0.1),
            loss_function=loss,
            decollate=False,
        ).run()
        for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
            assert torch.equal(a, b)

    def test_dualnet_stays_put_and_in_evaluation_mode(self):
        network = tiny_net()
        trainer = make_trainer(network, ConditionalCompatibleLoss(CLASSES), [make_batch()] * 3, dual=True)
        before = copy.deepcopy(trainer.dual_network.state_dict())
        start = copy.deepcopy(network.state_dict())
        trainer.run()
        assert not trainer.dual_network.training
        for name, value in trainer.dual_network.state_dict().items():
            assert torch.equal(value, before[name]), name
        moved = [name for name, value in network.state_dict().items() if not torch.equal(value, start[name])]
        assert len(moved) == len(start)

    def test_output_holds_every_term(self):
        batch = make_batch()
        trainer = make_trainer(tiny_net(), ConditionalCompatibleLoss(CLASSES), [batch], dual=True, dual_weight=0.2)
        trainer.run()
        (output,) = trainer.state.output
        primal = output["positive"] + output["negative"] + output["prior"]
        torch.testing.assert_close(output["loss"], 0.8 * primal + 0.2 * output["dual"])
        assert output["pred"].shape == (BATCH, 2 * CLASSES, SIZE, SIZE)
        assert torch.equal(output["label"], batch["label"])

    def test_loss_without_terms(self):
        trainer = make_trainer(tiny_net(conditional=False), ConventionalCELoss(CLASSES), [make_batch(False)])
        trainer.run()
        (output,) = trainer.state.output
        torch.testing.assert_close(output["loss"], output["supervised"])
        assert from_engine(["loss"], first=True)(trainer.state.output) == output["loss"]  # as MONAI's trackers do

    def test_accumulated_steps_equal_one_large_batch(self):
        """As in the base class: k batches of n items move the weights like one batch of k n items."""
        network = tiny_net()
        network.backbone.body[1] = nn.Identity()  # batch statistics would see another batch
        other = copy.deepcopy(network)
        joint = make_batch(items=4)
        halves = [{key: value[:2] for key, value in joint.items()}, {key: value[2:] for key, value in joint.items()}]
        loss = ConditionalCompatibleLoss(CLASSES, averaging="balanced")
        make_trainer(network, loss, halves, dual=True, accumulation_steps=2).run()
        make_trainer(other, loss, [joint], dual=True).run()
        for a, b in zip(network.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)

    def test_dual_without_dualnet_is_refused(self):
        trainer = make_trainer(tiny_net(), ConditionalCompatibleLoss(CLASSES), [make_batch()])
        trainer.dual = True
        with pytest.raises(RuntimeError, match="no `dual_network`"):
            trainer.run()

    def test_bad_dual_weight(self):
        with pytest.raises(ValueError, match="between 0 and 1"):
            make_trainer(tiny_net(), ConditionalCompatibleLoss(CLASSES), [], dual_weight=1.5)

    def test_finished_run_is_not_started_again(self):
        network = tiny_net()
        trainer = make_trainer(network, ConditionalCompatibleLoss(CLASSES), [make_batch()])
        trainer.run()
        after = copy.deepcopy(network.state_dict())
        trainer.run()
        assert all(torch.equal(value, after[name]) for name, value in network.state_dict().items())


def test_learns_what_is_annotated():
    """A few hundred steps on two partial images: each item's annotated class is found in it."""
    torch.manual_seed(0)
    network = CompNet("BasicUNet", CLASSES, conditional=False, spatial_dims=2, features=(8,) * 6, norm="batch")
    loss = CompatibleLoss(CLASSES)
    set_progress(loss, 0.4)
    batch = make_batch(conditional=False)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    trainer = DCLTrainer("cpu", 1, [batch] * 60, network, optimizer, loss)
    trainer.run()
    prob = class_probabilities(network.eval()(batch["image"]), CLASSES)
    truth = batch["label"] & (batch["label"].sum(1, keepdim=True) == 1)
    for item in range(BATCH):
        found = prob[item].argmax(0) == item % CLASSES
        assert (found == truth[item, item % CLASSES]).float().mean() > 0.9
