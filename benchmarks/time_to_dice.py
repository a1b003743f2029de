"""Test Dice over CPU minutes: ours, the real nnU-Net and MONAI's plain trainer; and what nnU-Net gets from `complete`.

    python benchmarks/time_to_dice.py data --acdc FOLDER --out work
    dcl-monai complete work/hearts.json --bundle acdc --out work/completed --training ...
    python benchmarks/time_to_dice.py filled --out work                             # Dice of what complete filled
    python benchmarks/time_to_dice.py nnunet 1 --out work --nnunet ENV/bin          # completed labels
    python benchmarks/time_to_dice.py nnunet 2 --out work --nnunet ENV/bin          # its own ignore label
    python benchmarks/time_to_dice.py nnunet 3 --out work --nnunet ENV/bin          # full labels
    python benchmarks/time_to_dice.py ours --out work          # --full: of full labels
    python benchmarks/time_to_dice.py monai --out work         # full labels
    python benchmarks/time_to_dice.py report --out work

40 patients of ACDC to train, 10 to test; one of background, RV, MYO and LV is shown per patient. nnU-Net is in an
environment of its own, whose ``bin`` is ``--nnunet``. One thread; the plan is in docs/research/annotation_loop.md.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
from ignite.engine import Engine, Events
from monai.data import DataLoader, Dataset, MetaTensor
from monai.engines import SupervisedTrainer
from monai.handlers import LrScheduleHandler
from monai.inferers import SliceInferer
from monai.losses import DiceCELoss
from monai.networks.nets import BasicUNet
from monai.transforms import (
    Compose,
    LoadImaged,
    NormalizeIntensity,
    NormalizeIntensityd,
    RandAdjustContrastd,
    RandAffined,
    RandGaussianNoised,
    RandGaussianSmoothd,
    RandScaleIntensityd,
    RandShiftIntensityd,
    ResampleToMatch,
    ResizeWithPadOrCrop,
    ResizeWithPadOrCropd,
    Spacing,
    Spacingd,
)
from monai.utils import set_determinism
from scipy import stats
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import RandomSampler

from dcl_monai.annotate.predict import Predictor, load_candidates
from dcl_monai.annotate.writers import NNUNetWriter, case_name
from dcl_monai.bundle.commands import command_of
from dcl_monai.candidates import known_positive
from dcl_monai.datalist import acdc_document, load_datalist, simulate_datalist, write_datalist
from dcl_monai.networks import save_model

SEED, SPLIT = 23, (40, 0, 10)
STRUCTURES = {1: "RV", 2: "MYO", 3: "LV"}
KEPT = (6, 12, 30)
STEPS = 75
ROOT = Path(__file__).resolve().parents[1]


def dice(found: np.ndarray, true: np.ndarray) -> list[float]:
    return [
        float(2 * ((found == j) & (true == j)).sum() / ((found == j).sum() + (true == j).sum())) for j in STRUCTURES
    ]


def truth(item: dict[str, Any]) -> np.ndarray:
    """The hidden full label of an image."""
    return np.asarray(nib.load(item["label"]).dataobj).astype(np.uint8)


def by_patient(rows: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Mean Dice, of the patients and of the structures."""
    patients = {subject: float(np.nanmean(values)) for subject, values in rows.items()}
    structures = np.nanmean([row for values in rows.values() for row in values], 0).round(4).tolist()
    return {"dice": float(np.mean(list(patients.values()))), "structures": structures, "patients": patients}


def add(out: Path, name: str, curve: list[dict[str, Any]]) -> None:
    (out / f"{name}.json").write_text(json.dumps(curve, indent=1))
    for point in curve:
        print(
            f"{name:24} {point['minutes']:6.1f} CPU minutes  Dice {point['dice']:.3f}  {point['structures']}",
            flush=True,
        )


def data(arguments: argparse.Namespace) -> None:
    """The datalist of partial labels, that of full ones, and nnU-Net's data sets 2 (ignore) and 3 (full)."""
    out = arguments.out
    for name, annotation in (("hearts", "partial"), ("full", "full")):
        source = acdc_document(str(arguments.acdc.resolve()))
        listed = simulate_datalist(source, SPLIT, annotation=annotation, seed=SEED, split_seed=SEED)
        write_datalist(listed, out / f"{name}.json", absolute=True)
    for number, name in ((2, "hearts"), (3, "full")):
        listed = load_datalist(out / f"{name}.json")
        writer = NNUNetWriter(out / "raw", listed, name, "MR", number)
        for split in ("training", "test"):
            for item in listed[split]:
                candidates = load_candidates(item, listed["classes"]).as_tensor()
                drawn = known_positive(candidates, dim=0)
                writer.write(item, drawn.int().argmax(0).numpy(), ~drawn.any(0).numpy())
        writer.finish(ignoring=number == 2)


