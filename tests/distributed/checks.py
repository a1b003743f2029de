"""What must hold between ranks; `test_ranks.py` runs this file as two processes that are joined by gloo.

    python checks.py <folder>

Every check is called by both ranks at once. The folder gets a file per rank: name of the check -> error or None.
"""

from __future__ import annotations

import copy
import json
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import ignite.distributed as idist
import pytest
import torch
import torch.distributed as dist
from ignite.engine import Engine
from monai.bundle import ConfigParser
from monai.data import DataLoader, Dataset
from monai.engines import SupervisedEvaluator
from monai.handlers import from_engine
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dcl_monai.data import CandidateSampler
from dcl_monai.engines import DCLTrainer
from dcl_monai.handlers import (
    AverageBuffers,
    BestModel,
    ClipGradients,
    DCLEvents,
    DiceTable,
    EpochSeed,
    GradientRatio,
    History,
    PartialMeanDice,
    RunCheckpoint,
)
from dcl_monai.losses import set_progress
from dcl_monai.metrics import compute_partial_dice
from dcl_monai.utils import DataError
from dcl_monai.utils.distributed import gather, on_first_rank, rank_by_rank, shard

CLASSES, RANKS, ITEMS = 4, 2, 4
FEATURES = [4, 4, 8, 8, 8, 4]


