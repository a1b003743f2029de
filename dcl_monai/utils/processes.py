"""Processes that end with the one they work for."""

from __future__ import annotations

import os
import threading
import time

SERVER = "DCL_LABEL_SERVER"
"""Environment variable with the process that a training on a server works for."""
PERIOD = 0.5


def end_with_server() -> None:
    """
    End this process as soon as the server that started it is gone, however it went: nobody is left who could stop the
    training, and it would replace a model that another server may serve by then. Does nothing without a server.
    """
    server = int(os.environ.get(SERVER, 0))
    if not server:
        return

    def watch() -> None:
        while os.getppid() == server:  # another process adopts the children of one that ended
            time.sleep(PERIOD)
        os._exit(1)

    threading.Thread(target=watch, name="end_with_server", daemon=True).start()
