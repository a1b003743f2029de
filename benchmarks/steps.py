"""Cost of a training step, as ratios from one run.

    python benchmarks/steps.py

Everything is measured in turns on the same tensors, laid out in memory as in a training. A ratio is that of the fastest
turns, which say least about what else the machine does; on a CPU, times are those of the processor.

- a primal step against one of MONAI's SupervisedTrainer with DiceCELoss on the same network and tensors (limit 1.10);
- a dual step against a primal step (limit 1.8; one forward and an activation-only backward more make 5/3);
- the loss alone, forward and backward, against DiceCELoss, in both stages of the default.

``--classes 8 32 64`` takes other numbers of classes; the network's first and last layer grow with them.
"""

from __future__ import annotations

import argparse
import copy
import resource
import time
from collections.abc import Callable

import torch
from monai.engines import SupervisedTrainer
from monai.losses import DiceCELoss

from dcl_monai.engines import DCLTrainer
from dcl_monai.losses import ConditionalCompatibleLoss
from dcl_monai.networks import CompNet


def make_batch(items: int, size: int, device: torch.device, classes: int = 4) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    # Structures in one piece, as real ones are: a ring per class around the centre.
    axis = torch.linspace(-1.0, 1.0, size)
    radius = (axis[:, None] ** 2 + axis**2).sqrt()
    truth = (classes * (1.0 - 1.5 * radius)).clamp(0, classes - 1).long().expand(items, 1, -1, -1).contiguous()
    own = (torch.arange(classes) == torch.arange(items)[:, None] % classes)[:, :, None, None]
    inside = (truth == (torch.arange(items) % classes)[:, None, None, None]).expand(-1, classes, -1, -1)
    mask = torch.nn.functional.one_hot(truth[:, 0], classes).movedim(-1, 1).bool()
    label = torch.where(inside, own, ~own)
    batch = {
        "image": torch.randn(items, 1, size, size),
        "truth": truth,
        "label": label,
        "cond_image": torch.randn(items, classes, size, size),
        "cond_mask": mask,
        "cond_known": torch.ones_like(mask),
        "dual_class": torch.arange(items) % classes,
        "dual_apart": torch.ones(items, classes, dtype=torch.bool),
        "dual_image": torch.randn(items, 1, size, size),
        "dual_label": label.flip(0),
    }
    # laid out as a loader does it
    return {key: value.contiguous().to(device) for key, value in batch.items()}


def timed(function: Callable[[], object], device: torch.device) -> float:
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    start = clock()
    function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--classes", type=int, nargs="+", default=[4])
    arguments = parser.parse_args()
    for classes in arguments.classes:
        measure(classes, arguments.batch, arguments.size, arguments.turns)


def measure(classes: int, items: int, size: int, turns: int) -> None:
    """Print times and ratios for a number of classes."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # as in the bundles
    layout = torch.channels_last if device.type == "cpu" else torch.contiguous_format
    network = CompNet(
        "BasicUNet", classes, spatial_dims=2, features=(16, 16, 32, 64, 128, 16), norm="batch", zero_conditions=False
    ).to(device, memory_format=layout)
    batch = make_batch(items, size, device, classes)
    dice_ce = DiceCELoss(softmax=True, to_onehot_y=True)
    # as in bundles/acdc
    loss, later = (ConditionalCompatibleLoss(classes, name, 0.1, region_weight=1.0) for name in ("ce", "mmee"))

    def trainer(dual: bool) -> DCLTrainer:
        own = copy.deepcopy(network)
        made = DCLTrainer(device, 1, [batch], own, torch.optim.Adam(own.parameters()), loss, copy.deepcopy(own))
        made.dual = dual
        return made

    def stock_batch(data: dict[str, torch.Tensor], *_: object) -> tuple:
        conditions = {"cond_image": data["cond_image"], "cond_mask": data["cond_mask"]}
        return data["image"], data["truth"], (), conditions

    plain_network = copy.deepcopy(network)
    plain = SupervisedTrainer(
        device,
        1,
        [batch],
        plain_network,
        torch.optim.Adam(plain_network.parameters()),
        dice_ce,
        prepare_batch=stock_batch,
        decollate=False,
    )
    primal, dual = trainer(False), trainer(True)
    logits = torch.randn(items, 2 * classes, size, size, device=device)
    logits = logits.contiguous(memory_format=layout).requires_grad_()
    measured = {
        "plain step": lambda: plain._iteration(plain, batch),
        "primal step": lambda: primal._iteration(primal, batch),
        "dual step": lambda: dual._iteration(dual, batch),
        "DiceCELoss": lambda: dice_ce(logits, batch["truth"]).backward(),
        "loss of stage 1": lambda: loss(logits, batch["label"], batch["cond_mask"], batch["cond_known"]).backward(),
        "loss of stage 2": lambda: later(logits, batch["label"], batch["cond_mask"], batch["cond_known"]).backward(),
    }
    times: dict[str, list[float]] = {name: [] for name in measured}
    for turn in range(turns + 2):
        for name, function in measured.items():
            elapsed = timed(function, device)
            if turn >= 2:  # the first turns warm up
                times[name].append(elapsed)

    def ratio(name: str, other: str) -> float:
        return min(times[name]) / min(times[other])

    print(f"{device}, {torch.get_num_threads()} thread(s), {classes} classes, batch {items} x {size}^2")
    print("  " + ", ".join(f"{name} {1e3 * min(values):.0f} ms" for name, values in times.items()))
    print(f"primal step / MONAI step : {ratio('primal step', 'plain step'):.2f}  (limit 1.10)")
    print(f"dual step / primal step  : {ratio('dual step', 'primal step'):.2f}  (limit 1.80)")
    for stage in ("loss of stage 1", "loss of stage 2"):
        print(f"{stage} / DiceCE : {ratio(stage, 'DiceCELoss'):.2f}")
    if device.type == "cpu":
        print(f"peak memory of the process so far : {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
