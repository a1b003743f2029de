"""
The server: MONAI Label behind the guard, by uvicorn, on a workspace that no other server uses. Called by ``start.sh``.

Label's own ``start_server`` is not used, since it passes none of uvicorn's limits on.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import logging.handlers
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import prepare
import uvicorn
from guard import Guard, access
from ranking import Ranking
from uvicorn.protocols.http.h11_impl import H11Protocol

from dcl_monai.networks import load_model
from dcl_monai.utils import DataError
from dcl_monai.utils.locks import take_lock

HEADER_SECONDS = 10.0
"""Time for the headers of a request."""
CONNECTIONS = 64
"""Connections at the same time; further ones are answered by 503."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol, which waits for ever for the end of a request's headers, with a limit to its patience."""

    timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.timer:
            self.timer.cancel()

    def watch(self) -> None:
        """Count the time while no request is under way; between two of them uvicorn does."""
        waiting = self.cycle is None or self.cycle.response_complete
        if waiting and self.timer is None:
            self.timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)
        elif not waiting and self.timer is not None:
            self.timer.cancel()
            self.timer = None


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--studies", type=Path, required=True)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--no-training", action="store_true")
    parser.add_argument("--next", type=Path)
    arguments = parser.parse_args(words)
    bundle, studies, workspace = (path.resolve() for path in (arguments.bundle, arguments.studies, arguments.workspace))
    try:
        if take_lock(workspace) is None:  # held until this process ends, however it ends
            raise DataError(f"{workspace}: another server uses it. Stop that one, or set another --workspace.")
        prepare.check_port(arguments.port)
        prepare.check_studies(arguments.studies)
        copy = prepare.prepare(bundle, workspace, Path(sys.prefix) / prepare.APP, arguments.fresh)
        settings = load_model(copy / "models" / "model.pt")["settings"]
        classes, channels = settings["classes"], settings.get("channels", ["image"])
        ranking = Ranking(arguments.next, classes) if arguments.next else None
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    os.chdir(workspace / "run")  # Label takes files of its working directory for images: here are none
    os.environ["DCL_LABEL_SERVER"] = str(os.getpid())  # a training ends with it: dcl_monai.utils.processes
    print(f"MONAI Label: http://127.0.0.1:{arguments.port} (this machine only), model {copy.name}; stop it with Ctrl-C")
    serve(workspace, studies, copy.name, arguments.port, not arguments.no_training, classes, channels, ranking)
    return 0


def serve(
    workspace: Path,
    studies: Path,
    name: str,
    port: int,
    training: bool,
    classes: Sequence[str],
    channels: Sequence[str],
    ranking: Ranking | None = None,
) -> None:
    """Make Label's settings, start its app, and answer requests until a signal comes."""
    from monailabel.main import Main, init_log_config

    command = Main()
    conf = {"models": name, "zoo_source": "local", "sam2": "false", "skip_trainers": str(not training).lower()}
    words = ["start_server", "--app", str(workspace / "app"), "--studies", str(studies), "--port", str(port)]
    settings = command.args_parser().parse_args([*words, *(w for pair in conf.items() for w in ("--conf", *pair))])
    command.start_server_validate_args(settings)
    command.start_server_init_settings(settings)
    log_config = init_log_config(None, settings.app, "app.log", "INFO")

    from label import MonaiLabel

    log_accesses(workspace / "access.log")
    uvicorn.run(
        Guard(MonaiLabel(workspace, classes, channels, ranking), studies),
        host="127.0.0.1",
        port=port,
        http=PatientProtocol,
        ws="none",
        log_config=log_config,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client is who connects; what a proxy says is for the access log
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
    )


def log_accesses(path: Path) -> None:
    """Write the access log, 10 files of 10 MB at most."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=10**7, backupCount=9, encoding="utf-8")
    access.addHandler(handler)
    access.setLevel(logging.INFO)
    access.propagate = False


if __name__ == "__main__":
    sys.exit(main())
