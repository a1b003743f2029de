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
    End this process when the server that started it has ended, however it ended. Otherwise nobody could stop the
    training, and it might replace a model that another server serves. Does nothing without a server.
    """
    server = int(os.environ.get(SERVER, 0))
    if not server:
        return

    def watch() -> None:
        while os.getppid() == server:  # another process adopts the children of one that ended
            time.sleep(PERIOD)
        os._exit(1)

    threading.Thread(target=watch, name="end_with_server", daemon=True).start()
