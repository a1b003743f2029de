"""The bundle that is run: looked at before any of it is used."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from errors import DataError, one_line
from monai.bundle import ConfigParser
from utils.errors import first_line
from utils.files import file_hash

__all__ = ["Bundle", "open_bundle"]

EXPORT = (
    "python -m monai.bundle ckpt_export network_def --filepath models/model.ts --ckpt_file models/model.pt "
    "--meta_file configs/metadata.json --config_file configs/inference.json"
)
CONFIGURED = ("classes", "pixdim", "spatial_size", "single_parts", "model_file")
"""What the configuration decides, by the model file where that is."""
MAX_PACKED = 2**26
"""torch packs code only, some kilobytes; more is an attempt to fill the memory."""


@dataclass(frozen=True)
class Bundle:
    """What the application has to know of a bundle."""

    folder: Path
    name: str
    version: str
    modality: str
    classes: list[str]
    pixdim: list[float]
    channels: int
    sha256: str

    @property
    def device_uid(self) -> str:
        """A DICOM UID of these very weights: one of the root 2.25, which any 128 bits make."""
        return f"2.25.{int(self.sha256[:32], 16)}"


def open_bundle(folder: Path, sha256: str = "") -> Bundle:
    """
    Check a bundle and its model; the working directory must be the bundle's, where its configuration looks for files.

    Args:
        folder: the bundle, with ``configs/`` and ``models/model.ts``.
        sha256: hash that the model must have, if given.

    Raises:
        DataError: when something is missing, damaged or does not fit together.
    """
    model = folder / "models" / "model.ts"
    for path in (folder / "configs" / "metadata.json", folder / "configs" / "inference.json"):
        if not path.is_file():
            raise DataError(f"{path}: no such file. Set --bundle to the folder of a bundle, such as bundles/acdc.")
    if not model.is_file():
        raise DataError(f"{model}: no such model. Export one, in the bundle's folder and where dcl-monai is: {EXPORT}")
    found = file_hash(model)
    if sha256 and sha256.lower() != found:
        raise DataError(f"{model}: has the hash {found}, but {sha256} was asked for. Do not use it: it was changed.")
    state = read_torchscript(model)
    if model.with_suffix(".pt").is_file():  # the configuration takes settings out of it
        check_archive(model.with_suffix(".pt"))
    try:
        meta = json.loads((folder / "configs" / "metadata.json").read_text(encoding="utf-8"))
        image = meta["network_data_format"]["inputs"]["image"]
        modality, channels = image["modality"], int(image.get("num_channels", 1))
        parser = ConfigParser()
        parser.read_config(str(folder / "configs" / "inference.json"))
        settings = {key: parser.get_parsed_content(key) for key in CONFIGURED}
    except Exception as error:
        raise DataError(f"{folder}: cannot read its configuration ({one_line(error)}). Copy it again.") from error
    check_fit(model, state, settings, channels)
    classes, pixdim = list(settings["classes"]), [float(size) for size in settings["pixdim"]]
    return Bundle(folder, str(meta["name"]), str(meta["version"]), modality, classes, pixdim, channels, found)


def read_torchscript(path: Path) -> dict[str, torch.Tensor]:
    """Weights and bank of a TorchScript file; refuse one that cannot be read or holds values that are not finite."""
    check_archive(path)
    try:
        state = torch.jit.load(str(path), map_location="cpu").state_dict()
    except Exception as error:  # torch raises whatever it likes
        raise damaged(path, error) from error
    broken = [name for name, value in state.items() if value.is_floating_point() and not value.isfinite().all()]
    if broken:
        raise DataError(f"{path}: {broken[0]} holds values that are not finite. Use a model that trained well.")
    return state


def check_archive(path: Path) -> None:
    """Refuse a model file that is damaged, or packed with more than code; torch does not look at the checksums."""
    try:
        with zipfile.ZipFile(path) as archive:
            packed = sum(entry.file_size for entry in archive.infolist() if entry.file_size > entry.compress_size)
            if packed > MAX_PACKED:
                raise ValueError(f"it unpacks to {packed} bytes, more than {MAX_PACKED}")
            broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"wrong checksum of {broken}")
    except Exception as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> DataError:
    """What is said of a model file that cannot be read."""
    return DataError(f"{path}: cannot be read as a model ({first_line(error)}). Copy it or export it again.")


def check_fit(model: Path, state: dict[str, torch.Tensor], settings: dict[str, Any], channels: int) -> None:
    """
    Refuse a model that is not the one whose classes and grid would be used.

    These come from ``models/model.pt`` where that is, and from ``inference.json`` otherwise. A TorchScript file knows
    only its bank, whose size and numbers of classes and channels must fit. The channels are those of ``metadata.json``,
    by which the operator goes.
    """
    source = Path(settings["model_file"])
    if source.is_file():
        weights = torch.load(source, map_location="cpu", weights_only=True)
        weights = weights.get("model", weights)
        # model.pt has more: the heads of deep supervision, which are not exported
        names = [name for name in state if name != "settings_json"]  # which an older model.pt keeps elsewhere
        different = [name for name in names if name not in weights or not torch.equal(state[name], weights[name])]
        if different:
            raise DataError(
                f"{model}: is not made from {source.resolve()} ({different[0]} differs), whose classes and grid would "
                f"be used. Export it again: {EXPORT}"
            )
    images = state.get("bank.images", torch.zeros(0))
    if images.dim() < 5:
        return  # without conditions: nothing to compare
    size = [wanted for wanted in settings["spatial_size"] if wanted > 0]
    if len(images) != len(settings["classes"]) or list(images.shape[3 : 3 + len(size)]) != size:
        raise DataError(
            f"{model}: has {len(images)} classes and a grid of {list(images.shape[3:])}, but the configuration says "
            f"{len(settings['classes'])} and {settings['spatial_size']}. Put the model.pt beside it that it was "
            "exported from."
        )
    if images.shape[2] != channels:
        raise DataError(
            f"{model}: takes {images.shape[2]} channel(s), but configs/metadata.json says {channels} (num_channels of "
            "the image). Correct it there."
        )
