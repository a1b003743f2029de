"""Cost of inference, as ratios from one run.

    python benchmarks/inference.py

- one volume of ten slices through the network of the bundle's default, with its bank, against a plain UNet of the same
  backbone without conditions (limit 1.3), both by the bundle's own inferer;
- the same with more conditional sets, against one set: linear means a ratio equal to the number of sets;
- memory of the process over a folder of 100 volumes: flat means no growth after the first few.

Everything is measured in turns, on a CPU in CPU time. A ratio is the median over the turns of the ratio within a turn,
so that what else the machine does meets both sides alike.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nibabel as nib
import numpy as np
import torch
from monai.bundle import ConfigParser
from monai.utils import set_determinism

from dcl_monai.inferers import FolderSegmenter, predict_sets
from dcl_monai.networks import CompNet, DCLNet

CONFIG = Path(__file__).parents[1] / "bundles" / "acdc" / "configs" / "inference.json"
SETS = (2, 4, 8)


def bundle(**override: object) -> ConfigParser:
    parser = ConfigParser()
    parser.read_config(str(CONFIG))
    parser.update({"model_file": "none", **override})
    return parser


def fill(network: DCLNet, size: list[int], entries: int) -> DCLNet:
    images = torch.randn(network.num_classes, entries, 1, *size)
    network.bank.fill(images, images[:, :, 0] > 1, torch.ones(network.num_classes, entries, dtype=torch.bool))
    return network.eval()


def speed(turns: int, slices: int) -> None:
    parser = bundle()
    device, inferer = parser.get_parsed_content("device"), parser.get_parsed_content("inferer")
    size = parser.get_parsed_content("spatial_size")[:2]
    network = fill(parser.get_parsed_content("network"), size, entries=16)
    plain = DCLNet(CompNet(**network.compnet.settings | {"conditional": False})).to(device).eval()
    volume = torch.randn(1, 1, *size, slices, device=device)

    def clock() -> float:
        if device.type == "cpu":
            return time.process_time()
        torch.cuda.synchronize(device)
        return time.perf_counter()

    def ratio(first: Callable[[], object], second: Callable[[], object], count: int) -> tuple[float, float, float]:
        """Median times in ms of both, and the median ratio of the second to the first."""
        pairs = []
        for turn in range(count + 2):
            start = clock()
            first()
            middle = clock()
            second()
            if turn >= 2:  # the first turns warm up
                pairs.append((middle - start, clock() - middle))
        times = [1e3 * statistics.median(side) for side in zip(*pairs, strict=True)]
        return times[0], times[1], statistics.median(b / a for a, b in pairs)

    def single() -> object:
        return predict_sets(network, inferer, volume)

    print(f"{device}, {torch.get_num_threads()} thread(s), one volume of {slices} slices of {size[0]} x {size[1]}")
    before, after, found = ratio(lambda: predict_sets(plain, inferer, volume), single, turns)
    print(f"network with bank / plain UNet : {found:.2f}  (limit 1.30; {after:.0f} ms, {before:.0f} ms)")
    for sets in SETS:
        _, after, found = ratio(single, lambda n=sets: predict_sets(network, inferer, volume, n), max(3, turns // 4))
        print(f"{sets} sets / 1 set                 : {found:.2f}  (linear: {sets}; {after:.0f} ms)")


def resident() -> float:
    """Memory of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


def memory(files: int, slices: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, model = Path(folder) / "in", Path(folder) / "model.pt"
        source.mkdir()
        volume = np.random.default_rng(0).integers(0, 500, (216, 216, slices)).astype(np.int16)
        first = source / "000.nii.gz"
        nib.save(nib.Nifti1Image(volume, np.diag([1.4, 1.4, 8, 1])), first)
        for index in range(1, files):
            (source / f"{index:03d}.nii.gz").symlink_to(first)
        parser = bundle()
        network = fill(parser.get_parsed_content("network_def"), parser.get_parsed_content("spatial_size")[:2], 16)
        torch.save({"model": network.state_dict()}, model)
        override = {"dataset_dir": str(source), "output_dir": f"{folder}/out", "contact_sheet": False}
        segmenter: FolderSegmenter = bundle(**override, model_file=str(model)).get_parsed_content("evaluator")
        seen: list[float] = []
        segment = segmenter.segment

        def watched(index: int, name: str) -> dict:
            entry = segment(index, name)
            seen.append(resident())
            return entry

        segmenter.segment = watched  # type: ignore[method-assign]
        segmenter.run()
        marks = sorted({min(9, files - 1), files // 2, files - 1})
        print(f"memory over a folder of {files} volumes of 216 x 216 x {slices}")
        print("  " + ", ".join(f"after file {mark + 1}: {seen[mark]:.0f} MB" for mark in marks))
        print(f"growth from file {marks[0] + 1} to the last   : {seen[-1] - seen[marks[0]]:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--files", type=int, default=100, help="volumes of the memory test; 0 leaves it out")
    arguments = parser.parse_args()
    set_determinism(0)
    speed(arguments.turns, arguments.slices)
    if arguments.files and sys.platform == "linux":
        memory(arguments.files, arguments.slices)


if __name__ == "__main__":
    main()
