"""The one writer and reader of model files.

A file is a plain state dict, as every MONAI tool loads it. What inference needs to know travels in its entry
``settings_json``, JSON as bytes. Older files hold ``{"model": state dict, "settings": settings}``.

A file is read as if a stranger had sent it: no code is run, and what does not fit is said in one line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dcl_monai.utils import DataError
from dcl_monai.utils.files import load_checked, save_atomic

from .dclnet import DCLNet

SETTINGS = "settings_json"
"""Entry of the state dict that holds the settings."""
SETTING_NAMES = (
    *("classes", "channels", "pixdim", "spatial_size", "intensity", "single_parts", "network"),
    "bounds",
)
"""All that training writes beside the weights, and ``bounds``, which calibration adds."""
BOUND_COUNTS = frozenset({"subjects", "images"})
BOUND_NUMBERS = frozenset(
    {"dice_margin", "volume_factor", "volume_offset_ml", "least_confidence", "least_ml", "most_ml"}
)
"""What a model says of the bounds of a structure: always the first, and the second where there are bounds."""
LARGEST = 4096
"""No voxel has more mm and no grid has more voxels along an axis."""
BANK = ("bank.images", "bank.masks", "bank.valid", "bank.descriptors")


def save_model(state: Mapping[str, torch.Tensor], settings: Mapping[str, Any], path: str | Path) -> None:
    """
    Write a model file, in one step: a server never reads half of it.

    Args:
        state: state dict of a :class:`~dcl_monai.networks.DCLNet`, with its conditional bank.
        settings: what inference needs to know, see :func:`load_model`.
        path: the file.
    """
    text = json.dumps(dict(settings)).encode()
    save_atomic({**state, SETTINGS: torch.frombuffer(bytearray(text), dtype=torch.uint8)}, path)


def load_model(path: str | Path) -> dict[str, Any]:
    """
    Read a model file.

    Args:
        path: state dict of a :class:`~dcl_monai.networks.DCLNet`, as the bundles write it; an older file has it under
            the key ``model``.

    Returns:
        ``model``, the state dict on the CPU, and ``settings``: ``classes``, ``channels`` (older models have none),
        ``pixdim``, ``spatial_size``, ``intensity`` (``clip``, ``mean`` and ``std``, or ``None``, or a list of these for
        the channels; older models have none), ``single_parts`` (the classes of which the largest part alone is kept;
        may be missing), ``bounds`` (of :func:`~dcl_monai.metrics.calibrate_bounds`; may be missing) and ``network``,
        the arguments of :class:`~dcl_monai.networks.CompNet`. Models of other programs have no settings.

    Raises:
        DataError: when the file is missing, damaged, or holds anything but tensors and plain settings.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such model. Train one first, or set --model_file to another.")
    content = load_checked(path, "a model", "copy it again, or use a model that trained well")
    if isinstance(content, Mapping) and "model" not in content:
        content = {"model": content, "settings": _read_settings(content.get(SETTINGS), path)}
    state = content.get("model") if isinstance(content, Mapping) else None
    settings = content.get("settings", {}) if isinstance(content, Mapping) else None
    if not (isinstance(state, Mapping) and state and all(isinstance(v, torch.Tensor) for v in state.values())):
        raise DataError(f"{path}: holds no weights of a network. Set --model_file to a model of this project.")
    weights = {name: value for name, value in state.items() if name != SETTINGS}
    return {"model": weights, "settings": _checked_settings(settings, path)}


def check_model(model_file: str | Path) -> None:
    """
    Raise a :class:`~dcl_monai.utils.DataError` if there is a model file and it is damaged.

    Bundles call it first, since their configuration takes settings out of the file.
    """
    if Path(model_file).is_file():
        load_model(model_file)


def load_weights(network: DCLNet, content: Mapping[str, Any], path: str | Path) -> DCLNet:
    """
    Load weights and conditional bank into a network.

    Args:
        network: the network.
        content: the content of the file, see :func:`load_model`.
        path: the file, for messages.

    Returns:
        the network.

    Raises:
        DataError: when the weights belong to another network, or a conditional network has no bank.
    """
    state = content["model"]
    expected, found = _weight_shapes(network.state_dict()), _weight_shapes(state)
    different = [name for name in dict.fromkeys([*expected, *found]) if expected.get(name) != found.get(name)]
    if different:
        name, bank = different[0], state.get("bank.images", torch.zeros(0))
        held = f"a conditional model of {len(bank)} classes" if bank.dim() > 4 else "a model without conditions"
        kind = "conditional" if network.conditional else "unconditional"
        raise DataError(
            f"{path}: does not fit the {kind} network of {network.num_classes} classes: {name} is "
            f"{found.get(name, 'missing')} in the file and {expected.get(name, 'missing')} in the network. The file "
            f"seems to hold {held}: set --num_classes, --conditional and network_def as in its training."
        )
    if network.conditional:
        _check_bank(state, network.num_classes, path)
    network.load_state_dict(state, strict=False)
    return network


def load_trained(network: DCLNet, path: str | Path, classes: Sequence[str]) -> DCLNet:
    """
    Load a model file into the network that a training configuration describes, for data of these classes.

    Args:
        network: the network.
        path: the file, see :func:`load_model`.
        classes: names of the data's classes, background first.

    Returns:
        the network.

    Raises:
        DataError: when the file cannot be used, or was trained for other classes.
    """
    content = load_model(path)
    trained = content["settings"].get("classes", list(classes))
    if trained != list(classes):
        raise DataError(
            f"{path}: segments {', '.join(trained)}, but the data has {', '.join(classes)}. Evaluate it on data with "
            "its classes, by the same names in the same order."
        )
    return load_weights(network, content, path)


