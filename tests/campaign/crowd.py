"""Eight processes at a time on one results directory and one data root, with readers among them.

    python -m tests.campaign.crowd --rounds 10 --seed 1 [--locks working|absent|refused]

A round starts commands within a second of one another: the same run several times, other runs that share its untrained
twin, evaluations, an import and a preparation of one name each twice, and meanwhile, over and over, ``runs list``,
``compare`` and ``data list``. What another process has the lock of may be refused in a sentence; who was refused is
issued again, alone. ``--locks absent``: flock says that there is none (ENOSYS), ``refused``: that there are none left
(ENOLCK); leases hold instead.

Falls: a traceback or an internal error of anyone; a reader that ends with another code than 0; a run that was trained
more than once; results or data, field by field but :data:`.places.VARIES`, that are not those of the same commands one
after another; temporary files or processes that stay. Commands run in forked children (:mod:`.warm`).
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import warm
from .commands import COMMANDS, Command, make_places, place, shorten
from .places import differences, end_in_order

READERS = {
    "runs list": Command(("runs", "list", "--results", "@results")),
    "compare": Command(("compare", "--all", "--format", "json", "--results", "@results")),
    "data list": Command(("data", "list", "--data-root", "@data")),
}
_RUN = COMMANDS["run"].words
WRITERS = {
    "run": COMMANDS["run"],
    "run, seed 1": Command((*_RUN, "--seed", "1")),
    "run, other rate": Command((*_RUN, "--set", "train.lr=0.002")),
    "run, knn": Command((*_RUN, "--probe", "knn")),
    "data import": COMMANDS["data import"],
    "data prepare": COMMANDS["data prepare"],
}
TWICE = ("run", "data import")
"""These at least two times in every round."""
REFUSALS = ("another process is working in", "being written by another process", "exists already", "are used by")
LOCKS = {"working": 0, "absent": errno.ENOSYS, "refused": errno.ENOLCK}
PATIENCE_S = 300.0


def without_locks(number: int) -> None:
    """Every flock of this process fails from now on."""
    import fcntl

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    fcntl.flock = flock


def count_trainings(file: Path) -> None:
    """Every training that comes to its end writes a line with its run."""
    if "skelbench.training.loop" not in sys.modules:  # the commands train nothing
        return
    from skelbench.training.loop import Trainer

    fit = Trainer.fit

    def counted(self: Trainer, *words: object, **named: object) -> float:
        seconds = fit(self, *words, **named)  # type: ignore[arg-type]
        with file.open("a") as lines:
            lines.write(f"{self.run.name}\n")
        return seconds

    Trainer.fit = counted  # type: ignore[method-assign]


class Crowd:
    def __init__(self, folder: Path, seed: int, locks: str, data_alone: bool) -> None:
        self.folder, self.dice, self.locks = folder, random.Random(seed), LOCKS[locks]
        self.tried: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.fallen: list[str] = []
        self.writers, self.readers = WRITERS, READERS
        if data_alone:
            self.writers, self.readers = (
                {name: each for name, each in all_.items() if "data" in name} for all_ in (WRITERS, READERS)
            )
        make_places(folder, trained=False)
        self.whole = place(folder, COMMANDS["run"], "whole")
        for name, command in self.writers.items():
            code, said = warm.run(command.typed(self.whole), self.whole / "log", first=shorten)
            if code:
                raise RuntimeError(f"{name} ended with {code}: {said}")

    def fall(self, what: str) -> None:
        self.fallen.append(what)
        print(f"FELL: {what}", flush=True)

    def start(self, name: str, command: Command, where: Path, number: int) -> tuple[str, int, Path]:
        log = where / f"{number}.log"

        def first() -> None:
            shorten()
            count_trainings(where / "trained")
            if self.locks:
                without_locks(self.locks)

        self.tried[name] += 1
        return name, warm.start(command.typed(where), log, first=first), log

    def end(self, name: str, code: int | None, said: str) -> bool:
        """Look at how a command ended; whether it was refused."""
        if code is None or "Traceback" in said or "internal error" in said:
            self.fall(f"{name}: exit code {code}: {said.strip()[-400:]}")
        sentences = [line for line in said.splitlines() if line.startswith("error: ")]
        if code == 2 and len(sentences) == 1 and any(word in said for word in REFUSALS) and name in self.writers:
            self.refused[name] += 1
            return True
        if code not in (0, None):
            self.fall(f"{name}: exit code {code}: {said.strip()[-400:]}")
        return False

    def round(self, number: int, processes: int) -> None:
        where = place(self.folder, COMMANDS["run"], "crowd")
        names = [name for name in TWICE for _ in range(2) if name in self.writers]
        names += self.dice.choices(list(self.writers), k=max(0, processes - len(names) - 1))
        self.dice.shuffle(names)
        working = []
        for i, name in enumerate(names):
            working.append(self.start(name, self.writers[name], where, i))
            time.sleep(self.dice.choice((0, 0, 0.1, 0.3)))
        again: list[str] = []
        reading = 100
        while working:
            for item in list(working):
                name, child, log = item
                if (code := warm.wait(child, 0)) is not None:
                    working.remove(item)
                    if self.end(name, code, log.read_text(errors="replace")):
                        again.append(name)
            reader = self.dice.choice(list(self.readers))
            reading += 1
            name, child, log = self.start(reader, self.readers[reader], where, reading)
            self.end(name, warm.wait(child, PATIENCE_S), log.read_text(errors="replace"))
        for name in dict.fromkeys([*again, *self.writers]):  # refused ones, and those left out
            reading += 1
            _, child, log = self.start(name, self.writers[name], where, reading)
            code, said = warm.wait(child, PATIENCE_S), log.read_text(errors="replace")
            if not (code == 0 or (code == 2 and "exists already" in said)):
                self.fall(f"{name}, alone after the crowd: exit code {code}: {said.strip()[-300:]}")
        trained = Counter((where / "trained").read_text().split() if (where / "trained").exists() else ())
        for run, times in trained.items():
            if times > 1:
                self.fall(f"{run} was trained {times} times")
        for output in ("results", "data"):
            if found := differences(self.whole / output, where / output):
                self.fall(f"round {number}, {output}: {found[:5]}")
        if litter := [path.name for path in where.rglob(".*") if path.suffix in (".tmp", ".partial", ".old")]:
            self.fall(f"round {number} left {litter}")
        if alive := warm.left_behind(20):
            self.fall(f"round {number}: {len(alive)} processes stay")
            warm.kill_all()

    def show(self) -> None:
        print(f"{'command':18} {'tried':>6} {'refused':>8}")
        for name in (*self.writers, *self.readers):
            print(f"{name:18} {self.tried[name]:6} {self.refused[name]:8}")
        print(f"{sum(self.tried.values())} commands, {len(self.fallen)} fell")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=8, help="at a time, one of them a reader")
    parser.add_argument("--data", action="store_true", help="the data commands alone")
    parser.add_argument("--locks", choices=list(LOCKS), default="working")
    parser.add_argument("--seed", type=int, default=1)
    typed = parser.parse_args()
    end_in_order()
    warm.warm_up(typed.data)
    with tempfile.TemporaryDirectory(prefix="crowd-") as folder:
        campaign = Crowd(Path(folder), typed.seed, typed.locks, typed.data)
        for number in range(typed.rounds):
            campaign.round(number, typed.processes)
    campaign.show()
    return 1 if campaign.fallen else 0


if __name__ == "__main__":
    sys.exit(main())
