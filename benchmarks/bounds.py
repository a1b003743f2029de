"""How often do the bounds of Dice and volume hold, and what if only easy cases were drawn?

    python benchmarks/bounds.py
    python benchmarks/bounds.py hearts.json --truth full.json --bundle acdc --folds 3 --training ...

Synthetic: a small network learns small synthetic hearts from partial labels, one class of four per subject. Then 40
subjects, drawn at random from 400, calibrate the bounds, which are tested on 500 others; 200 times. Takes two
minutes on one core.

Real: the models that `dcl-monai complete` made (with the same options, so that none is trained again) predict images
that they did not see; `--truth` is a datalist with their full labels. A random half of the subjects calibrates, the
other half is tested; 500 times.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from monai.networks.nets import BasicUNet
from monai.utils import set_determinism
from scipy import ndimage

from dcl_monai.annotate.predict import load_candidates
from dcl_monai.annotate.writers import open_geometry
from dcl_monai.cli.crossfit import add_crossfit, make_crossfit
from dcl_monai.datalist import load_datalist
from dcl_monai.losses import CompatibleLoss
from dcl_monai.metrics import Measured, calibrate_bounds, measure_structures, structure_bounds
from dcl_monai.utils.images import voxel_ml

CLASSES = ("background", "RV", "MYO", "LV")
SIZE, SLICES, VOXEL_ML = 32, 4, 0.2
TRAINING, STEPS, POOL, TESTED, CALIBRATED, REPEATS = 40, 400, 400, 500, 40, 200
HALVES = 500


def heart(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Image and labels (D, H, W) of a subject, and how noisy it is."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.1, 1.0)
    x, y = np.indices((SIZE, SIZE))
    cx, cy = SIZE / 2 + rng.uniform(-3, 3, 2)
    cavity, wall, angle = rng.uniform(3, 5.5), rng.uniform(1.6, 3), rng.uniform(0, 2 * np.pi)
    labels = np.zeros((SLICES, SIZE, SIZE), np.int64)
    for k in range(SLICES):
        scale = 1 - 0.5 * k / SLICES
        radius = np.hypot(x - cx, y - cy)
        rx, ry = cx + (cavity + wall) * np.cos(angle), cy + (cavity + wall) * np.sin(angle)
        labels[k][np.hypot(x - rx, y - ry) < (cavity + 1) * scale] = 1
        labels[k][radius < (cavity + wall) * scale] = 2
        labels[k][radius < cavity * scale] = 3
    levels = np.array([0.3, 1.0, 0.1, 1.1]) + rng.normal(0, 0.1, 4)
    image = ndimage.gaussian_filter(levels[labels], (0, 0.7, 0.7))
    image += ndimage.gaussian_filter(rng.normal(0, noise, image.shape), (0, 0.6, 0.6))
    return ((image - image.mean()) / image.std()).astype(np.float32), labels, noise


def trained() -> BasicUNet:
    """A network that learned from partial labels."""
    hearts = [heart(seed) for seed in range(TRAINING)]
    images = torch.from_numpy(np.concatenate([image for image, _, _ in hearts]))[:, None]
    candidates = []
    for place, (_, labels, _) in enumerate(hearts):
        member = torch.nn.functional.one_hot(torch.from_numpy(labels), len(CLASSES)).movedim(-1, 1).bool()
        shown = place % len(CLASSES)
        others = torch.ones_like(member)
        others[:, shown] = False
        candidates.append(torch.where(member[:, shown : shown + 1], member, others))
    sets = torch.cat(candidates)
    network = BasicUNet(2, 1, len(CLASSES), (8, 8, 16, 16, 32, 8), norm="batch")
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    loss = CompatibleLoss(len(CLASSES), "ce", averaging="balanced")
    for _ in range(STEPS):
        chosen = torch.randint(len(images), (16,))
        optimizer.zero_grad()
        loss(network(images[chosen]), sets[chosen]).backward()
        optimizer.step()
    return network.eval()


@torch.no_grad()
def measured(network: BasicUNet, seeds: range) -> dict[str, list[tuple[Measured, float]]]:
    """What the network says of subjects, and how noisy they are."""
    found: dict[str, list[tuple[Measured, float]]] = {name: [] for name in CLASSES[1:]}
    for seed in seeds:
        image, labels, noise = heart(seed)
        probabilities = network(torch.from_numpy(image)[:, None]).softmax(1).movedim(1, 0)
        truth = torch.nn.functional.one_hot(torch.from_numpy(labels), len(CLASSES)).movedim(-1, 0).bool()
        cases = measure_structures(probabilities, probabilities.argmax(0), truth, VOXEL_ML, seed)
        for j, case in cases.items():
            found[CLASSES[j]].append((case, noise))
    return found


def coverage(calibration: list[Measured], test: list[Measured]) -> list[float]:
    """Parts of the test subjects: bound of Dice holds, interval of volume holds, not marked, holds of those."""
    bounds = calibrate_bounds({"": calibration})
    rows = []
    for case in test:
        bound = structure_bounds(bounds, "", case.confidence, case.predicted_ml)
        assert bound is not None
        low, high = bound["volume_ml"]
        rows.append((case.dice >= bound["dice"], low <= case.true_ml <= high, not bound["unlike"], bound["dice"]))
    dice, volume, like, promised = np.array(rows, dtype=float).T
    return [dice.mean(), volume.mean(), like.mean(), dice[like > 0].mean(), promised.mean()]


def real(arguments: argparse.Namespace) -> None:
    """Coverage on real images, by the models of `complete`."""
    crossfit, truth = make_crossfit(arguments), load_datalist(arguments.truth)
    crossfit.train()
    full = {item["image"]: item for split in ("training", "validation", "test") for item in truth[split]}  # type: ignore[literal-required]
    found: dict[str, list[Measured]] = {name: [] for name in crossfit.classes[1:]}
    for item in crossfit.items:
        one = crossfit.predict(item)
        candidates = load_candidates(full[item["image"]], crossfit.classes).as_tensor()
        voxel = voxel_ml(open_geometry(item["image"]))
        cases = measure_structures(one.probabilities, one.labels(), candidates, voxel, item["subject"])
        for j, case in cases.items():
            found[crossfit.classes[j]].append(case)
    subjects = sorted({item["subject"] for item in crossfit.items})
    print(f"{len(subjects)} subjects; structure: Dice holds, volume holds, not marked, Dice holds of those, mean bound")
    for name, cases in found.items():
        rng, results = np.random.default_rng(0), []
        for _ in range(HALVES):
            half = set(rng.permutation(subjects)[: len(subjects) // 2].tolist())
            own, others = ([case for case in cases if (case.subject in half) is inside] for inside in (True, False))
            results.append(coverage(own, others))
        numbers = " ".join(f"{number:.3f}" for number in np.mean(results, axis=0))
        print(f"{name}: {numbers}; mean Dice {np.mean([case.dice for case in cases]):.3f}")


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("--truth", type=Path, required=True)
        add_crossfit(parser)
        real(parser.parse_args())
    else:
        synthetic()


def synthetic() -> None:
    """Coverage on synthetic hearts, whoever is drawn for the calibration."""
    set_determinism(0)
    network = trained()
    pool, test = measured(network, range(1000, 1000 + POOL)), measured(network, range(2000, 2000 + TESTED))
    print("structure, who was drawn: Dice holds, volume holds, not marked, Dice holds of those, mean bound, mean Dice")
    for name in CLASSES[1:]:
        tested = [case for case, _ in test[name]]
        middle = np.median([noise for _, noise in pool[name]])
        groups = {
            "anyone": [case for case, _ in pool[name]],
            "the less noisy half": [case for case, noise in pool[name] if noise < middle],
            "Dice above the median": sorted((case for case, _ in pool[name]), key=lambda case: -case.dice)[: POOL // 2],
        }
        for group, cases in groups.items():
            rng = np.random.default_rng(0)
            draws = [[cases[k] for k in rng.choice(len(cases), CALIBRATED, replace=False)] for _ in range(REPEATS)]
            results = np.mean([coverage(draw, tested) for draw in draws], axis=0)
            numbers = " ".join(f"{number:.3f}" for number in (*results, np.mean([case.dice for case in tested])))
            print(f"{name}, {group}: {numbers}")


if __name__ == "__main__":
    main()
