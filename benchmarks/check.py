"""Speed and memory of the data check.

    python benchmarks/check.py

Writes volumes of 256 x 256 x 12 voxels with labels into a temporary folder and checks them as ``python -m dcl_monai
check`` does, report included; starting Python and importing MONAI come on top. Memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel as nib
import numpy as np

SHAPE = (256, 256, 12)


def write_volumes(folder: Path, number: int) -> Path:
    """Write noisy volumes with a ball of three shells in each, and the file that describes them."""
    rng = np.random.default_rng(0)
    place = np.stack(np.meshgrid(*(np.linspace(-1, 1, size) for size in SHAPE), indexing="ij"))
    radius = np.sqrt((place**2).sum(0))
    label = np.digitize(-radius, [-0.8, -0.6, -0.4]).astype(np.uint8)
    affine = np.diag([1.4, 1.4, 8.0, 1.0])
    for index in range(number):
        image = (100 * label + rng.normal(0, 20, SHAPE)).clip(0).astype(np.int16)
        nib.save(nib.Nifti1Image(image, affine), folder / f"s{index:04d}.nii.gz")
        nib.save(nib.Nifti1Image(label, affine), folder / f"s{index:04d}_gt.nii.gz")
    names = ["background", "outer", "middle", "inner"]
    dataset = {"images": "{subject}.nii.gz", "labels": "{subject}_gt.nii.gz", "values": dict(enumerate(names))}
    path = folder / "balls.json"
    path.write_text(json.dumps({"classes": names, "datasets": {"balls": dataset}}))
    return path


def measure(path: Path, workers: int) -> dict[str, float]:
    """Check once, in this process."""
    from dcl_monai.check import find_problems, inspect_datalist
    from dcl_monai.check.report import write_report
    from dcl_monai.check.summary import Summary
    from dcl_monai.datalist import load_datalist

    datalist = load_datalist(path)
    start, cpu = time.perf_counter(), cpu_seconds()
    records = inspect_datalist(datalist, workers)
    read, cpu_read = time.perf_counter() - start, cpu_seconds() - cpu
    problems = find_problems(datalist, records)
    assert not any(problem.severity == "error" for problem in problems), problems
    write_report(Summary(path.name, datalist, records, problems), path.with_suffix(".html"))
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "read": read,
        "cpu": cpu_read,
        "report": time.perf_counter() - start - read,
        "megabytes": peak / 1024,
    }


def cpu_seconds() -> float:
    """Processor time of this process and of those it has started, which another load of the machine leaves alone."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--volumes", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.workers)))
        return
    peaks = []
    for number in arguments.volumes:
        with tempfile.TemporaryDirectory() as folder:
            path = write_volumes(Path(folder), number)
            command = [sys.executable, __file__, "--measure", str(path), "--workers", str(arguments.workers)]
            # a process of its own, whose peak is not that of the one before
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        peaks.append(found["megabytes"])
        print(
            f"{number:5d} volumes, {arguments.workers} worker(s): read in {found['read']:.1f} s ("
            f"{number / found['read']:.1f} images/s; {1e3 * found['cpu'] / number:.0f} ms of processor time each), "
            f"report {found['report']:.1f} s, peak {found['megabytes']:.0f} MB"
        )
    if len(peaks) > 1:
        flat = "flat" if max(peaks) < 1.1 * peaks[0] else "NOT flat"
        print(f"memory is {flat}: at most {max(peaks) / peaks[0]:.2f} of that of the first")


if __name__ == "__main__":
    main()