def filled(arguments: argparse.Namespace) -> None:
    """What `complete` filled, against the hidden truth."""
    listed = load_datalist(arguments.out / "hearts.json")
    folder = arguments.out / "completed"
    report = json.loads((folder / "report.json").read_text())["files"]
    rows, changed, voxels = [], 0, 0
    for item in listed["training"]:
        entry = report[case_name(item)]
        label = np.asarray(nib.load(folder / entry["outputs"]["label"]).dataobj)
        candidates = load_candidates(item, listed["classes"]).as_tensor()
        drawn = known_positive(candidates, dim=0)
        where = drawn.any(0).numpy()
        changed += int((label != drawn.int().argmax(0).numpy())[where].sum())
        voxels += int(where.sum())
        true = truth(item)
        for j, name in STRUCTURES.items():
            structure = entry["structures"][name]
            if structure["from"] != "drawn" and ((true == j) | (label == j)).any():
                value = float(2 * ((label == j) & (true == j)).sum() / ((label == j).sum() + (true == j).sum()))
                rows.append((name, value, structure["confidence"]))
    print(f"drawn voxels: {voxels}, changed: {changed}; filled structures: {len(rows)}")
    for name in ("all", *STRUCTURES.values()):
        part = [(value, confidence) for n, value, confidence in rows if name in ("all", n)]
        values, confidences = zip(*part, strict=True)
        rank = stats.spearmanr(values, confidences).statistic
        print(f"{name}: {len(part)} filled, mean Dice {np.mean(values):.3f}, Spearman with confidence {rank:.2f}")


def nnunet(arguments: argparse.Namespace) -> None:
    """Plan, check, preprocess, train and test one of nnU-Net's data sets."""
    out, number = arguments.out, arguments.number
    raw = (out / ("completed" if number == 1 else "raw")).resolve()
    (name,) = (path.name for path in raw.glob(f"Dataset{number:03d}_*"))
    work = (out / "nnunet").resolve()
    paths = {"raw": raw, "preprocessed": work / "preprocessed", "results": work / "results"}
    paths["extTrainer"] = ROOT / "benchmarks" / "nnunet"
    settings = {f"nnUNet_{key}": str(path) for key, path in paths.items()}
    settings |= {"nnUNet_n_proc_DA": "1", "nnUNet_compile": "f", "OMP_NUM_THREADS": "1"}

    def run(command: str, *words: object) -> None:
        subprocess.run([f"{arguments.nnunet}/{command}", *map(str, words)], check=True, env={**os.environ, **settings})

    run("nnUNetv2_plan_and_preprocess", "-d", number, "-c", "2d", "--verify_dataset_integrity", "--no_pp", "-npfp", 1)
    plan_file = paths["preprocessed"] / name / "nnUNetPlans.json"
    plan = json.loads(plan_file.read_text())
    small = copy.deepcopy(plan["configurations"]["2d"])
    small |= {"data_identifier": "nnUNetPlans_small", "spacing": [1.8, 1.8], "patch_size": [112, 112], "batch_size": 8}
    features = [16, 16, 32, 64, 128]
    number_of_stages = len(features)
    layers = small["architecture"]["arch_kwargs"]
    layers |= {"n_stages": number_of_stages, "features_per_stage": features}
    layers |= {"kernel_sizes": [[3, 3]] * number_of_stages, "strides": [[1, 1]] + [[2, 2]] * (number_of_stages - 1)}
    layers |= {"n_conv_per_stage": [2] * number_of_stages, "n_conv_per_stage_decoder": [2] * (number_of_stages - 1)}
    plan["configurations"]["small"] = small
    plan_file.write_text(json.dumps(plan))
    run("nnUNetv2_preprocess", "-d", number, "-c", "small", "-np", 1)
    how = ("-tr", "nnUNetTrainerSmall")
    settings["nnUNet_n_proc_DA"] = "0"  # augments in the process that trains, so that its time counts
    run("nnUNetv2_train", number, "small", "all", *how, "-device", "cpu")
    trained = paths["results"] / name / "nnUNetTrainerSmall__nnUNetPlans__small" / "fold_all"
    seconds = json.loads((trained / "seconds.json").read_text())
    items, curve = load_datalist(out / "full.json")["test"], []
    for epoch in reversed(KEPT):
        found = work / f"found_{number}_{epoch}"
        words = ["-i", raw / name / "imagesTs", "-o", found, "-d", number, "-c", "small", "-f", "all", *how]
        words += ["-device", "cpu", "--disable_tta", "-npp", 1, "-nps", 1, "-chk", f"checkpoint_{epoch}.pth"]
        run("nnUNetv2_predict", *words)
        rows: dict[str, list[list[float]]] = {}
        for item in items:
            label = np.asarray(nib.load(found / f"{case_name(item)}.nii.gz").dataobj)
            rows.setdefault(item["subject"], []).append(dice(label, truth(item)))
        curve.append({"epoch": epoch, "minutes": seconds[str(epoch)] / 60, **by_patient(rows)})
        curve.sort(key=lambda point: point["minutes"])
        add(out, {1: "nnunet_completed", 2: "nnunet_ignore", 3: "nnunet_full"}[number], curve)


