"""
Look at everything that a MONAI Label server needs before it starts, and make the copy of the bundle that it serves.

Training on the server writes over the served model, so it is a copy. What it has learned stays when the server starts
again; its configuration is written again each time, from the bundle. Called by ``server.py``.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guard import EXTENSIONS
from monai.bundle import ConfigParser

from dcl_monai.networks import load_model, load_weights
from dcl_monai.utils import DataError, as_literal
from dcl_monai.utils.files import copy_atomic, file_hash, write_atomic

HERE = Path(__file__).resolve().parent
APP = Path("monailabel/sample-apps/monaibundle")
"""Where MONAI Label's wheel puts its stock app, below the environment."""


def check_port(port: int) -> None:
    """Refuse a port that another program listens on."""
    if not 0 < port < 65536:
        raise DataError(f"--port {port}: is not a port. Choose one from 1024 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: a port just left is free
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DataError(
                f"--port {port}: cannot be used ({error.strerror}). Stop the server that has it, or choose another."
            ) from error


def check_studies(studies: Path) -> None:
    """Say what the server will find in the studies folder."""
    if not studies.is_dir():
        raise DataError(f"{studies}: no such folder. Set --studies to a folder of NIfTI files, one per image.")
    images = [path for path in studies.iterdir() if path.name.endswith(EXTENSIONS)]
    outside = [path for path in images if not path.resolve().is_relative_to(studies.resolve())]
    if outside:
        raise DataError(f"{outside[0]}: is a link that leads out of {studies}. Copy the file there.")
    below = any(path.name.endswith(EXTENSIONS) for path in studies.glob("*/*") if path.parent.name != "labels")
    note = " (images in folders below are not seen: put them beside each other)" if below and not images else ""
    print(f"studies: {studies.resolve()}, {len(images)} image(s){note}")


def prepare(bundle: Path, workspace: Path, app: Path, fresh: bool = False) -> Path:
    """
    Make or renew the app with its copy of the bundle.

    Args:
        bundle: folder of the bundle.
        workspace: folder that the server works in.
        app: MONAI Label's stock app.
        fresh: whether to take the bundle's model again, in the place of one that was trained on the server.

    Returns:
        the copy.

    Raises:
        DataError: when the bundle is none, or its model is missing, damaged, or does not fit.
    """
    for name in ("train.json", "inference.json", "metadata.json"):
        if not (bundle / "configs" / name).is_file():
            raise DataError(
                f"{bundle}: is not a bundle, configs/{name} is missing. Set --bundle to a folder like bundles/acdc."
            )
    if not re.fullmatch(r"[\w.-]+", bundle.name):
        raise DataError(f"{bundle}: its name is the model's name on the server. Use letters, digits, '-' and '_'.")
    source, copy = bundle / "models" / "model.pt", workspace / "app" / "model" / bundle.name
    served = copy / "models" / "model.pt"
    if not source.is_file() and (fresh or not served.is_file()):
        raise DataError(
            f"{source}: no model yet. Train one first: python -m monai.bundle run training --config_file "
            f"{bundle / 'train.json'}; or copy a model.pt there."
        )
    taken = workspace / f"{bundle.name}.sha256"
    if fresh or not served.is_file():
        check_model(source, bundle)
        keep_previous(served)
        copy_atomic(source, served)
        write_atomic(taken, file_hash(source))
    content = check_model(served, bundle)
    shutil.copytree(app, workspace / "app", dirs_exist_ok=True, ignore=shutil.ignore_patterns("model", "__pycache__"))
    write_configs(bundle, copy, content["settings"]["classes"])
    for name in ("run", "tmp"):
        (workspace / name).mkdir(exist_ok=True)
    workspace.chmod(0o700)  # the model's bank holds images of patients
    print(f"model: {served}, {', '.join(content['settings']['classes'][1:])}")
    if file_hash(served) != taken.read_text(encoding="utf-8"):
        print("  trained on this server since it was copied from the bundle; --fresh serves the bundle's model again")
    elif source.is_file() and file_hash(source) != file_hash(served):
        print("  the bundle now has another model; --fresh serves it")
    return copy


def keep_previous(served: Path) -> None:
    """Put a model that is about to be replaced aside."""
    if served.is_file():
        kept = served.parent / "previous" / f"{file_hash(served)[:16]}.pt"
        copy_atomic(served, kept)
        print(f"the model served before is kept as {kept}")


def check_model(path: Path, bundle: Path) -> dict[str, Any]:
    """Load a model into its network, as if a stranger had sent it."""
    content = load_model(path)
    if not content["settings"]:
        raise DataError(f"{path}: has no settings, so its classes are not known. Train it with this project.")
    config = ConfigParser()
    config.read_config(str(bundle / "configs" / "inference.json"))
    config.update({"bundle_root": as_literal(bundle), "model_file": as_literal(path)})
    load_weights(config.get_parsed_content("network_def"), content, path)
    return content


def write_configs(bundle: Path, copy: Path, classes: Sequence[str]) -> None:
    """Write the configuration of the copy: the bundle's, with training as a server does it and the model's classes."""
    configs = bundle / "configs"
    metadata = json.loads((configs / "metadata.json").read_text(encoding="utf-8"))
    pred = metadata["network_data_format"]["outputs"]["pred"]
    pred |= {"num_channels": len(classes), "channel_def": {str(j): name for j, name in enumerate(classes)}}
    content = {
        "metadata.json": metadata,
        "inference.json": ConfigParser.load_config_files([str(configs / "inference.json")]),
        "train.json": ConfigParser.load_config_files([str(configs / "train.json"), str(HERE / "train.json")]),
    }
    for name, value in content.items():
        write_atomic(copy / "configs" / name, json.dumps(value, indent=4))
    if (configs / "logging.conf").is_file():
        write_atomic(copy / "configs" / "logging.conf", (configs / "logging.conf").read_text(encoding="utf-8"))
