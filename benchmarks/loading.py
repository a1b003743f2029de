"""Share of the training loop that is spent waiting for data.

    python benchmarks/loading.py

The bundles' own data sets, augmentation, networks and losses, on preprocessed volumes that lie in memory (a warm
cache), with conditions on: 2D slices of 112 x 112 and 212 x 212 (`bundles/acdc`) and 3D patches (`bundles/mmwhs`), with
0 and with 1 worker. The limit is 5%. A worker needs a core of its own: on a machine without a spare one it takes from
the step what it saves in waiting, so look at the time per step, too.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from monai.bundle import ConfigParser
from monai.data import Dataset
from monai.utils import set_determinism

from dcl_monai.transforms import EncodeCandidates

ROOT = Path(__file__).parents[1]
LIMIT = 0.05
# name -> bundle, size of a slice or patch, size of a volume, classes, volumes
CASES = {
    "2D 112 x 112": ("acdc", [112, 112, -1], (112, 112, 10), 4, 16),
    "2D 212 x 212": ("acdc", [212, 212, -1], (212, 212, 10), 4, 16),
    "3D 40 x 40 x 32": ("mmwhs", [40, 40, 32], (60, 60, 48), 8, 16),
}


def volumes(shape: tuple[int, ...], classes: int, count: int) -> Dataset:
    """Preprocessed volumes: a block per class, of which every volume tells one."""
    made = []
    for k in range(count):
        label = torch.zeros(1, *shape)
        for j in range(1, classes):
            start = shape[0] // 4 + j * shape[0] // (4 * classes)
            label[:, start : start + shape[0] // (2 * classes), shape[1] // 4 : -shape[1] // 4] = j
        image = label + torch.randn(1, *shape)
        made.append({"image": image, "label": EncodeCandidates(classes)(label, [k % classes]), "subject": f"s{k}"})
    return Dataset(made)


def measure(case: str, workers: int, steps: int, folder: str) -> tuple[float, float]:
    """Return the share of waiting, and seconds per step, waiting included."""
    bundle, size, shape, classes, count = CASES[case]
    set_determinism(0)
    parser = ConfigParser()
    parser.read_config(ROOT / "bundles" / bundle / "configs" / "train.json")
    override: dict[str, Any] = {
        "spatial_size": size,
        "num_workers": workers,
        "output_dir": folder,
        "data": {"classes": [str(j) for j in range(classes)], "unions": {}, "validation": [], "test": []},
        "train#dataset": volumes(shape, classes, count),
        "train#trainer#train_handlers": [],
    }
    parser.update(override)
    trainer = parser.get_parsed_content("train#trainer")
    parser.get_parsed_content("train#conditional_dataset").set_epoch(10**6)  # when no epoch is plain any more
    trainer.state.output = {}
    batches = itertools.chain.from_iterable(itertools.repeat(trainer.data_loader))
    waiting, total = 0.0, 0.0
    for step in range(steps + 3):
        start = time.perf_counter()
        batch = next(batches)
        middle = time.perf_counter()
        trainer._iteration(trainer, batch)
        if trainer.state.device.type == "cuda":
            torch.cuda.synchronize()
        if step >= 3:  # the first steps warm up
            waiting += middle - start
            total += time.perf_counter() - start
    return waiting / total, total / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    arguments = parser.parse_args()
    print(f"{torch.get_num_threads()} thread(s), {arguments.steps} steps each; limit of waiting {LIMIT:.0%}")
    print(f"{'case':16s} {'workers':>7s} {'waiting':>8s} {'ms/step':>8s}")
    with tempfile.TemporaryDirectory() as folder:
        for case, workers in itertools.product(arguments.cases, arguments.workers):
            share, seconds = measure(case, workers, arguments.steps, folder)
            print(f"{case:16s} {workers:7d} {share:8.1%} {1e3 * seconds:8.0f}", flush=True)


if __name__ == "__main__":
    main()
