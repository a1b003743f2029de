"""Cost of a training step, as ratios from one run.

    python benchmarks/steps.py

Everything is measured in turns on the same tensors. A ratio is the median over the turns of the ratio within a turn, so
that what else the machine does meets both sides alike.

- a primal step against one of MONAI's SupervisedTrainer with DiceCELoss on the same network and tensors (limit 1.10);
- a dual step against a primal step (limit 1.8; one forward and an activation-only backward more make 5/3);
- the loss alone, forward and backward, against DiceCELoss.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from monai.engines import SupervisedTrainer
from monai.losses import DiceCELoss

from dcl_monai.engines import DCLTrainer
from dcl_monai.losses import ConditionalCompatibleLoss
from dcl_monai.networks import CompNet

CLASSES = 4


def make_batch(items: int, size: int, device: torch.device) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    # Structures in one piece, as real ones are: a ring per class around the centre.
    axis = torch.linspace(-1.0, 1.0, size)
    radius = (axis[:, None] ** 2 + axis**2).sqrt()
    truth = (CLASSES * (1.0 - 1.5 * radius)).clamp(0, CLASSES - 1).long().expand(items, 1, -1, -1).contiguous()
    own = (torch.arange(CLASSES) == torch.arange(items)[:, None] % CLASSES)[:, :, None, None]
    inside = (truth == (torch.arange(items) % CLASSES)[:, None, None, None]).expand(-1, CLASSES, -1, -1)
    mask = torch.nn.functional.one_hot(truth[:, 0], CLASSES).movedim(-1, 1).bool()
    label = torch.where(inside, own, ~own)
    batch = {
        "image": torch.randn(items, 1, size, size),
        "truth": truth,
        "label": label,
        "cond_image": torch.randn(items, CLASSES, size, size),
        "cond_mask": mask,
        "cond_known": torch.ones_like(mask),
        "dual_class": torch.arange(items) % CLASSES,
        "dual_apart": torch.ones(items, CLASSES, dtype=torch.bool),
        "dual_image": torch.randn(items, 1, size, size),
        "dual_label": label.flip(0),
    }
    return {key: value.to(device) for key, value in batch.items()}


def timed(function: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    function()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=112)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = CompNet(
        "BasicUNet", CLASSES, spatial_dims=2, features=(16, 16, 32, 64, 128, 16), norm="batch", zero_conditions=False
    ).to(device)
    batch = make_batch(arguments.batch, arguments.size, device)
    loss, dice_ce = ConditionalCompatibleLoss(CLASSES), DiceCELoss(softmax=True, to_onehot_y=True)

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
    logits = torch.randn(
        arguments.batch, 2 * CLASSES, arguments.size, arguments.size, device=device, requires_grad=True
    )
    measured = {
        "plain step": lambda: plain._iteration(plain, batch),
        "primal step": lambda: primal._iteration(primal, batch),
        "dual step": lambda: dual._iteration(dual, batch),
        "DiceCELoss": lambda: dice_ce(logits, batch["truth"]).backward(),
        "our loss": lambda: loss(logits, batch["label"], batch["cond_mask"], batch["cond_known"]).backward(),
    }
    times: dict[str, list[float]] = {name: [] for name in measured}
    for turn in range(arguments.turns + 2):
        for name, function in measured.items():
            elapsed = timed(function, device)
            if turn >= 2:  # the first turns warm up
                times[name].append(elapsed)

    def ratio(name: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(times[name], times[other], strict=True))

    print(f"{device}, {torch.get_num_threads()} thread(s), batch {arguments.batch} x {arguments.size}^2")
    print("  " + ", ".join(f"{name} {1e3 * statistics.median(values):.0f} ms" for name, values in times.items()))
    print(f"primal step / MONAI step : {ratio('primal step', 'plain step'):.2f}  (limit 1.10)")
    print(f"dual step / primal step  : {ratio('dual step', 'primal step'):.2f}  (limit 1.80)")
    print(f"our loss / DiceCELoss    : {ratio('our loss', 'DiceCELoss'):.2f}")


if __name__ == "__main__":
    main()
