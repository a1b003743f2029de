"""Memory of a training step, as `python -m dcl_monai plan` counts it and as it is.

    python benchmarks/step_memory.py

Each network takes two steps of stage 2 (primal pass, dual pass, Adam) on the CPU, in a process of its own. Its peak of
resident memory, less what the process took before, is divided by the bytes that were counted without computing
anything. The largest ratio is what ``OVERHEAD["cpu"]`` of dcl_monai/planning/memory.py stands for.
"""

from __future__ import annotations

import argparse
import copy
import resource
import subprocess
import sys
import time

import torch

from dcl_monai.networks import CompNet
from dcl_monai.planning.memory import OVERHEAD, counted_bytes, make_batch, step
from dcl_monai.planning.planner import network_arguments
from dcl_monai.planning.rules import pooling

CASES = {
    "hippocampus": (3, (1.0, 1.0, 1.0), (40, 56, 40), 2),
    "whole heart": (8, (1.0, 1.0, 1.0), (48, 48, 48), 2),
    "thick slices": (4, (1.5, 1.5, 5.0), (96, 96, 16), 2),
    "slices": (4, (1.5, 1.5), (224, 256), 4),
}
"""Classes, voxel size, patch and batch size."""


def network(name: str) -> dict[str, object]:
    classes, spacing, patch, _ = CASES[name]
    return {"num_classes": classes, **network_arguments(pooling(spacing, patch))}


def resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name: str) -> None:
    """Print the bytes that two steps add to this process."""
    classes, _, patch, items = CASES[name]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = resident()
    primnet = CompNet(**network(name))  # type: ignore[arg-type]
    dualnet = copy.deepcopy(primnet).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(primnet.parameters())
    best = copy.deepcopy(primnet.state_dict())
    for _ in range(2):
        batch = make_batch(classes, patch, items)
        for value in batch.values():
            if value.is_floating_point():
                value.normal_()
        step(primnet, dualnet, batch)
        optimizer.step()
        optimizer.zero_grad()
    del best
    print(resident() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    for name, (classes, _, patch, items) in CASES.items():
        start = time.perf_counter()
        counted = counted_bytes(network(name), patch, items, 0, False)
        seconds = time.perf_counter() - start
        line = [sys.executable, __file__, "--measure", name]
        peak = int(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
        size = " x ".join(map(str, patch))
        print(
            f"{name:<13} {classes} classes, {items} of {size}: counted {counted / 1e9:.2f} GB in {seconds:.1f} s, "
            f"measured {peak / 1e9:.2f} GB, ratio {peak / counted:.2f} (limit {OVERHEAD['cpu']})",
            flush=True,
        )


if __name__ == "__main__":
    main()
