"""A browser without a window, spoken to through its debugging pipe: no driver and no package is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--remote-debugging-pipe",
)  # fmt: skip

_REDIRECT = (
    "import fcntl, os, sys; there, back = (fcntl.fcntl(int(n), fcntl.F_DUPFD, 10) for n in sys.argv[1:3]); "
    "os.dup2(there, 3); os.dup2(back, 4); os.execv(sys.argv[3], sys.argv[3:])"
)
"""The browser reads commands from descriptor 3 and answers on 4."""


class Browser:
    """One page of a browser; remembers every request and everything that its console said."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        self.said: list[str] = []
        there, self._commands = os.pipe()
        self._answers, back = os.pipe()
        words = [BINARY, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        redirected = [sys.executable, "-S", "-c", _REDIRECT, str(there), str(back), *words]
        self._process = subprocess.Popen(
            redirected, pass_fds=(there, back), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(there)
        os.close(back)
        self._buffer, self._last, self._session = b"", 0, None
        pages = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self.call("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters):
        """Send one command and wait for its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._remember(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def _next(self, seconds: float = 60.0) -> dict:
        while b"\0" not in self._buffer:
            if not select.select([self._answers], [], [], seconds)[0]:
                raise TimeoutError("the browser does not answer")
            if not (read := os.read(self._answers, 1 << 20)):
                raise RuntimeError("the browser has ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _remember(self, event: dict) -> None:
        held = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(held["request"]["url"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.said.append(held["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif event.get("method") == "Log.entryAdded":
            self.said.append(held["entry"]["text"])
        elif event.get("method") == "Runtime.consoleAPICalled" and held["type"] in ("error", "warning"):
            self.said.append(str(held["args"]))

    def open(self, address: str, width: int = 1280, ready: str = "true") -> None:
        """Go to a page in a window so wide and wait until ``ready`` holds there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=address)
        self.until(f"location.href !== 'about:blank' && document.readyState === 'complete' && ({ready})")

    def until(self, condition: str, seconds: float = 60.0) -> None:
        """Wait until a script gives true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} never held; the console said {self.said}")
            time.sleep(0.05)

    def run(self, script: str):
        """The value of a script, of a promise once it is kept."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", "exception"))
        return found["result"].get("value")

    def picture(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        """A screenshot of the top of the page."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        time.sleep(0.4)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser."""
        for end in (self._commands, self._answers):
            os.close(end)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
