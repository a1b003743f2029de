"""A training that outlives its server would replace a model that another one serves."""

from __future__ import annotations

import os
import signal
import time

import pytest
from helpers import Forked

CHILD = """
import time
from dcl_monai.utils.processes import end_with_server
end_with_server()
print("up", flush=True)
time.sleep(120)
"""
PARENT = f"""
import os, time
if child := os.fork():
    print(child, flush=True)
    time.sleep(120)
os.environ["DCL_LABEL_SERVER"] = str(os.getppid())
exec({CHILD!r})
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
    server = Forked("-c", PARENT)
    printed = server.until(lambda: len(words := server.printed("stdout").split()) == 2 and words)
    (child,) = (int(word) for word in printed if word != "up")
    time.sleep(1.5)
    assert alive(child)
    os.kill(server.pid, number)
    server.wait()
    deadline = time.monotonic() + 20
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    ended = not alive(child)
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert ended


def test_nothing_without_a_server():
    code = "import os, threading; os.environ.pop('DCL_LABEL_SERVER', None); before = threading.active_count()"
    code += CHILD.partition("print")[0] + "print(threading.active_count() - before)"
    assert Forked("-c", code).wait().stdout == "0\n"