def bank_sizes(network: DCLNet, classes: Sequence[str]) -> dict[str, int]:
    """Number of images that the bank of a network holds for each class; nothing for an unconditional network."""
    if not network.conditional:
        return {}
    return dict(zip(classes, network.bank.valid.sum(dim=1).tolist(), strict=True))


def _weight_shapes(state: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """Shapes of all but the bank and the settings, which are as large as they like."""
    return {name: tuple(value.shape) for name, value in state.items() if name not in (*BANK, SETTINGS)}


def _check_bank(state: Mapping[str, torch.Tensor], num_classes: int, path: str | Path) -> None:
    images, masks, valid, descriptors = (state.get(name, torch.zeros(0)) for name in BANK)
    if images.dim() < 5 or not valid.any():
        raise DataError(
            f"{path}: carries no conditional bank, without which the network cannot run. Give it one: "
            "python -m dcl_monai bank."
        )
    places = images.shape[:2]
    fits = masks.shape == places + images.shape[3:] and valid.shape == places and descriptors.shape[:2] == places
    if not fits or len(images) != num_classes or valid.dtype != torch.bool:
        raise DataError(f"{path}: its conditional bank is inconsistent. Make it again: python -m dcl_monai bank.")


def _read_settings(packed: Any, path: Path) -> Any:
    """Unpack the settings of a state dict; none for a model of another program."""
    if packed is None or (isinstance(packed, torch.Tensor) and packed.numel() == 0):
        return {}
    try:
        return json.loads(bytes(packed.tolist()))
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: its settings are damaged ({error}). Copy the file again.") from error


def _checked_settings(settings: Any, path: Path) -> dict[str, Any]:
    """Settings are read by a configuration: lists of words and numbers where those are expected."""
    if settings == {}:
        return {}
    if (
        isinstance(settings, Mapping)
        and set(settings) <= set(SETTING_NAMES)
        and _are_names(settings.get("classes"))
        and _are_names(settings.get("channels", ["image"]))
        and _are_sizes(settings.get("pixdim"), (int, float))
        and _are_sizes(settings.get("spatial_size"), int)
        and isinstance(settings.get("network"), Mapping)
        and _is_intensity(settings.get("intensity"))
        and _fit_channels(settings)
        and isinstance(settings.get("single_parts", []), list)
        and all(name in settings["classes"][1:] for name in settings.get("single_parts", []))
        and settings["network"].get("num_classes") == len(settings["classes"])
        and _is_harmless(settings["network"])
        and _are_bounds(settings.get("bounds", {"level": 0.9, "structures": {}}), settings["classes"])
    ):
        if "propagation" in settings["network"]:
            raise DataError(
                f"{path}: was trained by an earlier version of dcl-monai, whose networks compared conditions by "
                "features (`propagation`), which is no longer supported. Retrain the model."
            )
        return dict(settings)
    raise DataError(f"{path}: its settings are damaged ({str(settings)[:80]}). Copy the file again.")


def _are_names(value: Any) -> bool:
    """Whether these are names of classes: words, each once."""
    return (
        isinstance(value, list)
        and all(isinstance(name, str) and name.strip() for name in value)
        and len(set(value)) == len(value)
    )


def _are_sizes(value: Any, kind: Any) -> bool:
    """Whether these are sizes along two or three axes; -1 leaves an axis as it is."""
    return (
        isinstance(value, list)
        and len(value) in (2, 3)
        and all(isinstance(size, kind) and not isinstance(size, bool) for size in value)
        and all(size == -1 or 0 < size <= LARGEST for size in value)  # nan is neither
    )


def _is_intensity(value: Any) -> bool:
    """Whether grey values can be scaled by these settings: ``None``, or ``clip``, ``mean`` and ``std``; or a list."""
    if value is None:
        return True
    if isinstance(value, list):  # one per channel
        return bool(value) and all(not isinstance(entry, list) and _is_intensity(entry) for entry in value)
    if not isinstance(value, Mapping) or set(value) != {"clip", "mean", "std"}:
        return False
    clip = value["clip"]
    numbers = [*clip, value["mean"], value["std"]] if isinstance(clip, list) and len(clip) == 2 else [None]
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        return False
    return bool(clip[0] < clip[1] and value["std"] > 0)


def _are_bounds(value: Any, classes: Sequence[str]) -> bool:
    """Whether these are bounds as :func:`dcl_monai.metrics.calibrate_bounds` gives them: finite numbers by class."""
    if not isinstance(value, Mapping) or set(value) != {"level", "structures"}:
        return False
    structures = value["structures"]
    if not isinstance(structures, Mapping) or not set(structures) <= set(classes):
        return False
    if not all(isinstance(entry, Mapping) for entry in structures.values()):
        return False
    numbers = [value["level"], *(number for entry in structures.values() for number in entry.values())]
    sizes = {frozenset(entry) for entry in structures.values()}
    return sizes <= {BOUND_COUNTS, BOUND_COUNTS | BOUND_NUMBERS} and all(
        isinstance(number, (int, float)) and math.isfinite(number) for number in numbers
    )


def _fit_channels(settings: Mapping[str, Any]) -> bool:
    """Whether names and grey values are those of as many channels as the network takes."""
    channels = settings["network"].get("image_channels", 1)
    several = [settings[key] for key in ("channels", "intensity") if isinstance(settings.get(key), list)]
    return all(len(entry) == channels for entry in several)


def _is_harmless(value: Any) -> bool:
    """Whether arguments of a network are numbers and names: no path and no address that it would load weights from."""
    if isinstance(value, Mapping):
        return all(_is_harmless([name, entry]) and "pretrained" not in str(name) for name, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_harmless, value))
    if isinstance(value, str):
        return re.fullmatch(r"\w*", value) is not None
    return value is None or isinstance(value, (bool, int, float))
