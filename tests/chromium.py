"""Headless Chromium: a page after its scripts have run."""

import shutil
import subprocess
from pathlib import Path

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def run_page(page: Path, folder: Path, width: int = 1280) -> tuple[str, list[str]]:
    """The DOM as HTML, and the lines of the console; ``folder`` holds the browser's profile."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += [f"--user-data-dir={folder}", f"--window-size={width},900", "--enable-logging=stderr"]
    command = [BINARY, *flags, "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