class KeepStates:
    """Handler: keeps the network after some epochs, and the processor's time of the training alone."""

    def __init__(self, network: Any, folder: str, evaluators: list[Engine], settings: dict[str, Any]) -> None:
        self.network, self.folder, self.settings, self.seconds = network, Path(folder), settings, dict[str, float]()
        self.evaluating = 0.0
        for evaluator in evaluators:
            evaluator.add_event_handler(Events.STARTED, self.count, -1)
            evaluator.add_event_handler(Events.COMPLETED, self.count, 1)

    def count(self, sign: int) -> None:
        self.evaluating += sign * time.process_time()

    def attach(self, engine: Engine) -> None:
        engine.add_event_handler(Events.ITERATION_COMPLETED(every=STEPS), self)

    def __call__(self, engine: Engine) -> None:
        if engine.state.epoch in KEPT:
            epoch, used = str(engine.state.epoch), time.process_time() - self.evaluating
            save_model(self.network.served_state(), self.settings, self.folder / f"{epoch}.pt")
            self.seconds[epoch] = used
            (self.folder / "seconds.json").write_text(json.dumps(self.seconds))


def ours(arguments: argparse.Namespace) -> None:
    """Train as the bundle does, from partial or full labels, and test some epochs."""
    name = "ours_full" if arguments.full else "ours_partial"
    folder = (arguments.out / name).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bundle = ROOT / "bundles" / "acdc"
    # A training needs validation images. One test subject is validated at the end of a stage, where nothing is chosen.
    listed = load_datalist(arguments.out / ("full.json" if arguments.full else "hearts.json"))
    first = listed["test"][0]["subject"]
    listed["validation"] = [item for item in listed["test"] if item["subject"] == first]
    listed["test"] = []
    write_datalist(listed, folder / "list.json", absolute=True)
    handler = {
        "_target_": "time_to_dice.KeepStates",
        "network": "@network",
        "folder": str(folder),
        "evaluators": ["@validate#evaluator"]
        + ["@validate#shuffled"] * ("self_training.json" not in arguments.overlay),
        "settings": "@validate#save#settings",
    }
    (folder / "keep.json").write_text(json.dumps({"+train#handlers": [handler]}))
    words = {"datalist": folder / "list.json", "output_dir": folder / "out", "model_file": folder / "model.pt"}
    words |= {"iterations_per_epoch": STEPS, "stage1_epochs": 9, "stage2_epochs": 21, "val_interval": 3}
    options = [word for key, value in words.items() for word in (f"--{key}", str(value))]
    command = command_of("train", bundle, options, [*arguments.overlay, str(folder / "keep.json")])
    path = f"{ROOT / 'benchmarks'}:{os.environ.get('PYTHONPATH', '')}"
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    seconds = json.loads((folder / "seconds.json").read_text())
    curve = []
    for epoch, used in seconds.items():
        predictor = Predictor(bundle, folder / f"{epoch}.pt")
        curve.append({"epoch": int(epoch), "minutes": used / 60, **tested(arguments.out, predictor)})
    add(arguments.out, name, curve)


def tested(out: Path, predict: Callable[[str], torch.Tensor]) -> dict[str, Any]:
    """Dice of the test patients, on the images' own grids."""
    rows = dict[str, list[list[float]]]()
    for item in load_datalist(out / "full.json")["test"]:
        rows.setdefault(item["subject"], []).append(dice(predict(item["image"]).argmax(0).numpy(), truth(item)))
    return by_patient(rows)


