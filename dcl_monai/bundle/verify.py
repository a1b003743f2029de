"""The model zoo's checks of a bundle, offline."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from monai.bundle import ConfigParser, ckpt_export, verify_net_in_out
from monai.bundle.properties import InferProperties, TrainProperties
from monai.bundle.utils import ID_SEP_KEY
from monai.utils import BundleProperty, BundlePropertyConfig

from dcl_monai.networks import load_model, load_weights
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error

FILES = (
    "LICENSE",
    "configs/metadata.json",
    "configs/train.json",
    "configs/inference.json",
    "docs/README.md",
    "docs/data_license.txt",
)
FIELDS = (
    "schema",
    "version",
    "changelog",
    "monai_version",
    "pytorch_version",
    "numpy_version",
    "required_packages_version",
    "task",
    "description",
    "authors",
    "copyright",
    "network_data_format",
)
MISSING = object()
PACKAGES = {"monai": "monai", "torch": "torch", "numpy": "numpy", "dcl_monai": "dcl-monai", "ignite": "pytorch-ignite"}
"""Packages that a configuration may use if ``metadata.json`` names them; the first three always."""
LARGEST = 25_000_000
"""Bytes of a file that the zoo takes; larger ones are listed in ``large_files.yml``."""
PRIVATE = ("data", "runs", "output", "evaluation", "predictions")
"""Folders that are not shared."""


def verify_bundle(folder: str | Path) -> Iterator[tuple[str, str | None]]:
    """
    Run all checks of a bundle, but those of a model while there is none.

    Yields:
        name of a check, and what is wrong in one line; ``None`` if nothing is.
    """
    folder = Path(folder)
    trained = (folder / "models" / "model.pt").is_file()
    for name, check in CHECKS.items():
        if check in (check_model, check_export) and not trained:
            continue
        try:
            with quiet():
                check(folder)
        except Exception as error:  # a broken bundle makes MONAI raise whatever it likes
            yield name, reason(error)
        else:
            yield name, None


def reason(error: Exception) -> str:
    """An error in one line."""
    known = find_user_error(error)
    if known is not None:
        return str(known)
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0] if lines else 'no reason given'}"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what MONAI prints and warns of away from the list of checks."""
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def metadata(folder: Path) -> dict[str, Any]:
    """The content of ``metadata.json``."""
    return dict(json.loads((folder / "configs" / "metadata.json").read_text(encoding="utf-8")))


def inference(folder: Path) -> ConfigParser:
    """The configuration of inference, wherever the bundle lies."""
    parser = ConfigParser()
    parser.read_config(str(folder / "configs" / "inference.json"))
    parser["bundle_root"] = str(folder)
    return parser


def check_files(folder: Path) -> None:
    """All files that a bundle must have."""
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise DataError(f"{folder}: {', '.join(missing)} is missing. Copy it from another bundle and adapt it.")


def check_metadata(folder: Path) -> None:
    """Fields of ``metadata.json``, and its version in its changelog."""
    content, path = metadata(folder), folder / "configs" / "metadata.json"
    missing = [name for name in FIELDS if name not in content]
    if missing:
        raise DataError(f"{path}: has no {', '.join(missing)}. Add it.")
    if not re.fullmatch(r"\d+\.\d+\.\d+", content["version"]):
        raise DataError(f"{path}: version {content['version']!r} is not of the form 1.2.3. Correct it.")
    if content["version"] not in content["changelog"]:
        raise DataError(f"{path}: version {content['version']} is not in the changelog. Add what is new.")


def check_properties(folder: Path) -> None:
    """Ids that MONAI's tools look for in the workflows."""
    for name, properties in (("train.json", TrainProperties), ("inference.json", InferProperties)):
        config = ConfigParser(ConfigParser.load_config_file(str(folder / "configs" / name)))
        for entry in properties.values():
            id_ = str(entry[BundlePropertyConfig.ID])
            if entry[BundleProperty.REQUIRED] and config.get(id_, MISSING) is MISSING:
                id_ = id_.replace(ID_SEP_KEY, "#")
                raise DataError(f"{folder / 'configs' / name}: has no id {id_!r}, which MONAI's tools need. Add it.")


