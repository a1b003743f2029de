"""
Hostile and damaged files at every door: read, or refused in one line, in bounded time and memory.

A sample here; of a night, which takes minutes: DCL_HOSTILE=1000 pytest -n 0 tests/test_hostile_files.py
"""

from __future__ import annotations

import copy
import gzip
import json
import multiprocessing
import os
import random
import resource
import signal
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
import torch
import yaml
from monai.bundle import ConfigParser
from torch import nn
from torch.utils._pytree import tree_map

from dcl_monai.check import find_problems, inspect_datalist
from dcl_monai.check.reading import read_files
from dcl_monai.datalist import load_datalist
from dcl_monai.handlers import RunCheckpoint
from dcl_monai.networks import load_model
from dcl_monai.transforms.files import read_image, read_label
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error
from dcl_monai.utils.files import save_atomic

CASES = int(os.environ.get("DCL_HOSTILE", 40))
FLIPS = 50 if CASES >= 1000 else 8
"""Of each of four kinds of files."""
SECONDS, MEMORY = 20, 2 * 2**30
CONFIG = Path(__file__).parents[1] / "bundles" / "acdc" / "configs" / "inference.json"

pytestmark = pytest.mark.slow


def attempt_all(attempt: Callable[[random.Random], str | None], folder: Path) -> dict[str, int]:
    """
    Attempt all cases in a process that may grow by 2 GB, each in 20 seconds of a core (200 of the clock).

    Returns:
        how many were read and how many refused.
    """
    log = folder / "outcomes.txt"

    def work() -> None:
        torch.set_num_threads(1)
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # both end the process, whatever it is doing
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        with log.open("w", encoding="utf-8") as file:
            for seed in range(CASES):
                file.write(f"{seed} ")
                file.flush()
                signal.alarm(10 * SECONDS)  # a busy machine is no hang
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                try:
                    refusal = attempt(random.Random(seed))
                    file.write("read\n" if refusal is None else f"refused {refusal!r}\n")
                except BaseException:
                    file.write(f"TRACEBACK {traceback.format_exc()!r}\n")
                signal.alarm(0)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    lines = log.read_text(encoding="utf-8").splitlines()
    assert process.exitcode == 0, f"ended by {process.exitcode} in case {lines[-1]}"
    assert not [line for line in lines if "TRACEBACK" in line]
    messages = [line.split(" refused ", 1)[1] for line in lines if " refused " in line]
    assert not [message for message in messages if "\\n" in message]
    assert all(str(folder) in message for message in messages)  # each names a file
    return {"read": CASES - len(messages), "refused": len(messages)}


NUMBERS = (0, -1, 1, 2, 7, 255, 32767, -32768, 2**31 - 1, 2**62, float("nan"), float("inf"), 1e30, -1e30, 1e-30)
FIELDS = {  # place and type of what a NIfTI header says
    **{f"dim{i}": (40 + 2 * i, "h") for i in range(8)},
    **{f"pixdim{i}": (76 + 4 * i, "f") for i in range(8)},
    **{f"srow{i}": (280 + 4 * i, "f") for i in range(12)},
}
FIELDS |= {"sizeof_hdr": (0, "i"), "magic": (344, "i"), "extension": (348, "i"), "units": (123, "B")}
FIELDS |= {"datatype": (70, "h"), "bitpix": (72, "h"), "qform": (252, "h"), "sform": (254, "h")}
FIELDS |= {"vox_offset": (108, "f"), "scl_slope": (112, "f"), "scl_inter": (116, "f"), "quatern": (256, "f")}


