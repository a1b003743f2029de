"""The report of a run, which also says what an interrupted run need not do again."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dcl_monai import __version__
from dcl_monai.utils.files import write_atomic

logger = logging.getLogger(__name__)


class RunReport:
    """
    ``report.json``: what was run, and for every file what came of it. It is whole on disk after every file.

    Files that an earlier run of the same model with the same settings has finished stay finished, until the image
    changes or an output is gone. A ``run`` is the model, its hash and all settings that the outputs depend on.
    """

    def __init__(self, output_dir: Path, run: Mapping[str, Any]) -> None:
        self.output_dir = output_dir
        self.path = output_dir / "report.json"
        self.run = json.loads(json.dumps(run))  # as it will be read back
        self.files: dict[str, dict[str, Any]] = {}
        self.ejection_fraction: list[dict[str, Any]] = []
        self.complete = False
        if self.path.is_file():
            self._take_over()

    def _take_over(self) -> None:
        """Take over what an earlier run has finished."""
        try:
            earlier = json.loads(self.path.read_text(encoding="utf-8"))
            if earlier["run"] == self.run:
                self.files = {name: entry for name, entry in earlier["files"].items() if entry["status"] == "done"}
            else:
                logger.info(f"{self.path} was made with another model or settings: every file is segmented again.")
        except (ValueError, KeyError, TypeError, AttributeError):
            logger.warning(f"{self.path} cannot be read: every file is segmented again.")

    def is_done(self, name: str, image: Path) -> bool:
        """Whether an earlier run has finished this file, as it is now."""
        entry = self.files.get(name, {})
        outputs = [self.output_dir / output for output in entry.get("outputs", {}).values()]
        return bool(outputs) and entry.get("input") == stamp(image) and all(path.is_file() for path in outputs)

    def done(self) -> dict[str, dict[str, Any]]:
        """Entries of the files that are segmented, by name."""
        return {name: self.files[name] for name in sorted(self.files) if self.files[name]["status"] == "done"}

    def failed(self) -> dict[str, str]:
        """What went wrong, by name of the file."""
        return {name: entry["error"] for name, entry in self.files.items() if entry["status"] == "failed"}

    def add(self, name: str, entry: Mapping[str, Any]) -> None:
        """Note the entry of a file, and write the report."""
        self.files[name] = dict(entry)
        self.write()

    def write(self) -> None:
        """Write the report in one step."""
        content = {
            "complete": self.complete,
            "run": self.run,
            "versions": {"python": sys.version.split()[0], "dcl_monai": __version__}
            | {package: version(package) for package in ("monai", "torch", "numpy", "nibabel")},
            "files": dict(sorted(self.files.items())),
            "ejection_fraction": self.ejection_fraction,
        }
        write_atomic(self.path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def stamp(path: Path) -> dict[str, int]:
    """Size and time of a file, by which a changed one is known."""
    status = path.stat()
    return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}
