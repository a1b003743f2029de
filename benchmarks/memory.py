"""Peak memory of training against the number of training volumes.

    python benchmarks/memory.py

Volumes of 256 x 256 x 12 voxels, prepared and trained on as `bundles/acdc` does it (conditions included), each number
of volumes in a process of its own: without a cache (`--cache_memory 0`), with a cache on disk (`--cache_dir`), and on
request with the cache in memory that is the default. Without a cache and with one on disk memory should stay flat: the
network, the batch and one volume at a time.

    python benchmarks/memory.py --items 200000

What a number of slices or patches costs, apart from reading them: a datalist that names the files of so many subjects,
a sampler's epoch, and a data set that finds conditions among them. All items share a few small images.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
from monai.bundle import ConfigParser

from dcl_monai.data import CandidateSampler, ConditionalDataset, DrawSampler
from dcl_monai.datalist import load_datalist

ROOT = Path(__file__).parents[1]
SHAPE, CLASSES = (256, 256, 12), ["background", "RV", "MYO", "LV"]
CACHES = ("off", "disk", "memory")


def write_volumes(folder: Path, count: int) -> list[dict]:
    """Items whose files are links to a few volumes: as many to read, little to write."""
    rng = np.random.default_rng(0)
    distinct = min(count, 8)
    for k in range(distinct):
        label = np.zeros(SHAPE, np.uint8)
        x, y = rng.integers(100, 140, 2)
        for value, half in ((1, 40), (2, 25), (3, 15)):
            label[x - half : x + half, y - half : y + half] = value
        image = (100 * label + rng.normal(200, 20, SHAPE)).astype(np.int16)
        for name, array in (("image", image), ("label", label)):
            nib.save(nib.Nifti1Image(array, np.diag([1.4, 1.4, 8, 1])), folder / f"{name}{k:04d}.nii.gz")
    for k, name in itertools.product(range(distinct, count), ("image", "label")):
        (folder / f"{name}{k:04d}.nii.gz").symlink_to(folder / f"{name}{k % distinct:04d}.nii.gz")
    return [
        {
            "image": str(folder / f"image{k:04d}.nii.gz"),
            "label": str(folder / f"label{k:04d}.nii.gz"),
            "subject": f"s{k}",
            "annotated": [k % len(CLASSES)],
        }
        for k in range(count)
    ]


def train(items: list[dict], folder: Path, cache: str, steps: int) -> None:
    """Prepare the training set and train a few steps."""
    parser = ConfigParser()
    parser.read_config(ROOT / "bundles" / "acdc" / "configs" / "train.json")
    settings: dict[str, Any] = {"cache_memory": 4.0 if cache == "memory" else 0.0}
    settings["cache_dir"] = str(folder / "cache") if cache == "disk" else None
    data = {"classes": CLASSES, "unions": {}, "training": items, "validation": [], "test": []}
    parser.update(settings | {"data": data, "output_dir": str(folder), "train#trainer#train_handlers": []})
    trainer = parser.get_parsed_content("train#trainer")
    parser.get_parsed_content("train#conditional_dataset").set_epoch(10**6)  # when no epoch is plain any more
    trainer.state.output = {}
    for batch in itertools.islice(trainer.data_loader, steps):
        trainer._iteration(trainer, batch)


class Repeated:
    """Items of many subjects that share a few small images, each with one class drawn."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.images = [torch.randn(1, 16, 16) for _ in range(8)]
        self.labels = []
        for j in range(len(CLASSES)):
            drawn = torch.zeros(1, 16, 16, dtype=torch.uint8)
            drawn[:, 4:9, 4:9] = 1
            self.labels.append((drawn, (15 & ~(1 << j), 1 << j)))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not 0 <= index < self.count:
            raise IndexError(index)
        label, sets = self.labels[index % len(CLASSES)]
        return {"image": self.images[index % 8], "label": label, "sets": sets, "subject": f"s{index}"}


def many_items(count: int) -> None:
    """Print time and memory of what grows with the number of items."""

    def told(what: str, function: Callable[[], Any], times: int = 1) -> Any:
        start = time.process_time()
        result = function()
        seconds = (time.process_time() - start) / times
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{what:46s} {seconds:9.4f} s   peak {memory:6.0f} MB", flush=True)
        return result

    told("(the packages alone)", lambda: None)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for k in range(count):
            for name in ("image", "label"):
                (root / f"{name}{k:04d}.nii.gz").touch()  # a link would be refused: the image of another subject
        files = {"images": "image{subject}.nii.gz", "labels": "label{subject}.nii.gz"}
        values = dict(enumerate(CLASSES))
        document = {"classes": CLASSES, "datasets": {"d": {"folder": folder, **files, "values": values}}}
        (root / "list.yaml").write_text(json.dumps(document))
        told(f"datalist of {count} subjects", lambda: load_datalist(root / "list.yaml"))
    items = Repeated(count)
    dataset = told(f"ConditionalDataset of {count} items", lambda: ConditionalDataset(items, len(CLASSES)))
    for sampler in (DrawSampler(items), told("CandidateSampler", lambda: CandidateSampler(items, len(CLASSES)))):
        told(f"an epoch of {type(sampler).__name__}", lambda sampler=sampler: list(sampler))
    told("an item with its conditions (mean of 50)", lambda: [dataset[k * (count // 50)] for k in range(50)], 50)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--volumes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--caches", nargs="+", choices=CACHES, default=["off", "disk"])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--items", type=int, help="measure so many items instead")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.items:
        return many_items(arguments.items)
    if arguments.measure:
        folder, cache = Path(arguments.measure[0]), arguments.measure[1]
        train(json.loads((folder / "items.json").read_text()), folder, cache, arguments.steps)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)  # of Linux, in kB
        return
    print(f"{'cache':8s} {'volumes':>8s} {'peak MB':>8s} {'seconds':>8s}")
    for cache, count in itertools.product(arguments.caches, arguments.volumes):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            (folder / "items.json").write_text(json.dumps(write_volumes(folder, count)))
            command = [sys.executable, "-W", "ignore", __file__, "--measure", temporary, cache]
            start = time.perf_counter()
            done = subprocess.run(
                [*command, "--steps", str(arguments.steps)], check=True, stdout=subprocess.PIPE, text=True
            )
            peak = float(done.stdout.split()[-1])
            print(f"{cache:8s} {count:8d} {peak:8.0f} {time.perf_counter() - start:8.0f}", flush=True)


if __name__ == "__main__":
    main()