def spoil_bytes(content: bytearray, draw: random.Random) -> None:
    """Change a file somewhere, without knowing what it is."""
    place = draw.randrange(len(content))
    kind = draw.randrange(4)
    if kind == 0:
        content[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        del content[place:]
    elif kind == 2:
        content[place : place + draw.randrange(1, 200)] = draw.randbytes(draw.randrange(1, 200))
    else:
        content += draw.randbytes(draw.randrange(1, 5000))


def spoil_header(content: bytearray, draw: random.Random) -> None:
    """Let a NIfTI header say something else."""
    place, kind = FIELDS[draw.choice(sorted(FIELDS))]
    value = draw.choice(NUMBERS)
    try:
        packed = struct.pack(f"<{kind}", value if kind == "f" else int(value))
    except (ValueError, OverflowError, struct.error):  # what the field cannot hold
        packed = draw.randbytes(struct.calcsize(kind))
    content[place : place + len(packed)] = packed


def spoilt_nifti(draw: random.Random, path: Path, label: bool) -> Path:
    """Write a NIfTI file with one to three mistakes."""
    noise = np.random.default_rng(draw.randrange(2**31))
    shape = draw.choice([(24, 20, 4), (24, 20, 4), (24, 20), (24, 20, 4, 2), (1, 1, 1)])
    dtype = draw.choice([np.uint8, np.int16, np.float32, np.float64])
    array = noise.integers(0, 3, shape) if label else noise.normal(300, 80, shape)
    kind = draw.choice([nib.Nifti1Image, nib.Nifti1Image, nib.Nifti2Image])
    content = bytearray(kind(array.astype(dtype), np.diag([2.0, 2.0, 8.0, 1.0])).to_bytes())
    for _ in range(draw.randrange(3)):
        spoil_header(content, draw)
    if draw.random() < 0.2:
        spoil_bytes(content, draw)
    if draw.random() < 0.03:
        content += bytes(300 * 2**20)  # a bomb
    packed = draw.random() < 0.6
    if packed:
        content = bytearray(gzip.compress(bytes(content), 1))
        if draw.random() < 0.3:
            spoil_bytes(content, draw)
    path = path.with_suffix(".nii.gz" if packed and draw.random() < 0.95 else ".nii")
    path.write_bytes(content)
    return path


def test_nifti(tmp_path):
    """The same verdict of folder inference (also Label's) and of check (also training's)."""
    parser = ConfigParser()
    parser.read_config(str(CONFIG))
    parser.update({"model_file": "none"})
    preprocessing = parser.get_parsed_content("preprocessing")

    def attempt(draw: random.Random) -> str | None:
        label = draw.random() < 0.3
        path = spoilt_nifti(draw, tmp_path / "a.nii", label)
        good = tmp_path / "good.nii"
        nib.save(nib.Nifti1Image(np.random.default_rng(0).normal(size=(24, 20, 4)), np.diag([2, 2, 8, 1])), good)
        item = {"image": str(good if label else path), "subject": "1"}
        if label:
            item |= {"label": str(path), "values": {0: [0], 1: [1], 2: [2]}}
        problems = [problem.message for problem in read_files((item, 3)).problems if problem.severity == "error"]
        served = None
        if not label:
            try:
                assert preprocessing({"image": str(path)})["image"].isfinite().all()
            except RuntimeError as error:
                served = find_user_error(error)
                if served is None:
                    raise
            # folder inference knows the network's grid; it takes cines, and no single slices
            own = any(word in str(served) for word in ("on the network's grid", "a volume (H, W, D) or a cine"))
            assert not served or problems or own, served
            cine = [problem for problem in problems if "frames or channels" in problem]
            assert not problems or served or cine, problems
        path.unlink()
        return str(served) if served else problems[0] if problems else None

    found = attempt_all(attempt, tmp_path)
    assert min(found.values()) > CASES // 20, found


NODES: tuple[Any, ...] = (
    *(None, True, [], {}, -1, 0, 1e308, float("nan"), 10**30, "", " ", "x" * 5000, "\x00", "é" * 200, "*", "**", "{"),
    *("{subject}", "{subject}{case}", "[a", "../../etc/passwd", "/dev/zero", "/etc/passwd", "north", "pipe.nii.gz"),
    *(
        "$__import__('os').abort()",
        "@classes",
        "%a#b",
        "#",
        "~",
        "background",
        ["background"],
        [["a"]],
        {"a": {"b": 1}},
    ),
    *({0: "background", 1: "RV"}, {"*": ["RV"]}, [1] * 2000, [f"c{i}" for i in range(1500)]),
)
PIECES = ("{", "}", "[", "]", ":", "- ", "&a ", "*a", "<<: *a", "!!python/object/apply:os.system ", "\t", "|", '"', "'")


def spoil_node(node: Any, draw: random.Random) -> Any:
    """Replace, rename or repeat an entry somewhere in nested dictionaries and lists."""
    if isinstance(node, dict) and node and draw.random() < 0.85:
        key = draw.choice(list(node))
        kind = draw.randrange(6)
        if kind == 0:
            node[str(draw.choice(NODES))[:50]] = node.pop(key)
        elif kind == 1:
            del node[key]
        else:
            node[key] = spoil_node(node[key], draw)
        return node
    if isinstance(node, list) and node and draw.random() < 0.7:
        place = draw.randrange(len(node))
        node[place] = spoil_node(node[place], draw)
        if draw.random() < 0.2:
            node.append(copy.deepcopy(node[place]))
        return node
    return copy.deepcopy(draw.choice(NODES))


def spoil_text(text: str, draw: random.Random) -> str:
    """Change lines of a file."""
    lines = text.splitlines()
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(lines))
        kind = draw.randrange(4)
        if kind == 0:
            lines[place] = "  " * draw.randrange(4) + lines[place].strip()
        elif kind == 1:
            lines[place] = lines[place].replace(": ", draw.choice([":", " ", "::", "="]), 1)
        elif kind == 2:
            cut = draw.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:cut] + draw.choice(PIECES) + lines[place][cut:]
        else:
            lines.insert(place, draw.choice(lines))
    return "\n".join(lines)


