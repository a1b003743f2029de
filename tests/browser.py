"""Chromium by its DevTools, over two pipes: what a person does with a page."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-background-networking", "--hide-scrollbars", "--no-first-run"]
OPTIONS += ["--remote-debugging-pipe", "--window-size=1100,700"]
OPTIONS += ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]  # WebGL 2 without a GPU


class Browser:
    """A page in Chromium; ``with Browser(folder) as page``."""

    def __init__(self, profile: Path) -> None:
        (commands, self.commands), (self.answers, answers) = os.pipe(), os.pipe()
        # Chromium reads from 3 and writes to 4
        command = ["sh", "-c", f'exec "$@" 3</dev/fd/{commands} 4>/dev/fd/{answers}', "sh"]
        command += [CHROMIUM, *OPTIONS, f"--user-data-dir={profile}"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, pass_fds=(commands, answers))
        os.close(commands)
        os.close(answers)
        self.count, self.received, self.session = 0, b"", {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(20)
        os.close(self.commands)
        os.close(self.answers)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters, **self.session}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.received:
                part = os.read(self.answers, 1 << 20)
                assert part, "Chromium has ended"
                self.received += part
            line, _, self.received = self.received.partition(b"\0")
            answer = json.loads(line)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def run(self, script: str) -> Any:
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script: str, expected: Any, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while (found := self.run(script)) != expected:
            assert time.monotonic() < end, f"{script} is {found!r}, not {expected!r}"
            time.sleep(0.1)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, selector: str) -> np.ndarray:
        """What is seen of an element, (rows, columns, 3) from 0 to 1."""
        box = self.run(f"document.querySelector('{selector}').getBoundingClientRect().toJSON()")
        clip = {"scale": 1, **{name: box[name] for name in ("x", "y", "width", "height")}}
        shot = base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"])
        return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"), float) / 255

    def of_kind(self, method: str) -> list[dict[str, Any]]:
        """Parameters of the events of a kind so far."""
        return [event["params"] for event in self.events if event.get("method") == method]
