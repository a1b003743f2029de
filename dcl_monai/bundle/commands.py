"""What people do with a bundle, as verbs: each is one command of ``python -m monai.bundle``, which it prints."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from monai.bundle import ConfigParser
from PIL import Image

from dcl_monai.inferers.names import output_name
from dcl_monai.transforms.images import is_picture
from dcl_monai.utils import DataError

from .command_line import check_ids, options
from .resources import overlay_folder

WORKFLOWS = {"train": "training", "evaluate": "evaluating", "predict": "run"}
FORMATS = {"ts": ("ckpt_export", "network_def"), "onnx": ("onnx_export", "network_def"), "pt2": ("run", "exporting")}
"""What an export runs, by the ending of its file: TorchScript, ONNX, a program of ``torch.export``."""
CONFIGS = {"train": ("train",), "evaluate": ("train", "evaluate"), "predict": ("inference",), "export": ("inference",)}


def command_of(
    verb: str, bundle: str | Path, words: Sequence[str] = (), overlays: Sequence[str] = (), form: str = "ts"
) -> list[str]:
    """
    The command behind a verb.

    Args:
        verb: ``train``, ``evaluate``, ``predict`` or ``export``.
        bundle: folder of the bundle.
        words: further options, ids of its configuration such as ``--batch_size 4``.
        overlays: config files that are merged over the bundle's; a name such as ``losses/ce.json`` is one of this
            project's.
        form: of an export: ``ts``, ``onnx`` or ``pt2``.

    Raises:
        DataError: when the folder is not a bundle, a model is missing, or an option does not exist.
    """
    folder = Path(bundle)
    files = [folder / "configs" / f"{name}.json" for name in CONFIGS[verb]]
    for file in files:
        if not file.is_file():
            raise DataError(f"{folder}: is not a bundle: configs/{file.name} is missing. Make one: dcl-monai new.")
    given = options(words)
    if verb == "train":
        overlays = [*overlays, *own_overlays(given)]
    elif "fold" in given:
        words = fold_words(verb, folder, words)
        given = options(words)
    if verb == "export" and form == "pt2":
        overlays = [*overlays, "torch_export.json"]
    files += [find_overlay(name) for name in overlays]
    check_words(words, files)
    model = Path(str(given.get("model_file", folder / "models" / "model.pt")))
    if verb != "train" and not model.is_file():
        raise DataError(f"{model}: no such model. Train one first: dcl-monai train {shlex.quote(str(folder))}")
    command = [sys.executable, "-m", "monai.bundle", *(FORMATS[form] if verb == "export" else ("run", WORKFLOWS[verb]))]
    if verb == "export":
        exported = {"filepath": folder / "models" / f"model.{form}", "bundle_root": folder}
        if form != "pt2":
            exported |= {"ckpt_file": model, "meta_file": folder / "configs" / "metadata.json"}
        if form == "onnx":
            exported |= {"args_file": folder / "configs" / "onnx_export.json"}
        for name, path in exported.items():
            command += [] if name in given else [f"--{name}", str(path)]
    names = [str(file) for file in files]
    return [*command, "--config_file", names[0] if len(names) == 1 else json.dumps(names), *words]


def find_overlay(name: str) -> Path:
    """The file of an overlay, here or among those of this project."""
    for path in (Path(name), overlay_folder() / name):
        if path.is_file():
            return path
    raise DataError(f"--overlay {name}: no such file, here or in {overlay_folder()}.")


def own_overlays(given: Mapping[str, Any]) -> list[str]:
    """Overlays behind ``--minutes`` and ``--fold`` of a training."""
    for name in ("stage1_epochs", "stage2_epochs", "iterations_per_epoch", "val_interval"):
        if "minutes" in given and name in given:
            raise DataError(f"--{name} {given[name]}: --minutes sets it by the time. Leave one of them out.")
    if "fold" in given and "datalist" in given:
        raise DataError(f"--datalist {given['datalist']}: --fold divides the bundle's own data. Leave one of them out.")
    return [f"{name}.json" for name in ("fold", "minutes") if name in given]


def fold_words(verb: str, folder: Path, words: Sequence[str]) -> list[str]:
    """Put model files in the place of ``--fold``; ``all`` is the mean of all folds that were trained."""
    given = options(words)
    fold = given.pop("fold")
    names = [f"fold_{fold}.pt"]
    if fold == "all" and verb == "predict":
        names = sorted(path.name for path in (folder / "models").glob("fold_*.pt"))
    if not names or (isinstance(fold, str) and verb != "predict") or "model_file" in given:
        raise DataError(f"--fold {fold}: no such model in {folder / 'models'}. Train it: dcl-monai train {folder}.")
    first, *others = (str(folder / "models" / name) for name in names)
    models = {"model_file": first} | ({"further_models": others} if others else {})
    return as_words({**models, **given})


def check_words(words: Sequence[str], files: Sequence[Path]) -> None:
    """Refuse options that are no ids of the configuration, with a suggestion."""
    if words and not words[0].startswith("-"):
        raise DataError(f"{words[0]}: is not an option. Options are ids of the configuration: --batch_size 4.")
    config = ConfigParser.load_config_files([str(file) for file in files])
    check_ids([name for name in options(words) if name not in EXPORT], config, files[0].name)


EXPORT = ("filepath", "ckpt_file", "use_trace", "input_shape", "converter_kwargs")
"""Options of MONAI's export that are no ids."""


