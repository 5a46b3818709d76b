"""Disks that are full, read-only or taken away, and clocks that jump, at every step of a command.

    python -m tests.campaign.disk --count 20 --seed 1 [--only run,plot] [--faults full,small]

Each command, ``--count`` times per fault, where it strikes chosen at random:

full, read-only    from the n-th change of a file on, every further one fails with ENOSPC or EROFS; n is anywhere
                   between the first and the last change of an unbroken command
small              the folder that is written to is a file system with too little space, so that writing itself fails
frozen             it is a file system that becomes read-only at a random moment
removed            the folder that is written to is removed at a random moment
clock              time.time and time.monotonic jump forth and back by a day at random calls

Falls: another exit code than 0 or 2 (3 of a study, whose trials failed), more or less than one sentence with 2, a
traceback or an internal error; the same command afterwards, on a good disk, that does not end well or gives anything
but what an unbroken one gives (:data:`.places.VARIES` apart); temporary files or processes that stay. ``small`` and
``frozen`` need the right to mount and are left out, saying so, where there is none. Commands run in forked children
(:mod:`.warm`).
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from . import warm
from .commands import COMMANDS, WITHOUT_TORCH, Command, at_writes, chosen, make_places, place, shorten
from .places import differences, end_in_order, mount_small, private_mounts, remount, unmount

FAULTS = ("full", "read-only", "small", "frozen", "removed", "clock")
MOUNTED = ("small", "frozen")
PATIENCE_S = 180.0
DAY = 86_400.0


def failing_from(number: int, code: int, folder: Path) -> None:
    """Every change of a file below ``folder`` fails from the ``number``-th on."""

    def fail(count: int) -> None:
        if count >= number:
            raise OSError(code, os.strerror(code))

    at_writes(fail, folder)


def jumping(seed: int) -> None:
    """The clocks of this process jump by a day now and then, and back."""
    dice, clocks, ahead = random.Random(seed), {"time": time.time, "monotonic": time.monotonic}, 0.0

    def clock(own: Callable[[], float]) -> Callable[[], float]:
        def now() -> float:
            nonlocal ahead
            if dice.random() < 0.05:
                ahead = dice.choice((-DAY, 0.0, DAY))
            return own() + ahead

        return now

    for name, own in clocks.items():
        setattr(time, name, clock(own))


class Disk:
    def __init__(self, folder: Path, seed: int, commands: dict[str, Command], faults: list[str]) -> None:
        self.folder, self.dice = folder, random.Random(seed)
        self.commands = commands
        self.can_mount = not set(faults) & set(MOUNTED) or private_mounts()
        self.faults = [name for name in faults if self.can_mount or name not in MOUNTED]
        self.tried: Counter[tuple[str, str]] = Counter()
        self.struck: Counter[tuple[str, str]] = Counter()
        self.fallen: list[tuple[str, str]] = []
        self.seconds: dict[str, float] = {}
        self.writes: dict[str, int] = {}
        make_places(folder, any(command.trained for command in commands.values()))
        for name, command in self.commands.items():
            where = place(folder, command, f"whole {name}")
            counted = folder / "counted"
            counted.write_bytes(b"")

            def first(where: Path = where, counted: Path = counted) -> None:
                shorten()
                file = os.open(counted, os.O_WRONLY | os.O_APPEND)
                at_writes(lambda _: os.write(file, b"."), where)

            started = time.monotonic()
            code, said = warm.run(command.typed(where), where / "log", first=first)
            if code:
                raise RuntimeError(f"{name} ended with {code}: {said}")
            self.seconds[name], self.writes[name] = time.monotonic() - started, counted.stat().st_size

    def fall(self, name: str, what: str) -> None:
        self.fallen.append((name, what))
        print(f"FELL: {name}: {what}", flush=True)

    def case(self, name: str, fault: str) -> None:
        """The command under the fault, and then again without."""
        command = self.commands[name]
        where = place(self.folder, command, "case")
        target = where / command.outputs[0]
        moment = self.dice.uniform(0, self.seconds[name])
        number = self.dice.randint(1, self.writes[name])
        held = _kib(self.folder / f"whole {name}" / command.outputs[0])
        before = _kib(target)
        size = before + int((held - before) * self.dice.random()) + 8
        if fault in MOUNTED:
            shutil.move(target, where / "aside")
            mount_small(target, size if fault == "small" else 4 * held + 1024)
            shutil.copytree(where / "aside", target, dirs_exist_ok=True)

        def first() -> None:
            shorten()
            if fault in ("full", "read-only"):
                failing_from(number, errno.ENOSPC if fault == "full" else errno.EROFS, where)
            if fault == "clock":
                jumping(number)

        child = warm.start(command.typed(where), where / "log", first=first)
        strikes = fault in ("frozen", "removed")
        code = warm.wait(child, moment if strikes else PATIENCE_S)
        how = f"{fault} from change {number} on" if fault in ("full", "read-only") else fault
        if strikes and code is None:
            how = f"{fault} after {moment:.1f} s"
            shutil.rmtree(target, ignore_errors=True) if fault == "removed" else _freeze(target)
            code = warm.wait(child, PATIENCE_S)
        how = f"{size} KiB" if fault == "small" else how
        self.tried[name, fault] += 1
        self.struck[name, fault] += code != 0
        said = (where / "log").read_text(errors="replace") if (where / "log").exists() else ""
        self.look(name, command, code, said, how)
        if code is None:
            warm.kill_all(child)
        warm.left_behind(30)
        if fault in MOUNTED:
            remount(target, "rw", f"size={4 * held + 4096}k")
        if fault == "removed" and command.outputs[0] == "data":
            shutil.copytree(self.folder / "bare" / "data", target, dirs_exist_ok=True)
        if fault == "removed" and command.trained:
            shutil.copytree(self.folder / "trained" / command.outputs[0], target, dirs_exist_ok=True)
        target.mkdir(exist_ok=True)
        self.again(name, command, where, how)
        if fault in MOUNTED:
            unmount(target)

    def look(self, name: str, command: Command, code: int | None, said: str, how: str) -> None:
        """Whether a command that was struck ended as it should."""
        sentences = [line for line in said.splitlines() if line.startswith("error: ")]
        study = name.startswith("study")
        if code not in (0, 2, 3 if study else 0):
            self.fall(name, f"exit code {code} ({how}): {said.strip()[-300:]}")
        elif "Traceback" in said or "internal error" in said:
            self.fall(name, f"({how}) {said.strip()[-300:]}")
        elif code == 2 and len(sentences) != 1:
            self.fall(name, f"{len(sentences)} sentences ({how}): {said.strip()[-300:]}")

    def again(self, name: str, command: Command, where: Path, how: str) -> None:
        """The same command on a good disk, and what it gives."""
        code, said = warm.run(command.typed(where), where / "log", PATIENCE_S, first=shorten)
        if not (code == 0 or (code == 2 and "exists already" in said)):
            self.fall(name, f"again: exit code {code} ({how}): {said.strip()[-300:]}")
        if alive := warm.left_behind(10):
            self.fall(name, f"{len(alive)} processes stay ({how})")
            warm.kill_all()
        for output in command.outputs:
            if litter := [path.name for path in (where / output).rglob(".*") if path.suffix in (".tmp", ".partial")]:
                self.fall(name, f"left ({how}): {litter}")
            if found := differences(self.folder / f"whole {name}" / output, where / output):
                self.fall(name, f"differs ({how}): {found[:4]}")

    def run(self, count: int, limit_s: float) -> None:
        started = time.monotonic()
        for _ in range(count):
            for name in self.commands:
                for fault in self.faults:
                    if time.monotonic() - started < limit_s:
                        self.case(name, fault)
            print(f"{time.monotonic() - started:.0f} s: {sum(self.tried.values())} tried", flush=True)

    def show(self) -> None:
        print("tried/ended with another code than 0")
        print(f"{'command':16} " + " ".join(f"{fault:>10}" for fault in self.faults) + f" {'fell':>6}")
        for name in self.commands:
            cells = (f"{self.tried[name, fault]}/{self.struck[name, fault]}" for fault in self.faults)
            fell = sum(own == name for own, _ in self.fallen)
            print(f"{name:16} " + " ".join(f"{cell:>10}" for cell in cells) + f" {fell:6}")
        print(f"{sum(self.tried.values())} tried, {len(self.fallen)} fell")
        if not self.can_mount:
            print(f"left out: {', '.join(MOUNTED)}, as mounting is not allowed here")


def _kib(folder: Path) -> int:
    """Space that the files below ``folder`` take, in whole pages."""
    return sum(4 * (1 + path.stat().st_size // 4096) for path in folder.rglob("*"))


def _freeze(folder: Path) -> None:
    """Read-only as soon as no file is open for writing, which the kernel asks for."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            remount(folder, "ro")
            return
        except subprocess.CalledProcessError:
            time.sleep(0.01)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="of each fault, of each command")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"commands, comma separated, of: {', '.join(COMMANDS)}")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--minutes", type=float, default=240, help="at most")
    typed = parser.parse_args()
    end_in_order()
    commands = chosen(typed.only)
    warm.warm_up(commands.keys() <= WITHOUT_TORCH)
    with tempfile.TemporaryDirectory(prefix="disk-") as folder:
        campaign = Disk(Path(folder), typed.seed, commands, typed.faults.split(","))
        campaign.run(typed.count, 60 * typed.minutes)
    campaign.show()
    return 1 if campaign.fallen else 0


if __name__ == "__main__":
    sys.exit(main())
