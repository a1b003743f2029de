"""Are planted mistakes found, and does drawing what is proposed pay? The plan: docs/research/annotation_loop.md.

    python benchmarks/annotation_loop.py audit --data hearts --out audit.json --seed 4
    python benchmarks/annotation_loop.py next --data hearts --out next.json --seeds 10
    python benchmarks/annotation_loop.py next --data ACDC --real --out next_acdc.json --seeds 10

The data are synthetic hearts, which are made if they are not there. A small network is trained on slices by the
compatible loss; the rankings are those of `dcl_monai.annotate`.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Sequence
from pathlib import Path

import nibabel as nib
import numpy as np
import torch
from monai.networks.nets import BasicUNet
from monai.utils import set_determinism
from scipy import ndimage, stats

from dcl_monai.annotate.contradictions import Signs, find_contradictions, find_signs
from dcl_monai.annotate.gain import choose_next, expected_error, image_features
from dcl_monai.losses import CompatibleLoss, set_progress
from dcl_monai.synthetic import write_synthetic_acdc

SUBJECTS, DATA_SEED, CLASSES = 50, 23, 4
KINDS = ("name", "forgotten", "moved", "stray", "size")
STRATEGIES = ("next", "random", "entropy")
POOL, TEST, START, STEP, ROUNDS = 24, 26, 6, 6, 4


def load_hearts(folder: Path, real: bool = False) -> list[tuple[int, np.ndarray, np.ndarray, tuple[float, ...]]]:
    """Subject, standardised image, label and spacing of every volume."""
    if not real:
        write_synthetic_acdc(folder, SUBJECTS, DATA_SEED, progress=False)
    hearts = []
    for path in sorted(folder.glob("patient*/*_gt.nii.gz")):
        image = nib.load(str(path).replace("_gt", ""))
        values = np.asarray(image.dataobj, np.float32)
        label = np.asarray(nib.load(path).dataobj).astype(np.uint8)
        values = (values - values.mean()) / values.std()
        hearts.append((int(path.parent.name[7:]), values, label, image.header.get_zooms()[:3]))
    return hearts


def centre(volume: np.ndarray, size: int, fill: float = 0) -> np.ndarray:
    """Crop or pad the slices (H, W, D) to a square around their centre."""
    for axis in (0, 1):
        missing = max(0, size - volume.shape[axis])
        pad = [(0, 0)] * 3
        pad[axis] = (missing // 2, missing - missing // 2)
        volume = np.pad(volume, pad, constant_values=fill)
        start = (volume.shape[axis] - size) // 2
        volume = volume.take(range(start, start + size), axis)
    return volume


def sets_of(label: np.ndarray, shown: Sequence[int]) -> np.ndarray:
    """Candidate sets (m, H, W, D) where of a full label some structures are shown."""
    candidates = np.ones((CLASSES, *label.shape), bool)
    for j in shown:
        candidates[j] = False
    for j in shown:
        candidates[:, label == j] = False
        candidates[j, label == j] = True
    return candidates


def train(
    images: list[np.ndarray],
    candidates: list[np.ndarray],
    steps: int,
    seed: int,
    features: Sequence[int],
    network: BasicUNet | None = None,
) -> BasicUNet:
    """Train on slices (H, W, D) with candidate sets (m, H, W, D), a new network or a copy of one."""
    set_determinism(seed)
    if network is None:
        network = BasicUNet(2, 1, CLASSES, features=list(features), norm="batch")
    else:
        network = copy.deepcopy(network)
    slices = torch.from_numpy(np.concatenate([i.transpose(2, 0, 1) for i in images])[:, None])
    sets = torch.from_numpy(np.concatenate([c.transpose(3, 0, 1, 2) for c in candidates]))
    loss = CompatibleLoss(CLASSES, "ce", averaging="anneal", region_weight=1.0)
    optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    random = np.random.default_rng(seed)
    network.train()
    for step in range(steps):
        set_progress(loss, step / steps)
        chosen = torch.from_numpy(random.integers(0, len(slices), 8))
        shift = tuple(int(s) for s in random.integers(-6, 7, 2))
        image, known = (torch.roll(t[chosen], shift, (2, 3)) for t in (slices, sets))
        image = image * float(random.uniform(0.8, 1.25)) + 0.1 * torch.randn_like(image)
        optimizer.zero_grad()
        loss(network(image), known).backward()
        optimizer.step()
        schedule.step()
    return network.eval()


@torch.no_grad()
def predict(network: BasicUNet, image: np.ndarray) -> np.ndarray:
    """Class probabilities (m, H, W, D) of an image (H, W, D)."""
    logits = network(torch.from_numpy(image.transpose(2, 0, 1)[:, None].copy()))
    return torch.softmax(logits, 1).numpy().transpose(1, 2, 3, 0)


# ---- audit ----


def plant(label: np.ndarray, kind: str, shown: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Make a mistake in the structure ``shown[0]``."""
    label, j = label.copy(), shown[0]
    drawn = label == j
    if kind == "name":
        label[drawn], label[label == shown[1]] = 255, j
        label[label == 255] = shown[1]
    elif kind == "forgotten":
        slices = np.flatnonzero(drawn.any((0, 1)))
        count = max(1, round(len(slices) / 3))
        first = int(random.integers(0, len(slices) - count + 1))
        lost = slices[first : first + count]
        label[..., lost] = np.where(drawn[..., lost], 0, label[..., lost])
    elif kind == "moved":
        shift = [(1, 0), (-1, 0), (0, 1), (0, -1)][int(random.integers(4))]
        label[drawn] = 0
        label[np.roll(drawn, shift, (0, 1))] = j
    elif kind == "stray":
        k = int(random.choice(np.flatnonzero(drawn.any((0, 1)))))
        x, y = np.indices(label.shape[:2])
        far = ndimage.distance_transform_edt(~(label > 0).any(2)) > 15
        middle = tuple(slice(max(0, (n - 112) // 2) + 4, min(n, (n + 112) // 2) - 4) for n in far.shape)
        seen = np.zeros_like(far)
        seen[middle] = True  # the network sees 112 voxels around the centre: the disc must be among them
        far &= seen
        column, row = random.choice(np.argwhere(far))
        label[..., k][(x - column) ** 2 + (y - row) ** 2 <= 16] = j
    else:
        disc = ndimage.generate_binary_structure(3, 1)
        disc[..., [0, 2]] = False
        label[ndimage.binary_dilation(drawn, disc)] = j
    return label


def audit(folder: Path, seed: int, steps: int, size: int, kept: Path | None) -> dict[str, object]:
    """Plant 20 mistakes among 100 volumes, rank all (volume, structure), and look for them.

    Predictions are kept in the file ``kept``, and read from it by the next run, which may rank them in another way.
    """
    random = np.random.default_rng(seed)
    hearts = load_hearts(folder)
    shown = [list(random.permutation([1, 2, 3])[:2]) for _ in hearts]
    wrong = dict(zip(random.permutation(len(hearts))[:20].tolist(), KINDS * 4, strict=True))
    labels = [
        plant(label, wrong[n], shown[n], random) if n in wrong else label for n, (_, _, label, _) in enumerate(hearts)
    ]
    candidates = [sets_of(label, shown[n]) for n, label in enumerate(labels)]
    drawn = [np.stack([centre(c, size, True) for c in volume]) for volume in candidates]
    found: dict[int, np.ndarray] = {}
    if kept and kept.is_file():
        with np.load(kept) as predictions:
            found = {int(n): predictions[n] for n in predictions}
    for fold in range(2) if not found else ():
        others = [n for n, heart in enumerate(hearts) if heart[0] % 2 != fold]
        images = [centre(hearts[n][1], size) for n in others]
        network = train(images, [drawn[n] for n in others], steps, seed, (8, 8, 16, 32, 64, 8))
        found |= {n: predict(network, centre(h[1], size)) for n, h in enumerate(hearts) if h[0] % 2 == fold}
    if kept:
        np.savez(kept, **{str(n): p for n, p in found.items()})
    signs: dict[tuple[int, int], Signs] = {}
    dices = []
    for n, (_, _, truth, _) in enumerate(hearts):
        true = centre(truth, size)
        dices.append([dice(found[n].argmax(0) == j, true == j) for j in (1, 2, 3)])
        for j in map(int, shown[n]):
            one = find_signs(found[n], drawn[n], j)
            if one is not None:
                signs[n, j] = one
    save = [[n, j, dict(one.values), one.other, wrong.get(n, "")] for (n, j), one in signs.items()]
    rows = find_contradictions(signs)
    places: dict[int, int] = {}
    for place, row in enumerate(rows, 1):
        planted = row.case in wrong and (row.structure == shown[row.case][0] or wrong[row.case] == "name")
        if planted:
            places.setdefault(row.case, place)
    first = rows[:40]
    return {
        "dice": np.nanmean(dices, 0).round(4).tolist(),
        "signs": save,
        "rows": len(rows),
        "recall_40": sum(place <= 40 for place in places.values()) / 20,
        "recall_20": sum(place <= 20 for place in places.values()) / 20,
        "by_kind": {k: sorted(places.get(n, 999) for n in wrong if wrong[n] == k) for k in KINDS},
        "kind_named": sum(
            next(r.kind for r in rows[place - 1 : place]) == wrong[n] for n, place in places.items() if place <= 40
        ),
        "wrong_images_40": len({row.case for row in first if row.case in wrong}),
        "scores": [[r.case, r.structure, r.kind, round(r.score, 2), wrong.get(r.case, "")] for r in first],
    }


def dice(a: np.ndarray, b: np.ndarray) -> float:
    return float(2 * (a & b).sum() / (a.sum() + b.sum())) if (a | b).any() else float("nan")


# ---- next ----


def simulate(folder: Path, seed: int, steps: int, real: bool) -> dict[str, object]:
    """Draw what each strategy proposes, with the hidden labels, and measure Dice on other subjects."""
    random = np.random.default_rng(1000 + seed)
    hearts = []
    for subject, image, label, spacing in load_hearts(folder, real):
        zoom = (spacing[0] / 3, spacing[1] / 3, 1)
        small = ndimage.zoom(ndimage.gaussian_filter(image, (1, 1, 0)), zoom, order=1)
        hearts.append((subject, centre(small, 48), centre(ndimage.zoom(label, zoom, order=0), 48)))
    order = random.permutation(sorted({heart[0] for heart in hearts}))
    pool = [heart for heart in hearts if heart[0] in set(order[:POOL].tolist())][::2]  # one phase of each subject
    test = [heart for heart in hearts if heart[0] in set(order[POOL:].tolist())][1::2]
    pairs = [(n, j) for n in range(POOL) for j in (1, 2, 3)]
    begin = [(int(n), j) for j in (1, 2, 3) for n in random.choice(POOL, START // 3, replace=False)]

    def fit(drawn: list[tuple[int, int]], before: BasicUNet | None) -> tuple[float, list[np.ndarray], BasicUNet]:
        used = sorted({n for n, _ in drawn})
        known = [sets_of(pool[n][2], [j for m, j in drawn if m == n]) for n in used]
        number = steps if before is None else steps * 6 // 10
        network = train([pool[n][1] for n in used], known, number, seed, (8, 8, 16, 32, 32, 8), before)
        found = [predict(network, image).argmax(0) for _, image, _ in test]
        scores = [[dice(f == j, t == j) for j in (1, 2, 3)] for f, (_, _, t) in zip(found, test, strict=True)]
        return float(np.nanmean(scores)), [predict(network, image) for _, image, _ in pool], network

    def propose(strategy: str, drawn: list[tuple[int, int]], found: list[np.ndarray]) -> list[tuple[int, int]]:
        left = [pair for pair in pairs if pair not in drawn]
        if strategy == "random":
            return [left[int(k)] for k in choice.permutation(len(left))[:STEP]]
        if strategy == "entropy":
            entropy = [float(-(p * np.log(p + 1e-9)).sum(0).mean()) for p in found]
            return sorted(left, key=lambda pair: (-entropy[pair[0]], pair))[:STEP]
        errors = {}
        for n in {n for n, _ in left}:
            sets = sets_of(pool[n][2], [j for m, j in drawn if m == n])
            within = found[n] * sets
            error = expected_error(within / within.sum(0).clip(1e-9))
            errors |= {(n, j): float(error[j]) for m, j in left if m == n}
        features = np.stack([image_features(image, p) for (_, image, _), p in zip(pool, found, strict=True)])
        return [(c.case, c.structure) for c in choose_next(errors, features, drawn, STEP)]

    curves: dict[str, list[float]] = {}
    first = fit(begin, None)
    for strategy in STRATEGIES:
        choice = np.random.default_rng(seed)
        drawn, (score, found, network) = list(begin), first
        curves[strategy] = [score]
        for _ in range(ROUNDS - 1):
            drawn += propose(strategy, drawn, found)
            score, found, network = fit(drawn, network)
            curves[strategy].append(score)
        print(f"seed {seed}: {strategy:8} {np.round(curves[strategy], 3)}", flush=True)
    return {"seed": seed, "labels": [START + STEP * k for k in range(ROUNDS)], "curves": curves}


def area(curve: Sequence[float]) -> float:
    """Area under the curve over the number of labels, divided by its width."""
    return float(np.trapezoid(curve) / (len(curve) - 1))


def summary(runs: list[dict]) -> dict[str, object]:
    areas = {s: [area(run["curves"][s]) for run in runs] for s in STRATEGIES}
    tests = {}
    if len(runs) > 1:
        tests = {s: float(stats.wilcoxon(areas["next"], areas[s]).pvalue) for s in STRATEGIES[1:]}
    return {"area": {s: [float(np.mean(a)), float(np.std(a))] for s, a in areas.items()}, "areas": areas, "p": tests}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["audit", "next"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--real", action="store_true", help="next: --data is a folder of 50 patients of ACDC")
    parser.add_argument("--kept", type=Path, help="audit: file (.npz) of the predictions, written or read")
    parser.add_argument("--size", type=int, default=112)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begin = time.process_time()
    if arguments.what == "audit":
        result = audit(arguments.data, arguments.seed, arguments.steps or 600, arguments.size, arguments.kept)
    else:
        runs = []
        for seed in range(arguments.seed, arguments.seed + arguments.seeds):
            runs.append(simulate(arguments.data, seed, arguments.steps or 100, arguments.real))
            result = {"runs": runs, **summary(runs)}
            arguments.out.write_text(json.dumps(result, indent=1))
    result["cpu_seconds"] = round(time.process_time() - begin)
    arguments.out.write_text(json.dumps(result, indent=1))
    print(json.dumps({k: v for k, v in result.items() if k not in ("runs", "scores", "signs")}, indent=1))


if __name__ == "__main__":
    main()