def make_batch(conditional: bool, seed: int = 0) -> dict[str, torch.Tensor]:
    """The joint batch: of every item another share is known, so that no two weigh alike."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> torch.Tensor:
        return torch.rand(ITEMS, *shape, 32, 32, generator=generator)

    def candidates() -> torch.Tensor:
        sets = random(CLASSES) > torch.linspace(0.2, 0.7, ITEMS).reshape(-1, 1, 1, 1)
        sets[:, 0] |= ~sets.any(1)
        return sets

    batch = {"image": random(1), "label": candidates()}
    if conditional:
        batch |= {
            "cond_image": random(CLASSES),
            "cond_mask": random(CLASSES) > 0.5,
            "cond_known": random(CLASSES) > 0.1,
            "dual_class": torch.arange(ITEMS) % CLASSES,
            "dual_apart": torch.ones(ITEMS, CLASSES, dtype=torch.bool),
            "dual_image": random(1),
            "dual_label": candidates(),
        }
    return batch


def own_half(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: value.chunk(RANKS)[idist.get_rank()] for key, value in batch.items()}


def parse(row: int, norm: str = "instance") -> ConfigParser:
    parser = ConfigParser()
    parser.read_config(
        ["bundles/acdc/configs/train.json", f"configs/paper/ablation_{row}.json", "configs/multi_gpu.json"]
    )
    parser.update(
        {
            "num_classes": CLASSES,
            "channels": ["image"],
            "network_def#compnet#features": FEATURES,
            "network_def#compnet#norm": norm,
            "network_def#compnet#zero_conditions": False,  # conditions that are ignored give no dual gradient
            "network_def#compnet#condition_scale": 1.0,
        }
    )
    torch.manual_seed(0)
    return parser


def step(
    network: nn.Module,
    batches: list[dict[str, torch.Tensor]],
    loss: nn.Module,
    dualnet: nn.Module | None,
    **kwargs: Any,
) -> DCLTrainer:
    """Train without learning, so that the gradient of the last step is left."""
    optimizer = torch.optim.SGD(network.parameters(), lr=kwargs.pop("lr", 0.0))
    trainer = DCLTrainer("cpu", kwargs.pop("epochs", 1), batches, network, optimizer, loss, dualnet, **kwargs)
    trainer.dual = dualnet is not None
    trainer.run()
    return trainer


def gradient(network: nn.Module) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in network.parameters() if p.requires_grad])


def same_on_all_ranks(*tensors: torch.Tensor) -> bool:
    flat = torch.cat([tensor.detach().double().flatten() for tensor in tensors])
    gathered = idist.all_gather(flat.unsqueeze(0))
    return bool((gathered == gathered[0]).all())


def check_gradient_of_row(row: int) -> None:
    """The gradient of two ranks is that of one process with the joint batch; PrimNet runs once per step."""
    parser = parse(row)
    primnet, dualnet = parser.get_parsed_content("primnet"), parser.get_parsed_content("dualnet")
    assert (dualnet is not None) == (row == 6)
    loss = parser.get_parsed_content("loss")
    set_progress(loss, 0.4)  # halfway from the balanced mean to the sum
    batch = make_batch(primnet.conditional)
    joint, local = copy.deepcopy(primnet), copy.deepcopy(primnet)
    step(joint, [batch], loss, dualnet)
    step(local, [own_half(batch)], loss, dualnet)

    forwards: list[object] = []
    primnet.register_forward_hook(lambda *_: forwards.append(1))
    wrapped = parser.get_parsed_content("train#trainer#network")
    assert isinstance(wrapped, DistributedDataParallel)
    steps = 3  # a parameter without gradient would be noticed by the second
    step(wrapped, [own_half(batch)] * steps, loss, dualnet)
    assert len(forwards) == steps
    scale = gradient(joint).abs().max()
    assert scale > 1e-3
    assert (gradient(primnet) - gradient(joint)).abs().max() <= 1e-5 * scale
    assert (gradient(local) - gradient(joint)).abs().max() > 1e-2 * scale, "halves alike would prove nothing"
    if row == 6:
        plain = copy.deepcopy(joint)
        step(plain, [batch], loss, None)
        assert (gradient(plain) - gradient(joint)).abs().max() > 1e-2 * scale, "the dual pass must count"


def check_gradient_ratio() -> None:
    """The diagnostic is that of the joint batch, and DistributedDataParallel goes on after it."""
    parser = parse(6)
    primnet, dualnet = parser.get_parsed_content("primnet"), parser.get_parsed_content("dualnet")
    loss, batch = parser.get_parsed_content("loss"), make_batch(True)
    expected = step(copy.deepcopy(primnet), [batch], loss, dualnet, train_handlers=[GradientRatio()])
    trainer = step(
        parser.get_parsed_content("train#trainer#network"),
        [own_half(batch)],
        loss,
        dualnet,
        epochs=3,
        train_handlers=[GradientRatio()],
    )
    ratio = trainer.state.metrics["gradient_ratio"]
    torch.testing.assert_close(ratio, expected.state.metrics["gradient_ratio"], rtol=1e-4, atol=0)
    assert ratio > 1e-4


def check_one_network_with_batch_norm(folder: Path) -> None:
    """Clipped steps and averaged statistics leave one network; rank 0 alone writes the history."""
    parser = parse(6, norm="batch")
    primnet, dualnet = parser.get_parsed_content("primnet"), parser.get_parsed_content("dualnet")
    output = folder / f"history{idist.get_rank()}"
    step(
        parser.get_parsed_content("train#trainer#network"),
        [own_half(make_batch(True, seed)) for seed in range(3)],
        parser.get_parsed_content("loss"),
        dualnet,
        lr=1.0,
        epochs=2,
        train_handlers=[AverageBuffers(primnet), ClipGradients(0.1), History(str(output), [])],
    )
    statistics = [buffer for buffer in primnet.buffers() if buffer.is_floating_point()]
    assert statistics
    assert same_on_all_ranks(*primnet.parameters(), *statistics)
    torch.testing.assert_close(gradient(primnet).norm(), torch.tensor(0.1), rtol=1e-4, atol=0)  # it was clipped
    primnet(**{key: own_half(make_batch(True))[key] for key in ("image", "cond_image", "cond_mask")})
    assert not same_on_all_ranks(*statistics), "without averaging they differ"
    assert (output / "history.csv").exists() == (idist.get_rank() == 0)


def check_history_is_the_mean_over_ranks(folder: Path) -> None:
    parser = parse(3)
    history = History(str(folder / "mean"), [])
    trainer = step(
        parser.get_parsed_content("train#trainer#network"),
        [own_half(make_batch(False))],
        parser.get_parsed_content("loss"),
        None,
        train_handlers=[history],
    )
    own = float(trainer.state.output[0]["loss"])
    all_losses = idist.all_gather(own)
    assert all_losses[0] != all_losses[1]
    assert abs(history.rows[0]["loss"] - sum(all_losses) / RANKS) < 1e-6


def check_evaluation(folder: Path, volumes: int) -> None:
    """Every volume counts once, in its place, however many there are: uneven shards, and a rank without a volume."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(CLASSES, (volumes, 1, 8, 8), generator=generator)
    guess = torch.randint(CLASSES, (volumes, 1, 8, 8), generator=generator)

    def onehot(classes: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot(classes[0], CLASSES).movedim(-1, 0)

    def load(item: dict[str, Any]) -> dict[str, Any]:
        """As the bundle's transforms do, an image without label may be anything."""
        index = item["image"]
        known = onehot(truth[index]).bool() if "subject" in item else torch.ones(CLASSES, 8, 8, dtype=torch.bool)
        return item | {"image": onehot(guess[index]).float(), "label": known}

    items = [{"image": index, "subject": f"subject{index}"} for index in range(volumes)]
    path = folder / f"dice{volumes}_{idist.get_rank()}.csv"
    names = ["background", "A", "B", "C"]
    evaluator = SupervisedEvaluator(
        "cpu",
        DataLoader(Dataset(shard(items), load), batch_size=1),
        nn.Identity(),
        key_val_metric={"test_dice": PartialMeanDice(names, output_transform=from_engine(["pred", "label"]))},
        val_handlers=[DiceTable(names, str(path))],
    )
    evaluator.run()
    expected = compute_partial_dice(
        torch.stack([onehot(item) for item in guess]), torch.stack([onehot(item).bool() for item in truth])
    )[:, 1:]
    assert abs(evaluator.state.metrics["test_dice"] - float(expected.nanmean(0).mean())) < 1e-6
    torch.testing.assert_close(evaluator.state.metric_details["test_dice"][:volumes], expected, equal_nan=True)
    assert path.exists() == (idist.get_rank() == 0)
    if path.exists():
        lines = path.read_text().splitlines()[1:]
        cells = [f"subject{k},{','.join(f'{value:.6f}' for value in row)}" for k, row in enumerate(expected.tolist())]
        assert lines == cells


def check_shards() -> None:
    for total in range(8):
        items = [{"image": index, "label": index} for index in range(total)]
        gathered = gather(shard(items))
        assert gathered[:total] == items
        assert len(gathered) == (total if total != 1 else RANKS)
        assert all("label" not in item for item in gathered[total:])


def check_first_rank_works_for_all() -> None:
    called = []

    @on_first_rank
    def work(value: int) -> dict[str, int]:
        called.append(value)
        return {"value": value}

    assert work(idist.get_rank() + 5) == {"value": 5}
    assert called == ([5] if idist.get_rank() == 0 else [])

    @on_first_rank
    def fail() -> None:
        raise DataError("no such file.")

    with pytest.raises(DataError if idist.get_rank() == 0 else SystemExit):  # rank 0 tells the error
        fail()


def check_files_are_written_once(folder: Path) -> None:
    @rank_by_rank
    def write() -> str:
        if (folder / "data").exists():
            return "found"
        (folder / "data").touch()
        return "written"

    assert write() == ("written" if idist.get_rank() == 0 else "found")


def check_best_model_is_the_choice_of_rank_0() -> None:
    fired = []
    best = BestModel(nn.Linear(1, 1))
    for scores in ((0.5, 0.7), (0.6, 0.65), (0.55, 0.9)):
        engine = Engine(lambda *_: None)
        engine.state.metrics["val_dice"] = scores[idist.get_rank()]
        best.attach(engine)
        engine.add_event_handler(DCLEvents.NEW_BEST, lambda e: fired.append(best.score))
        engine.run([0])
    assert fired == [0.5, 0.6]


def check_checkpoint_is_read_by_rank_0_for_all(folder: Path) -> None:
    """Rank 1 has no file: it may be on another machine."""
    path = str(folder / f"checkpoint{idist.get_rank()}.pt")

    def make(resume: bool) -> tuple[DCLTrainer, nn.Module]:
        torch.manual_seed(int(resume))
        parser = parse(3)
        network = parser.get_parsed_content("primnet")
        wrapped = parser.get_parsed_content("train#trainer#network")
        optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
        checkpoint = RunCheckpoint(path, {"network": network, "optimizer": optimizer}, resume)
        batches = [own_half(make_batch(False))]
        loss = parser.get_parsed_content("loss")
        return DCLTrainer("cpu", 1, batches, wrapped, optimizer, loss, train_handlers=[checkpoint]), network

    trainer, trained = make(resume=True)
    assert trainer.state.epoch == 0, "nothing to resume yet"
    trainer.run()
    assert Path(path).exists() == (idist.get_rank() == 0)
    resumed, network = make(resume=True)
    assert resumed.state.epoch == 1
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), trained.parameters(), strict=True))
    if idist.get_rank() == 0:
        saved = torch.load(path, weights_only=True)
        assert saved["settings"] == {"processes": RANKS}


