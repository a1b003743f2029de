"""What a training leaves behind beside its model: ``record.json``, the settings it ran with, and its log."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import ignite.distributed as idist

from dcl_monai.datalist import Datalist, datalist_hash
from dcl_monai.utils.files import write_atomic
from dcl_monai.utils.provenance import STARTED, git_state, read_record, versions

from .command_line import given_config

RECORD, CONFIG, LOG = "record.json", "config.json", "training.log"


def start_record(output_dir: str, datalist: Datalist) -> None:
    """
    Begin the record of a training.

    ``record.json`` has the command, versions, commit, hash of the data and times; ``config.json`` the whole
    configuration with what the command line changed, ready to be run again; ``training.log`` what was logged. A run
    that is resumed goes on with its record.

    Args:
        output_dir: folder of the training.
        datalist: its data.
    """
    if idist.get_rank() > 0:
        return
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(folder / LOG, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    config = given_config()
    if config is not None:
        write_atomic(folder / CONFIG, json.dumps(config, indent=4) + "\n")
    record = {
        "status": "running",
        "command": ["python", "-m", "monai.bundle", *sys.argv[1:]],
        "working_directory": str(Path.cwd()),
        "host": socket.gethostname(),
        "versions": versions(),
        "git": git_state(),
        "datalist_sha256": datalist_hash(datalist),
        "starts": [*read_record(folder / RECORD).get("starts", []), now()],
    }
    write_record(folder, record)


def finish_record(output_dir: str | Path, verdict: str) -> None:
    """Complete the record of a training by its result in words."""
    folder = Path(output_dir)
    record = read_record(folder / RECORD)
    if idist.get_rank() > 0 or not record:
        return
    ended = {"status": "complete", "ended": now(), "seconds": round(time.monotonic() - STARTED), "verdict": verdict}
    write_record(folder, record | ended)


def now() -> str:
    """The time, with its zone."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record in one step."""
    write_atomic(folder / RECORD, json.dumps(record, indent=2) + "\n")
