"""Kill commands at random moments, issue them again, and compare with what an unbroken one gives.

    python -m tests.campaign.kill --count 200 --term 50 --seed 1 [--only run,eval]

A case takes one command and kills it one to six times before it is let through. A SIGKILL comes at a random moment or,
every other time, at a random write of the process itself (the n-th file opened for writing, renamed, removed, or folder
made), where damage would be done; of a study, either the study's process, one of its trials, or all die. SIGTERM comes
at a random moment. After every kill a reader (``runs list``, ``compare``, ``data list``) looks at what there is.

Falls: a reader or the command itself that ends in a traceback or an internal error; the command issued again that does
not end well (a data set or file that is there already may be refused, when it is the whole one); other weights,
metrics, predictions, stores, exports or pictures than an unbroken command's, every field but
:data:`.places.VARIES`; temporary files that stay; processes that stay. Commands run in forked children of a process
that has imported everything (:mod:`.warm`), passes are timed once and the state is saved after every step
(:func:`.commands.shorten`), on a data set of 24 clips and 40 recordings.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from . import warm
from .commands import COMMANDS, WITHOUT_TORCH, Command, at_writes, chosen, make_places, place, shorten
from .places import differences, end_in_order

WEIGHTS = {"run": 6, "study --jobs 2": 4, "eval": 5, "diagnose": 0, "data prepare": 4, "data import": 4}
"""How often a command is taken, where not 3."""
MOST = 6
"""Kills before a command is let through."""
READERS = (("runs", "list", "--results", "@results"), ("compare", "--all", "--format", "json", "--results", "@results"))
DATA_READERS = (("data", "list", "--data-root", "@data"),)
PATIENCE_S = 180.0


class Kill:
    def __init__(self, folder: Path, seed: int, commands: dict[str, Command]) -> None:
        self.folder, self.dice = folder, random.Random(seed)
        self.commands = commands
        self.tried: Counter[tuple[str, str]] = Counter()
        self.cases: Counter[str] = Counter()
        self.fallen: list[tuple[str, str]] = []
        self.seconds: dict[str, float] = {}
        self.writes: dict[str, int] = {}
        self.litter: Counter[str] = Counter()
        make_places(folder, any(command.trained for command in commands.values()))
        for name, command in self.commands.items():
            self.whole(name, command)

    def whole(self, name: str, command: Command) -> None:
        """The command unbroken, once."""
        where = place(self.folder, command, f"whole {name}")
        started, counted = time.monotonic(), self.folder / "counted"
        counted.write_bytes(b"")

        def first() -> None:
            shorten()
            file = os.open(counted, os.O_WRONLY | os.O_APPEND)
            at_writes(lambda _: os.write(file, b"."), where)

        code, said = warm.run(command.typed(where), where / "log", first=first)
        self.seconds[name], self.writes[name] = time.monotonic() - started, counted.stat().st_size
        if code:
            raise RuntimeError(f"{name} ended with {code}: {said}")

    def fall(self, name: str, what: str) -> None:
        self.fallen.append((name, what))
        print(f"FELL: {name}: {what}", flush=True)

    # ------------------------------------------------------------------------------------------ one case
    def case(self, kinds: list[str]) -> None:
        """One command, killed in the ways ``kinds`` one after another, then let through."""
        names = list(self.commands)
        name = self.dice.choices(names, [WEIGHTS.get(each, 3) for each in names])[0]
        command = self.commands[name]
        where = place(self.folder, command, "case")
        self.cases[name] += 1
        story = []
        for kind in kinds:
            story.append(how := self.kill(name, command, where, kind, story))
            self.read(name, command, where, story)
            if how == "too late":
                break
        self.let_through(name, command, where, story)

    def kill(self, name: str, command: Command, where: Path, kind: str, story: list[str]) -> str:
        """Start the command and kill it; says how that went."""
        moment = self.dice.uniform(0, 1.1 * self.seconds[name])
        number = self.dice.randint(1, max(1, self.writes[name] // (1 if len(story) == 0 else 2)))
        suicide = kind == "kill" and self.dice.random() < 0.5

        def first() -> None:
            shorten()
            if suicide:
                at_writes(lambda n: n == number and os.kill(os.getpid(), signal.SIGKILL), where)

        (where / "log").unlink(missing_ok=True)
        child = warm.start(command.typed(where), where / "log", first=first)
        code = warm.wait(child, PATIENCE_S if suicide else moment)
        how = f"SIGKILL at write {number}" if suicide else f"{kind} after {moment:.2f} s"
        if code is None and not suicide:
            self.tried[name, kind] += 1
            trials = [pid for pid in warm.children() if pid != child] or _children_of(child)
            whom = self.dice.choice(("leader", "trial", "all")) if trials and name.startswith("study") else "leader"
            number = signal.SIGKILL if kind == "kill" else signal.SIGTERM
            for pid in {"leader": [child], "trial": trials[:1], "all": [child, *trials]}[whom]:
                _send(pid, number)
            how += f" at {whom}" * (whom != "leader")
            code = warm.wait(child, PATIENCE_S)
        elif code == -signal.SIGKILL:
            self.tried[name, "kill at a write"] += 1
        elif code is None:
            self.fall(name, f"hangs ({how})")
            warm.kill_all(child)
        else:
            how = "too late" if code == 0 else f"{how}: exit code {code}"
        said = (where / "log").read_text(errors="replace") if (where / "log").exists() else ""
        if code == 2 and "exists already" in said:
            return "too late"
        self.look(name, said, [how])
        allowed = (0, 3, 130, 143, -signal.SIGTERM) if kind == "term" else (0, 3, -signal.SIGKILL)
        if code not in allowed:
            self.fall(name, f"exit code {code} after {how}: {said.strip()[-300:]}")
        return how

    def look(self, name: str, said: str, story: list[str]) -> None:
        for word in ("Traceback", "internal error"):
            if word in said:
                self.fall(name, f"{word} after {', '.join(story)}: {said.strip()[-400:]}")

    def read(self, name: str, command: Command, where: Path, story: list[str]) -> None:
        words = self.dice.choice(DATA_READERS if command.words[0] == "data" else READERS)
        code, said = warm.run(Command(words).typed(where), where / "reader.log")
        if code or "Traceback" in said or "internal error" in said:
            self.fall(name, f"{' '.join(words[:2])} ended with {code} after {', '.join(story)}: {said[-300:]}")

    def let_through(self, name: str, command: Command, where: Path, story: list[str]) -> None:
        code, said = warm.run(command.typed(where), where / "log", PATIENCE_S, first=shorten)
        if not (code == 0 or (code == 2 and "exists already" in said)):
            self.fall(name, f"again: exit code {code} after {', '.join(story)}: {said.strip()[-300:]}")
        self.look(name, said, story)
        if alive := warm.left_behind(30):
            self.fall(name, f"{len(alive)} processes stay after {', '.join(story)}")
            warm.kill_all()
        for output in command.outputs:
            litter = [path for path in (where / output).rglob(".*") if path.suffix in (".tmp", ".partial", ".old")]
            self.litter[name] += len(litter)
            if litter:
                self.fall(name, f"left after {', '.join(story)}: {[path.name for path in litter]}")
            for path in litter:
                path.rename(self.folder / "litter")
            if found := differences(self.folder / f"whole {name}" / output, where / output):
                self.fall(name, f"differs after {', '.join(story)}: {found[:5]}")

    # ------------------------------------------------------------------------------------------ all
    def run(self, kills: int, terms: int, limit_s: float) -> None:
        started = time.monotonic()
        while time.monotonic() - started < limit_s:
            done = Counter({"kill": 0, "term": 0})
            for (_, kind), count in self.tried.items():
                done["term" if kind == "term" else "kill"] += count
            left = ["kill"] * (kills - done["kill"]) + ["term"] * (terms - done["term"])
            if not left:
                break
            self.case(self.dice.sample(left, min(len(left), self.dice.randint(1, MOST))))
            if sum(self.cases.values()) % 10 == 0:
                print(f"{time.monotonic() - started:.0f} s: {dict(done)} done", flush=True)

    def show(self) -> None:
        kinds = ("kill", "kill at a write", "term")
        print(f"{'command':16} {'cases':>6} " + " ".join(f"{kind:>16}" for kind in kinds) + f" {'fell':>6}")
        for name in self.commands:
            counts = " ".join(f"{self.tried[name, kind]:16}" for kind in kinds)
            print(f"{name:16} {self.cases[name]:6} {counts} {sum(fell == name for fell, _ in self.fallen):6}")
        totals = " ".join(f"{sum(n for (_, own), n in self.tried.items() if own == kind):16}" for kind in kinds)
        print(f"{'all':16} {sum(self.cases.values()):6} {totals} {len(self.fallen):6}")


def _children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="SIGKILLs")
    parser.add_argument("--term", type=int, default=50, help="SIGTERMs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"commands, comma separated, of: {', '.join(COMMANDS)}")
    parser.add_argument("--minutes", type=float, default=240, help="at most")
    typed = parser.parse_args()
    end_in_order()
    commands = chosen(typed.only)
    warm.warm_up(commands.keys() <= WITHOUT_TORCH)
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        campaign = Kill(Path(folder), typed.seed, commands)
        campaign.run(typed.count, typed.term, 60 * typed.minutes)
    campaign.show()
    return 1 if campaign.fallen else 0


if __name__ == "__main__":
    sys.exit(main())
