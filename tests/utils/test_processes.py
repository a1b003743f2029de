"""A training that outlives its server would replace a model that another one serves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

CHILD = """
import time
from dcl_monai.utils.processes import end_with_server
end_with_server()
print("up", flush=True)
time.sleep(120)
"""
PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], env=os.environ | {{"DCL_LABEL_SERVER": str(os.getpid())}})
print(child.pid, flush=True)
time.sleep(120)
"""


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_child_ends_with_its_server(number):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as server:
        child = int(server.stdout.readline())
        assert server.stdout.readline() == "up\n"
        time.sleep(1.5)
        assert alive(child)
        server.send_signal(number)
        server.wait()
        deadline = time.monotonic() + 20
        while alive(child) and time.monotonic() < deadline:
            time.sleep(0.1)
        ended = not alive(child)
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended


def test_nothing_without_a_server():
    code = f"import threading; before = threading.active_count(){CHILD.partition('print')[0]}"
    code += "print(threading.active_count() - before)"
    environment = {key: value for key, value in os.environ.items() if key != "DCL_LABEL_SERVER"}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).strip() == "0"