def test_datalists(hospitals, tmp_path):
    good = yaml.safe_load(hospitals(2).read_text())
    for name, dataset in good["datasets"].items():
        dataset["folder"] = str(hospitals(2).parent / name)
    good["datasets"]["listed"] = {
        "folder": str(hospitals(2).parent / "north"),
        "values": {0: "background", 1: "A"},
        "split": "training",
        "training": [{"image": "p0/image.nii.gz", "label": "p0/label.nii.gz", "subject": "p0"}],
    }
    del good["datasets"]["north"]  # whose image that is
    os.mkfifo(tmp_path / "pipe.nii.gz")

    def attempt(draw: random.Random) -> str | None:
        content = copy.deepcopy(good)
        as_json = draw.random() < 0.3
        for _ in range(draw.randrange(3)):
            spoil_node(content, draw)
        text = json.dumps(content, default=str) if as_json else yaml.safe_dump(content, allow_unicode=True)
        if draw.random() < 0.4:
            text = spoil_text(text, draw)
        path = tmp_path / ("list.json" if as_json else "list.yaml")
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        try:
            datalist = load_datalist(path)
            problems = find_problems(datalist, inspect_datalist(datalist, progress=False))
        except DataError as error:
            return str(error)
        found = [problem.message for problem in problems if problem.severity == "error"]
        return f"{path}: {found[0]}" if found else None

    found = attempt_all(attempt, tmp_path)
    assert min(found.values()) > CASES // 20, found


def write_checkpoint(path: Path) -> None:
    network = nn.Linear(40, 3)
    optimizer = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 40)).sum().backward()
    optimizer.step()
    content = {"trainer": {"iteration": 3}, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    save_atomic(content | {"settings": {"a": 1}}, path)


READERS: dict[str, Callable[[Path], object]] = {
    "checkpoint.pt": lambda path: RunCheckpoint(str(path), {}).read(),
    "conditional.pt": load_model,
    "image.nii.gz": lambda path: read_image(str(path)),
    "label.nii.gz": lambda path: read_label(str(path)),
}


def all_of(content: object) -> str:
    """All numbers with all digits, which a tensor's own words leave out."""
    return str(tree_map(lambda part: part.tolist() if isinstance(part, torch.Tensor) else part, content))


@pytest.mark.parametrize("name", READERS)
def test_flipped_bits(name, conditional_model, tmp_path):
    """None is accepted with changed content."""
    path, draw = tmp_path / name, random.Random(name)
    write_checkpoint(tmp_path / "checkpoint.pt")
    noise = np.random.default_rng(0)
    for part, array in (("image", noise.normal(size=(24, 20, 4))), ("label", noise.integers(0, 3, (24, 20, 4)))):
        nib.save(nib.Nifti1Image(array.astype(np.int16), np.diag([2, 2, 8, 1])), tmp_path / f"{part}.nii.gz")
    whole, expected, refusals = path.read_bytes(), all_of(READERS[name](path)), []
    for _ in range(FLIPS):
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        try:
            assert all_of(READERS[name](path)) == expected
        except DataError as error:
            refusals.append(str(error))
    assert len(refusals) > FLIPS // 3
    assert all(refusal.startswith(f"{path}: ") and "\n" not in refusal for refusal in refusals)