def run_command(command: Sequence[str]) -> int:
    """Print a command, run it, and return its exit code."""
    print("$", shlex.join(["python", *command[1:]]), flush=True)
    return subprocess.run(command, env=os.environ | {"DCL_STARTED": str(time.monotonic())}).returncode


def as_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of the command line."""
    return [
        word
        for name, value in settings.items()
        for word in (f"--{name}", str(value) if isinstance(value, (str, Path)) else json.dumps(value))
    ]


def run_verb(
    verb: str, bundle: str | Path, settings: Mapping[str, Any], overlays: Sequence[str] = (), form: str = "ts"
) -> None:
    """Run a verb from Python."""
    code = run_command(command_of(verb, bundle, as_words(settings), overlays, form))
    if code:
        raise DataError(f"{bundle}: {verb} failed with exit code {code}; its output above says why.")


def train(bundle: str | Path, overlays: Sequence[str] = (), **settings: Any) -> Path:
    """
    Train a bundle.

    Args:
        bundle: folder of a bundle; or a YAML file that describes data, whose bundle is the folder of that name beside
            it and is made if there is none.
        overlays: see :func:`command_of`.
        **settings: ids of the configuration, such as ``stage1_epochs=4``.

    Returns:
        the folder of the bundle; its model is ``models/model.pt``.
    """
    folder = bundle_of(bundle)
    if not (folder / "configs" / "train.json").is_file() and Path(bundle).is_file():
        from .new import new_bundle

        new_bundle(bundle, folder)
    run_verb("train", folder, settings, overlays)
    return folder


def bundle_of(path: str | Path) -> Path:
    """The folder of a bundle, for a file that describes data that of its name beside it."""
    return Path(path).with_suffix("") if Path(path).is_file() else Path(path)


def evaluate(bundle: str | Path, **settings: Any) -> None:
    """
    Test the model of a bundle.

    Args:
        bundle: folder of the bundle.
        **settings: ids of the configuration.
    """
    run_verb("evaluate", bundle, settings)


def export(bundle: str | Path, form: str = "ts", **settings: Any) -> None:
    """
    Write the model of a bundle for other programs, ``models/model.ts``.

    Args:
        bundle: folder of the bundle.
        form: ``ts`` (TorchScript), ``onnx`` or ``pt2`` (``torch.export``).
        **settings: ids of the configuration.
    """
    run_verb("export", bundle, settings, form=form)


def predict(
    bundle: str | Path,
    images: str | Path | np.ndarray,
    output: str | Path | None = None,
    spacing: Sequence[float] = (1.0, 1.0, 1.0),
    **settings: Any,
) -> np.ndarray | Path:
    """
    Segment images.

    Args:
        bundle: folder of a bundle with a model; or the YAML file that it was made from, see :func:`train`.
        images: a folder of NIfTI files, one file (NIfTI or a picture), or an array (H, W, D), of a model of several
            channels (H, W, D, C).
        output: folder of the outputs; needed for a folder.
        spacing: voxel size of an array in mm.
        **settings: ids of the configuration, such as ``num_sets=4``.

    Returns:
        for a folder that of the outputs, else the class indices of the image as an array; of a picture (rows, columns).
    """
    if isinstance(images, np.ndarray):
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "image.nii.gz"
            nib.save(nib.Nifti1Image(images.astype(np.float32), np.diag([*spacing, 1.0])), file)
            return predict(bundle, file, output, **settings)
    images, bundle = Path(images), bundle_of(bundle)
    if images.is_dir():
        if output is None:
            raise DataError(f"{images}: is a folder. Give a folder for the outputs, too.")
        run_verb("predict", bundle, {"dataset_dir": images, "output_dir": output, **settings})
        return Path(output)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(output or name)
        paths = {"dataset_dir": images.parent, "pattern": images.name, "exclude": [], "output_dir": folder}
        run_verb("predict", bundle, {**paths, "contact_sheet": False, **settings})
        segmented = folder / output_name(images.name, "seg")
        if is_picture(segmented):
            return np.asarray(Image.open(segmented))
        return np.asarray(nib.nifti1.load(segmented).dataobj)
