"""
MONAI Label as the guard needs it: its app in this process, without its web application.

Labels are read before they are stored, so that one that nobody can train with is refused when its annotator is still
there. A label that is replaced stays in the workspace, and so does what became of trainings.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.background import BackgroundTasks
from fastapi.encoders import jsonable_encoder
from guard import Refused, reason, without_paths
from monai.transforms import LoadImage
from monailabel.endpoints import activelearning, datastore, infer, train
from monailabel.interfaces.utils.app import app_instance
from monailabel.utils.async_tasks import utils as tasks
from ranking import Ranking
from starlette.datastructures import UploadFile
from starlette.responses import Response

from dcl_monai.handlers.served import now
from dcl_monai.transforms.stored import check_annotation
from dcl_monai.utils import DataError
from dcl_monai.utils.errors import find_user_error
from dcl_monai.utils.files import copy_atomic, write_atomic

__all__ = ["MonaiLabel"]

logger = logging.getLogger(__name__)
UNFINISHED = ("SUBMITTED", "RUNNING")


class MonaiLabel:
    """
    The app of a server; see :class:`guard.Label` for its methods. Start it after Label's settings are made.

    Args:
        workspace: folder of what the server writes.
        classes: class names of the model, background first.
        channels: names of the channels of an image.
        ranking: what is to be drawn next, which becomes the strategy ``next``.
    """

    def __init__(
        self, workspace: Path, classes: Sequence[str], channels: Sequence[str], ranking: Ranking | None = None
    ) -> None:
        self.workspace = workspace
        self.classes = list(classes)
        self.channels = list(channels)
        self.app = app_instance()
        self.app.server_mode(True)
        self.app.on_init_complete()
        if ranking is not None:
            self.app._strategies = {"next": ranking, **self.app._strategies}
        info = self.app.info()
        self.models, self.trainers, self.strategies = (list(info[k]) for k in ("models", "trainers", "strategies"))
        self.trainings = workspace / "trainings.json"
        tasks.background_tasks["train"] = self.recalled()

    def stop(self) -> None:
        """End the training that runs."""
        self.stop_training()

    def info(self) -> Any:
        return jsonable_encoder(self.app.info())

    def datastore(self, output: str) -> Any:
        return jsonable_encoder(datastore.datastore(datastore.ResultType(output)))

    def image(self, image: str) -> Response:
        self.file(image)
        return datastore.download_image(image)

    def label(self, image: str, tag: str) -> Response:
        if not Path(self.app.datastore().get_label_uri(image, tag)).is_file():
            raise Refused(404, f"there is no label {image!r} of the tag {tag!r}")
        return datastore.download_label(image, tag)

    def file(self, image: str) -> Path:
        """The file of an image."""
        path = Path(self.app.datastore().get_image_uri(image))
        if not path.is_file():
            raise Refused(404, f"the image {image!r} is not known to MONAI Label yet: ask again in a moment")
        return path

    def save_image(self, image: str, file: UploadFile, ending: str, params: Mapping[str, Any]) -> Any:
        with written(file, ending) as path:
            readable(path, "the image", self.channels)
            self.app.datastore().add_image(image, str(path), dict(params))
        return {"image": image}

    def save_label(self, image: str, tag: str, file: UploadFile, ending: str, params: Mapping[str, Any]) -> Any:
        with written(file, ending) as path:
            try:
                check_annotation(path, params, self.classes, self.file(image))
            except DataError as error:
                raise Refused(422, f"the label is refused: {str(error).removeprefix(f'{path}: ')}") from error
            readable(self.file(image), f"the image {image!r}", self.channels)
            self.keep_label(image, tag)
            self.app.datastore().save_label(image, str(path), tag, dict(params))
        return {"image": image, "label": image}

    def keep_label(self, image: str, tag: str) -> None:
        """Put a label that is about to be replaced aside, with what its client said about it."""
        store = self.app.datastore()
        before = Path(store.get_label_uri(image, tag))
        if before.is_file():
            kept = self.workspace / "previous_labels" / tag / image / now()
            copy_atomic(before, kept.with_name(kept.name + before.name.removeprefix(image)))
            write_atomic(kept.with_name(f"{kept.name}.json"), json.dumps(store.get_label_info(image, tag)))

    def infer(self, model: str, image: str, output: str, params: Mapping[str, Any]) -> Any:
        path = self.file(image)
        try:
            result = self.app.infer({"model": model, "image": image, **params})
        except Exception as error:
            wrong = find_user_error(error)
            if wrong is None:
                readable(path, f"the image {image!r}", self.channels)
                raise
            raise Refused(422, f"the image {image!r} is refused: {str(wrong).removeprefix(f'{path}: ')}") from error
        result["params"] = without_paths(jsonable_encoder(result["params"]))
        background = BackgroundTasks()
        response = infer.send_response(self.app.datastore(), result, output, background)
        if isinstance(response, Response):
            response.background = background  # removes the file once it is sent
        return response

    def next_sample(self, strategy: str, params: Mapping[str, Any]) -> Any:
        return jsonable_encoder(activelearning.sample(strategy, dict(params)))

    def train(self, model: str, params: Mapping[str, Any]) -> Any:
        if any(task["status"] in UNFINISHED for task in tasks.tasks("train")):
            raise Refused(429, "a training runs already: wait for its end, or stop it")
        request = {"model": model, **params, "bundle_path": self.app.bundle_path(model)}
        task = tasks.run_background_task(request, "train", callback=self.remember)
        self.remember(task)
        return jsonable_encoder(task)

    def train_status(self, running: bool) -> Any:
        found = [task for task in tasks.tasks("train") if not running or task["status"] in UNFINISHED]
        if not found:
            raise Refused(404, "no training runs" if running else "there was no training yet")
        return jsonable_encoder(found[-1])

    def stop_training(self) -> Any:
        stopped = train.stop()
        if stopped is not None:
            self.remember(stopped)
        return jsonable_encoder(stopped)

    def remember(self, task: Mapping[str, Any]) -> None:
        """Write down what became of the trainings."""
        write_atomic(self.trainings, json.dumps(jsonable_encoder(tasks.tasks("train")[-20:]), indent=1))

    def recalled(self) -> list[dict[str, Any]]:
        """The trainings of this workspace; one that ran when its server ended has ended with it."""
        try:
            known = json.loads(self.trainings.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        for task in known:
            if task["status"] in UNFINISHED:
                task["status"] = "STOPPED"
                task["details"] = ["the server ended while it trained; the served model stayed as it was"]
        return known


@contextmanager
def written(file: UploadFile, ending: str) -> Iterator[Path]:
    """An upload as a file of its kind."""
    with tempfile.NamedTemporaryFile(prefix="upload_", suffix=ending) as target:
        shutil.copyfileobj(file.file, target)
        target.flush()
        yield Path(target.name)


def readable(path: Path, what: str, channels: Sequence[str]) -> None:
    """Refuse an image that cannot be read, or has not the channels of the model."""
    try:
        found = len(LoadImage(image_only=True, ensure_channel_first=True)(path))
    except Exception as error:  # the readers raise whatever they like
        raise Refused(
            422, f"{what} cannot be read ({reason(error).replace(str(path), 'the file')}). Replace the file."
        ) from error
    if found != len(channels):
        wanted = f"{len(channels)} channel(s) ({', '.join(channels)})"
        remedy = "Put all channels into one file, along its fourth axis" if len(channels) > 1 else "Split the file"
        raise Refused(422, f"{what} has {found} channel(s) or frame(s), but the model takes {wanted}. {remedy}.")