def plain(arguments: argparse.Namespace) -> None:
    """MONAI's SupervisedTrainer with DiceCELoss, on the same grid, network, augmentation and steps; full labels."""
    set_determinism(0)
    listed = load_datalist(arguments.out / "full.json")
    both, modes = ["image", "label"], ("bilinear", "nearest")
    load = Compose(
        [
            LoadImaged(both, ensure_channel_first=True),
            Spacingd(both, (1.8, 1.8, -1), mode=modes),
            ResizeWithPadOrCropd(both, (112, 112, -1)),
            NormalizeIntensityd("image"),
        ]
    )
    volumes = [load({key: item[key] for key in both}) for item in listed["training"]]
    slices = [{key: v[key][..., k] for key in both} for v in volumes for k in range(v["image"].shape[-1])]
    affine = {"rotate_range": 0.7, "shear_range": (0.2, 0.2), "scale_range": (0.3, 0.3), "translate_range": (12, 12)}
    change = Compose(
        [
            RandAffined(both, prob=0.9, mode=modes, padding_mode="zeros", **affine),
            RandAdjustContrastd("image", 0.8, (0.5, 2.0), retain_stats=True),
            RandGaussianSmoothd("image", prob=0.3, sigma_x=(0.5, 1.2), sigma_y=(0.5, 1.2)),
            RandGaussianNoised("image", 0.3, std=0.2),
            RandScaleIntensityd("image", 0.25, 0.5),
            RandShiftIntensityd("image", 0.25, prob=0.5),
        ]
    )
    sampler = RandomSampler(slices, replacement=True, num_samples=STEPS * 8)
    loader = DataLoader(Dataset(slices, change), batch_size=8, sampler=sampler)
    network = BasicUNet(2, 1, 4, features=(16, 16, 32, 64, 128, 16), norm="batch")
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    trainer = SupervisedTrainer(
        torch.device("cpu"),
        KEPT[-1],
        loader,
        network,
        optimizer,
        DiceCELoss(softmax=True, to_onehot_y=True),
        train_handlers=[
            LrScheduleHandler(CosineAnnealingLR(optimizer, KEPT[-1] * STEPS), print_lr=False, epoch_level=False)
        ],
        decollate=False,
    )
    states: dict[int, tuple[float, dict[str, torch.Tensor]]] = {}

    def keep(engine: Engine) -> None:
        if engine.state.epoch in KEPT:
            states[engine.state.epoch] = (time.process_time(), copy.deepcopy(network.state_dict()))

    trainer.add_event_handler(Events.EPOCH_COMPLETED, keep)
    trainer.run()
    curve, inferer, network = [], SliceInferer((112, 112), 16, spatial_dim=2), network.eval()

    @torch.no_grad()
    def predict(image: str) -> torch.Tensor:
        original = LoadImaged("image", ensure_channel_first=True)({"image": image})["image"]
        small = Spacing((1.8, 1.8, -1), mode="bilinear")(original)
        cut = NormalizeIntensity()(ResizeWithPadOrCrop((112, 112, -1))(small))
        found = inferer(cut[None].as_tensor(), network)[0].softmax(0)
        return ResampleToMatch(mode="bilinear", padding_mode="zeros")(MetaTensor(found, affine=cut.affine), original)

    for epoch, (seconds, state) in states.items():
        network.load_state_dict(state)
        curve.append({"epoch": epoch, "minutes": seconds / 60, **tested(arguments.out, predict)})
    add(arguments.out, "monai_full", curve)


def report(arguments: argparse.Namespace) -> None:
    """Print all curves, and the ratios of the bridge."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(arguments.out.glob("*_*.json"))}
    for name, curve in found.items():
        add(arguments.out, name, curve)
    if {"nnunet_completed", "nnunet_full", "nnunet_ignore"} <= set(found):
        last = {name: found[f"nnunet_{name}"][-1] for name in ("completed", "full", "ignore")}
        print(f"completed / full: {last['completed']['dice'] / last['full']['dice']:.3f}")
        for other in ("full", "ignore"):
            pairs = [(d, last[other]["patients"][p]) for p, d in last["completed"]["patients"].items()]
            a, b = zip(*pairs, strict=True)
            difference, p = np.mean(a) - np.mean(b), stats.wilcoxon(a, b).pvalue
            better = sum(x > y for x, y in pairs)
            print(f"completed - {other}: {difference:.3f}, better in {better} of {len(pairs)} patients, p = {p:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"data": data, "filled": filled, "nnunet": nnunet, "ours": ours, "monai": plain, "report": report}
    parser.add_argument("what", choices=commands)
    parser.add_argument("number", type=int, nargs="?", help="of nnU-Net's data set")
    parser.add_argument("--acdc", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nnunet", type=Path, help="folder of nnU-Net's commands")
    parser.add_argument("--full", action="store_true", help="train ours from full labels")
    parser.add_argument("--overlay", nargs="+", default=[], help="of our training, such as self_training.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    commands[arguments.what](arguments)


if __name__ == "__main__":
    main()