def check_ranks_share_the_draws_of_3d_training() -> None:
    """By the bundle's own sampler, which `multi_gpu.json` leaves alone: no draw twice, together as of one process."""
    items = [{"label": torch.full((1, 2), float(k % 2)), "sets": (0b0111, 0b1000)} for k in range(9)]
    parser = ConfigParser()
    parser.read_config(["bundles/mmwhs/configs/train.json", "configs/multi_gpu.json"])
    parser.update({"train#items": Dataset(items), "num_classes": CLASSES, "seed": 5})
    sampler = parser.get_parsed_content("train#sampler")
    for epoch in (1, 2):
        sampler.set_epoch(epoch)
        draws = idist.all_gather(torch.tensor(list(sampler)).unsqueeze(0))
        assert draws.shape == (RANKS, 4)
        alone = CandidateSampler(items, CLASSES, num_samples=8, seed=5, num_replicas=1, rank=0)
        alone.set_epoch(epoch)
        assert sorted(draws.flatten().tolist()) == sorted(alone)
        assert len(set(draws.flatten().tolist())) == 8


def check_seeds_differ_between_ranks_and_epochs() -> None:
    class Data:
        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    seed, engine = EpochSeed(0, Data()), Engine(lambda *_: None)
    draws = []
    for epoch in (1, 2):
        engine.state.epoch = epoch
        seed(engine)
        draws.append(torch.rand(1).item())
    assert len(set(gather(draws))) == 2 * RANKS


def checks(folder: Path) -> dict[str, Callable[[], None]]:
    return {
        **{f"gradient of row {row}": partial(check_gradient_of_row, row) for row in range(1, 7)},
        "gradient ratio": check_gradient_ratio,
        "one network with batch norm": partial(check_one_network_with_batch_norm, folder),
        "history is the mean": partial(check_history_is_the_mean_over_ranks, folder),
        **{f"evaluation of {n} volumes": partial(check_evaluation, folder, n) for n in (7, 2, 1)},
        "shards": check_shards,
        "first rank works for all": check_first_rank_works_for_all,
        "files are written once": partial(check_files_are_written_once, folder),
        "best model": check_best_model_is_the_choice_of_rank_0,
        "checkpoint": partial(check_checkpoint_is_read_by_rank_0_for_all, folder),
        "seeds": check_seeds_differ_between_ranks_and_epochs,
        "draws of 3D training": check_ranks_share_the_draws_of_3d_training,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    idist.sync()
    results: dict[str, str | None] = {}
    for name, check in checks(folder).items():
        try:
            check()
            results[name] = None
        except Exception:
            results[name] = traceback.format_exc()
        (folder / f"rank{dist.get_rank()}.json").write_text(json.dumps(results))
    dist.destroy_process_group()
