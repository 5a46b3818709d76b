"""A study of many cells with faults injected for as long as half of it takes, then left in peace to its end.

    nice -n 15 python -m tests.campaign.long --minutes 75 --seed 1 --csv samples.csv

32 cells that can be done and 8 whose settings make them diverge, of preset quick with fewer clips, two at a time, in
processes as a user starts them. While the storm lasts, at random moments: SIGKILL and SIGTERM to the study or to a
cell, a file of a run damaged between two sittings (what the next sentence names is then removed, as it says), and the
file system filled for some seconds. Every few seconds a line of the CSV: resident memory, descriptors and threads of
the study process, its cells, how many runs are done.

Falls: memory of the study process, in its longest sitting, that grows by more than a tenth between the second tenth of
it and the last; descriptors that grow; a sitting that ends in anything but done, left out, interrupted or one
sentence; a cell that is neither done nor failed with a reason in the end; a run with other weights, metrics or
predictions than the same command alone gives in another directory; processes left behind. Needs the right to mount for
the full disk and leaves it out, saying so, where there is none.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from .commands import quick
from .places import (
    descriptors,
    differences,
    end_in_order,
    mount_small,
    private_mounts,
    processes_naming,
    resident_kib,
    unmount,
)

SAMPLE_SECONDS = 3.0
FULL_SECONDS = 12.0
SETTLED_SECONDS = 60.0
"""A process of a study has imported and read all that it needs after this long."""
GROWTH = 1.10
MORE_DESCRIPTORS = 6
"""A log and a claim per cell, and what is open for an instant."""
COLUMNS = ("seconds", "sitting", "pid", "rss_kib", "descriptors", "threads", "cells", "done", "event")

STUDY = """
dataset = "small"
preset = "quick"
seeds = {seeds}
probe = ["linear", "knn"]
[grid]
method = ["skeletonmae", "mamp", "sjepa", "amr"]
[set]
tokens = 8
epochs = {epochs}
[[trials]]
method = "sjepa"
train.lr = {bad}
"""
BAD = "1e6"
"""A learning rate that is allowed, and with which the first update is past all bounds."""
CELLS_PER_SEED = 5


class Long:
    """The study, its sittings, and what happened."""

    def __init__(self, folder: Path, cells: int, clips: int, epochs: float, seed: int, samples: Path) -> None:
        from tests.small import write_small_store

        self.folder, self.results, self.dice = folder, folder / "results", random.Random(seed)
        write_small_store(folder / "data", clips=clips)
        self.cells = cells
        seeds = list(range(cells // CELLS_PER_SEED))
        (folder / "long.toml").write_text(STUDY.format(seeds=seeds, epochs=epochs, bad=BAD))
        self.can_fill = private_mounts()
        if self.can_fill:
            mount_small(self.results, 600 * 1024)
        self.started = time.monotonic()
        self.file = samples.open("w", newline="")
        self.samples = csv.writer(self.file)
        self.samples.writerow(COLUMNS)
        self.sitting, self.study, self.said = 0, None, ""
        self.rows: list[tuple] = []
        self.tried: dict[str, int] = {}
        self.fallen: list[str] = []
        self.damaged: dict[Path, bytes] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def command(self, *words: str) -> list[str]:
        places = ["--results", str(self.results), "--data-root", str(self.folder / "data")]
        return [sys.executable, "-m", "skelbench", *words, *places]

    # ------------------------------------------------------------------------------------------ watching
    def start(self) -> None:
        self.sitting += 1
        self.log = self.folder / f"sitting-{self.sitting}.log"
        with self.log.open("wb") as log:
            words = self.command("study", str(self.folder / "long.toml"), "--jobs", "2", "--device", "cpu")
            self.study = subprocess.Popen(words, stdout=log, stderr=log, cwd=self.folder, start_new_session=True)

    def at_work(self) -> list[int]:
        """The cells' processes."""
        return [pid for pid in processes_naming(str(self.results)) if self.study is None or pid != self.study.pid]

    def done(self) -> int:
        return sum('"outcome": "done"' in _text(path) for path in self.results.glob("*-small-*/run.json"))

    def note(self, event: str = "") -> None:
        """One line of the CSV."""
        pid = self.study.pid if self.study else 0
        threads = len(os.listdir(f"/proc/{pid}/task")) if pid and Path(f"/proc/{pid}/task").exists() else 0
        row = (round(self.seconds, 1), self.sitting, pid, resident_kib(pid), descriptors(pid), threads)
        row += (len(self.at_work()), self.done(), event)
        self.rows.append(row)
        self.samples.writerow(row)
        self.file.flush()
        if event:
            print(f"{row[0]:7.0f} s  sitting {self.sitting:2}  {row[7]:2} done  {event}", flush=True)

    def watch(self, until: float) -> bool:
        """Sample until then, or until the sitting ends; whether it goes on."""
        while self.seconds < until and self.study.poll() is None:
            self.note()
            time.sleep(SAMPLE_SECONDS)
        return self.study.poll() is None

    def end(self) -> int:
        """Look at how the sitting ended."""
        code = self.study.wait()
        said = self.log.read_text(errors="replace")
        self.note(f"ended with {code}")
        if code not in (0, 2, 3, 130, -signal.SIGKILL) and (code != -signal.SIGTERM or said):
            self.fall(f"sitting {self.sitting} ended with {code}: {said.strip().splitlines()[-1:]}")
        if "Traceback" in said or "internal error" in said:
            self.fall(f"sitting {self.sitting}: {_line_with(said, 'Traceback', 'internal error')}")
        for line in said.splitlines():
            if line.startswith(("error: ", "failed: ")):
                self.put_right(line)
        return code

    def fall(self, what: str) -> None:
        self.fallen.append(what)
        print(f"FELL: {what}", flush=True)

    # ------------------------------------------------------------------------------------------ faults
    def fault(self) -> None:
        kinds = ["kill study", "term study", "kill cell", "kill cell", "term cell", "damage"]
        kind = self.dice.choice(kinds + (["full", "full"] if self.can_fill else []))
        self.tried[kind] = self.tried.get(kind, 0) + 1
        cells = self.at_work()
        if kind == "full":
            self.fill()
        elif kind.endswith("cell"):
            if cells:
                number = signal.SIGKILL if kind == "kill cell" else signal.SIGTERM
                _send(victim := self.dice.choice(cells), number)
                self.note(f"{kind} {victim}")
        else:
            number = signal.SIGKILL if kind == "kill study" else signal.SIGTERM
            self.note(kind)
            self.study.send_signal(number)
            code = self.end()
            before_us = code == -signal.SIGTERM and not self.log.stat().st_size  # Python was starting
            if kind != "kill study" and code != 130 and not before_us:
                self.fall(f"SIGTERM to the study gave exit code {code}")
            if kind == "damage":
                self.damage()
            self.start()

    def fill(self) -> None:
        """No space for some seconds."""
        ballast = self.results / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        self.note("full")
        self.watch(self.seconds + FULL_SECONDS)
        ballast.unlink(missing_ok=True)
        self.note("free again")

    def damage(self) -> None:
        """Cut or overwrite one file of a run while nothing of ours works."""
        while self.at_work():
            time.sleep(1)
        runs = sorted(self.results.glob("*-small-*"))
        names = "run.json metrics.jsonl last.pt cost.json encoder.safetensors eval-*.json eval-*.npz".split()
        files = [path for path in runs for path in path.glob(self.dice.choice(names))]
        if not files:
            return
        path = self.dice.choice(sorted(files))
        content = path.read_bytes()
        cut = self.dice.choice(("cut", "empty", "zeros"))
        path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "zeros": bytes(len(content))}[cut])
        self.damaged[path] = path.read_bytes()
        self.note(f"damage {cut} {path.relative_to(self.results)}")

    def put_right(self, sentence: str) -> None:
        """What the sentence of a refusal says to remove is removed."""
        if _diverged(sentence):
            return
        self.note(f"said: {sentence}")
        named = [Path(word) for word in re.findall(rf"{re.escape(str(self.results))}/[^\s,;:)]*", sentence)]
        there = [path for path in named if path.exists() and path.suffix != ".log"]
        if str(self.results) not in sentence:
            self.fall(f"names no file of the results: {sentence}")
        if "remove" in sentence:
            for path in there:
                subprocess.run(["rm", "-rf", path], check=True)
            if not there:
                self.fall(f"says to remove something that is not there: {sentence}")

    # ------------------------------------------------------------------------------------------ the whole
    def run(self, minutes: float, storm: float) -> None:
        self.start()
        calm = storm * 60 * minutes
        due = self.seconds + 45
        while self.seconds < calm and self.done() < 0.6 * self.cells:
            if not self.watch(min(due, calm)):
                self.end()
                if self.finished():
                    break
                self.start()
            if self.seconds >= due:
                self.fault()
                due = self.seconds + self.dice.uniform(25, 75)
        self.note("calm from here on")
        for _ in range(6):  # cells that were killed as failed are run by the next sitting
            self.watch(60 * minutes)
            if self.study.poll() is None:
                self.study.send_signal(signal.SIGTERM)
                self.end()
                self.fall(f"not at its end after {minutes} minutes: {self.done()} runs done")
                break
            code = self.end()
            if self.finished():
                break
            self.start()
        print(f"last sitting: exit code {code}; {self.said}", flush=True)

    def finished(self) -> bool:
        """Whether a sitting said that all cells are done or failed by their settings."""
        said = self.log.read_text(errors="replace")
        failed = [line for line in said.splitlines() if line.startswith("failed: ")]
        whole = re.search(r"(\d+) of (\d+) trials done", said)
        self.said = whole.group(0) if whole else said.strip()[-200:]
        expected = self.cells // CELLS_PER_SEED
        own = [line for line in failed if _diverged(line)]
        return bool(whole) and len(own) == len(failed) == expected and int(whole[1]) == self.cells - expected

    def check(self, alone: int) -> None:
        """Memory, descriptors, what is left, and whether the runs are those of an undisturbed command."""
        if not self.finished():
            self.fall(f"cells are neither done nor failed by their settings: {self.said}")
        sittings: dict[int, list[tuple]] = {}
        for row in self.rows:
            if row[3]:
                sittings.setdefault(row[1], []).append(row)
        longest = max(sittings.values(), key=lambda rows: rows[-1][0] - rows[0][0])
        settled = [row for row in longest if row[0] > longest[0][0] + SETTLED_SECONDS]
        tenth = max(1, len(settled) // 10)
        if len(settled) < 20:
            self.fall(f"the longest sitting has only {len(settled)} samples; give it more --minutes")
            return
        memory = [median(row[3] for row in rows) for rows in (settled[tenth : 2 * tenth], settled[-tenth:])]
        open_ = [median(row[4] for row in rows) for rows in (settled[tenth : 2 * tenth], settled[-tenth:])]
        print(
            f"longest sitting {longest[-1][0] - longest[0][0]:.0f} s: resident {memory[0]:.0f} -> {memory[1]:.0f} KiB"
            f" (highest {max(row[3] for row in settled)}), descriptors {open_[0]:.0f} -> {open_[1]:.0f}"
            f" (highest {max(row[4] for row in settled)})"
        )
        if memory[1] > GROWTH * memory[0]:
            self.fall(f"memory grew from {memory[0]} to {memory[1]} KiB")
        if open_[1] > open_[0] + MORE_DESCRIPTORS:
            self.fall(f"descriptors grew from {open_[0]} to {open_[1]}")
        if left := self.at_work():
            self.fall(f"processes left behind: {left}")
        litter = [str(path) for path in self.results.rglob("*.tmp")]
        if litter:
            print(f"temporary files left by what was killed: {litter}")
        self.compare(alone)

    def compare(self, count: int) -> None:
        """``count`` runs again, each by its own command and undisturbed."""
        done = [
            path
            for path in sorted(self.results.glob("*-small-*"))
            if not path.name.startswith(("untrained", "raw")) and '"outcome": "done"' in _text(path / "run.json")
        ]
        for path in self.dice.sample(done, min(count, len(done))):
            info = json.loads((path / "run.json").read_text())
            own = self.folder / "alone"
            own_settings = "--seed", str(info["spec"]["seed"]), "--set", f"epochs={info['spec']['train']['epochs']}"
            words = self.command(*quick(info["spec"]["method"]), *own_settings)
            command = [word if word != str(self.results) else str(own) for word in words]
            subprocess.run(command, check=True, capture_output=True, cwd=self.folder)
            unread = {file.name for file, bad in self.damaged.items() if file.parent == path and _bytes(file) == bad}
            found = differences(path, own / path.name)
            if wrong := [line for line in found if not any(name in line for name in unread)]:
                self.fall(f"{path.name} is not what its command gives alone: {wrong}")
            print(f"compared with the same command alone: {path.name}", flush=True)


def _diverged(sentence: str) -> bool:
    """Whether it is what becomes of a cell with the bad learning rate."""
    return "train.lr=" in sentence and re.search(r"the (loss|gradient)\b.* became (nan|-?inf)", sentence) is not None


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _line_with(text: str, *words: str) -> str:
    return next((line for line in text.splitlines() if any(word in line for word in words)), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=40)
    parser.add_argument("--clips", type=int, default=400, help="in the data set")
    parser.add_argument("--epochs", type=float, default=8)
    parser.add_argument("--minutes", type=float, default=75, help="at most, the comparison not counted")
    parser.add_argument("--storm", type=float, default=0.5, help="share of the time in which faults happen")
    parser.add_argument("--alone", type=int, default=4, help="runs made again undisturbed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path, default=Path("long.csv"))
    typed = parser.parse_args()
    end_in_order()
    with tempfile.TemporaryDirectory(prefix="long-") as folder:
        campaign = Long(Path(folder), typed.cells, typed.clips, typed.epochs, typed.seed, typed.csv)
        try:
            campaign.run(typed.minutes, typed.storm)
            campaign.check(typed.alone)
        finally:
            for pid in campaign.at_work():
                _send(pid, signal.SIGKILL)
            if campaign.study and campaign.study.poll() is None:
                campaign.study.kill()
            if campaign.can_fill:
                unmount(campaign.results)
    for kind, count in sorted(campaign.tried.items()):
        print(f"{count:4} {kind}")
    if not campaign.can_fill:
        print("left out: a full disk, as mounting is not allowed here")
    print(f"{campaign.sitting} sittings, {campaign.seconds:.0f} s, {len(campaign.fallen)} fell")
    for what in campaign.fallen:
        print(f"  {what}")
    return 1 if campaign.fallen else 0


if __name__ == "__main__":
    sys.exit(main())
