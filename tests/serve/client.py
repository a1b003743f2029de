"""
Speak to a MONAI Label server as 3D Slicer's module does, by MONAI Label's own client, in the server's environment.

Reads steps from standard input and writes their results to standard output, both as JSON lists.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any

from monailabel.client import MONAILabelClient

client = MONAILabelClient(sys.argv[1], tmpdir=sys.argv[2])
info = client.info()
(model,) = info["models"]


def options(section: str) -> dict[str, Any]:
    """What Slicer sends with a request: every option that the server offers, the first of a list."""
    return {
        key: value[0] if isinstance(value, list) else value for key, value in info[section][model]["config"].items()
    }


def infer(image: str, output: str) -> dict[str, Any]:
    params = options("models") | {"result_extension": ".nii.gz", "result_dtype": "uint8"}
    file, result = client.infer(model, image, params)
    shutil.move(file, output)
    return result


def store(image: str, label: str, note: dict[str, Any]) -> dict[str, Any]:
    return client.save_label(image, label, params=note)


def upload(image: str, file: str) -> dict[str, Any]:
    return client.upload_image(file, image)


def next_sample() -> dict[str, Any]:
    return client.next_sample("first", {})


def train(epochs: int) -> dict[str, Any]:
    client.train_start(model, options("trainers") | {"max_epochs": epochs})
    status: dict[str, Any] = {"status": "RUNNING"}
    while status["status"] in ("SUBMITTED", "RUNNING"):
        time.sleep(0.5)
        status = client.train_status()
    return status


steps = {"info": lambda: info, "infer": infer, "store": store, "upload": upload, "next": next_sample, "train": train}
results = [steps[name](*arguments) for name, *arguments in json.load(sys.stdin)]
json.dump(results, sys.stdout)
