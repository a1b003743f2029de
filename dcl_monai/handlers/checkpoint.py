"""Stopping a run at any moment and going on with it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ignite.distributed as idist
from ignite.engine import Events
from monai.engines import Trainer

from dcl_monai.data.cache import item_files
from dcl_monai.datalist import Datalist, datalist_hash
from dcl_monai.datalist.splits import SPLITS
from dcl_monai.utils import DataError, as_bool
from dcl_monai.utils.distributed import on_first_rank
from dcl_monai.utils.files import file_hash, load_checked, save_atomic

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class RunCheckpoint:
    """
    Save everything a run needs to go on, after every epoch, and take it up again when it is resumed.

    The file is replaced in one step: a run killed at any moment leaves the last complete checkpoint. Attach it last, so
    that it sees the validation of the epoch. Of several ranks, rank 0 writes the file, and reads it for all. MONAI's
    ``CheckpointSaver`` and ``CheckpointLoader`` would go on with other data or settings without a word.

    Args:
        path: the file.
        content: name -> object with ``state_dict`` and ``load_state_dict``; the trainer is added by itself.
        resume: whether to go on from the file; a fresh run keeps an older file as ``*_previous.pt``.
        settings: what must be the same when the run is resumed, by name; the number of processes is added by itself.
        datalist: the datalist, which must be the same as well, down to every byte of its images and labels. They are
            read once more for it when training starts: a small part of the time that the check before has taken, which
            unpacks them too. The checkpoint grows by 16 bytes for every file.
    """

    path: Path
    content: dict[str, Any]
    resume: bool | str = False
    settings: dict[str, Any] = field(default_factory=dict)
    datalist: Datalist | None = None
    files: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.path, self.resume = Path(self.path), as_bool(self.resume)
        self.settings = {**self.settings, "processes": idist.get_world_size()}
        self.content = {name: value for name, value in self.content.items() if value is not None}

    def attach(self, engine: Trainer) -> None:
        self.content = {"trainer": engine, **self.content}
        if getattr(engine, "scaler", None) is not None:  # of mixed precision
            self.content["scaler"] = engine.scaler
        if self.datalist is not None:
            self.settings["datalist"] = datalist_hash(self.datalist)
            self.files, self.settings["files"] = self.digests(self.datalist)
        if self.resume:
            self.load(engine)
        elif self.path.exists() and idist.get_rank() == 0:
            previous = self.path.with_name(f"{self.path.stem}_previous.pt")
            os.replace(self.path, previous)
            logger.warning(f"a fresh run starts; the checkpoint of the last one is kept as {previous}.")
        engine.add_event_handler(Events.EPOCH_COMPLETED, self)

    def load(self, engine: Trainer) -> None:
        """Take up the run that the file holds; a missing file starts a fresh run."""
        saved = self.read()
        if saved is None:
            logger.info(f"nothing to resume in {self.path}: a fresh run starts.")
            return
        started = saved.pop("settings")
        changed = [
            f"{name} {started.get(name)!r}, now {value!r}"
            for name, value in self.settings.items()
            if name != "files" and started.get(name) != value
        ]
        if changed:
            raise DataError(
                f"{self.path}: the run was started with {'; '.join(changed)}: resume with the configuration that "
                "started it, or start again without --resume."
            )
        if "files" in started and "files" in self.settings:
            self.compare_files(started)
        if set(saved) != set(self.content):
            raise DataError(
                f"{self.path}: holds {sorted(saved)}, but this configuration needs {sorted(self.content)}: "
                "resume with the configuration that started the run, or start again without --resume."
            )
        for name, value in self.content.items():
            try:
                value.load_state_dict(saved[name])
            except (RuntimeError, ValueError, KeyError) as error:
                raise DataError(
                    f"{self.path}: {name} does not fit this configuration: resume with the one that started "
                    "the run, or start again without --resume."
                ) from error
        logger.info(f"resumed from {self.path} after epoch {engine.state.epoch}.")

    def compare_files(self, started: Mapping[str, Any]) -> None:
        """Raise if a file of the datalist is not what it was when the run was started."""
        before, now = str(started["files"]), str(self.settings["files"])
        changed = [
            name
            for place, name in enumerate(self.files)
            if before[16 * place : 16 * (place + 1)] != now[16 * place : 16 * (place + 1)]
        ]
        if changed or len(before) != len(now):
            raise DataError(
                f"{changed[0] if changed else 'a file of the datalist'}: has changed since the run of {self.path} was "
                "started. Bring back the file, or start again without --resume."
            )

    @staticmethod
    @on_first_rank
    def digests(datalist: Mapping[str, Any]) -> tuple[list[str], str]:
        """All files of a datalist, and the first digits of their hashes, one after the other."""
        items = [item for split in SPLITS for item in datalist.get(split, ())]
        files = [file for item in items for file in item_files(item)]
        return [str(file) for file in files], "".join(file_hash(file)[:16] for file in files)

    @on_first_rank
    def read(self) -> dict[str, Any] | None:
        """Return what the file holds, if there is one."""
        if not self.path.exists():
            return None
        content = load_checked(self.path, "a checkpoint", "start again without --resume")
        if not (isinstance(content, dict) and isinstance(content.get("settings"), dict) and "trainer" in content):
            raise DataError(f"{self.path}: is not a checkpoint of a training: start again without --resume.")
        return content

    def __call__(self, engine: Trainer) -> None:
        if idist.get_rank() == 0:
            states = {name: value.state_dict() for name, value in self.content.items()}
            save_atomic(states | {"settings": self.settings}, self.path)