def check_imports(folder: Path) -> None:
    """Configurations use Python's own modules, and packages that the metadata names."""
    named = {*metadata(folder)["required_packages_version"], "monai", "torch", "numpy"}
    for path in sorted((folder / "configs").glob("*.json")):
        for root in sorted(packages_of(json.loads(path.read_text(encoding="utf-8")))):
            if root not in sys.stdlib_module_names and PACKAGES.get(root, root) not in named:
                raise DataError(
                    f"{path}: uses the package {root}, which required_packages_version of metadata.json does not name. "
                    "Add it there, or do not use it."
                )


def packages_of(value: Any) -> set[str]:
    """Packages that a configuration imports or names as targets."""
    if isinstance(value, dict):
        target = str(value.get("_target_", ""))
        own = {target.partition(".")[0]} if re.fullmatch(r"\w+(\.\w+)+", target) else set()
        return own.union(*(packages_of(entry) for entry in value.values()))
    if isinstance(value, list):
        return set().union(*map(packages_of, value))
    if isinstance(value, str) and re.match(r"\$(import|from) ", value):
        tree = ast.parse(value[1:])
        names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        names += [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
        return {name.partition(".")[0] for name in names}
    return set()


def check_sizes(folder: Path) -> None:
    """Files that are shared are small, or listed as large."""
    listed = "".join(path.read_text(encoding="utf-8") for path in folder.glob("large_files.*"))
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] in PRIVATE or not path.is_file() or str(inside) in listed:
            continue
        if path.stat().st_size > LARGEST:
            raise DataError(f"{path}: has {path.stat().st_size / 1e6:.0f} MB. List it in large_files.yml to share it.")


def check_network(folder: Path) -> None:
    """The network as the metadata says it, before its training."""
    verify_net_in_out(**network_arguments(folder), model_file="none")


def network_arguments(folder: Path) -> dict[str, Any]:
    """Arguments of :py:func:`monai.bundle.verify_net_in_out`."""
    return {
        "net_id": "network_def",
        "meta_file": str(folder / "configs" / "metadata.json"),
        "config_file": str(folder / "configs" / "inference.json"),
        "device": "cpu",
        "bundle_root": str(folder),
    }


def check_model(folder: Path) -> None:
    """The trained model: it fits its network, and is what the metadata says."""
    path = folder / "models" / "model.pt"
    content = load_model(path)
    load_weights(inference(folder).get_parsed_content("network_def"), content, path)
    form = metadata(folder)["network_data_format"]
    said = list(form["outputs"]["pred"]["channel_def"].values())
    classes = content["settings"].get("classes", said)
    if classes != said:
        raise DataError(
            f"{path}: segments {', '.join(classes)}, but metadata.json says {', '.join(said)}. It is the model of "
            "another bundle: train this one, or correct channel_def."
        )
    dims = len(form["inputs"]["image"]["spatial_shape"])
    if content["settings"].get("network", {}).get("spatial_dims", dims) != dims:
        raise DataError(f"{path}: is not a {dims}D network, but metadata.json says so. Train this bundle.")
    verify_net_in_out(**network_arguments(folder))


def check_export(folder: Path) -> None:
    """MONAI exports the model as it is, without being told where in the file the weights are."""
    path = folder / "models" / "model.pt"
    with tempfile.TemporaryDirectory() as name:
        arguments = network_arguments(folder)
        arguments.pop("device")
        ckpt_export(**arguments, ckpt_file=str(path), filepath=f"{name}/model.ts")
        torch.jit.load(f"{name}/model.ts", map_location="cpu")


CHECKS: dict[str, Callable[[Path], None]] = {
    "required files": check_files,
    "metadata and changelog": check_metadata,
    "workflow properties": check_properties,
    "imports": check_imports,
    "file sizes": check_sizes,
    "network, untrained (verify_net_in_out)": check_network,
    "model (verify_net_in_out)": check_model,
    "export (ckpt_export)": check_export,
}
"""Checks by name; each raises what is wrong."""
