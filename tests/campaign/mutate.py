"""Damaged and hostile files through every reader: ``python -m tests.campaign.mutate --count 1000000 --seed 1``.

A reader may refuse a file in one sentence or make something sensible of it, within five seconds and bounded memory.
Whatever else happens is a failure: it is printed with what makes the input again,
``--only READER --seed S --case N [--save FILE]``. Exit code 1 if there is one.
"""

import argparse
import math
import pickle
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .isolated import run_all
from .readers import PLACE, READERS, REFUSALS

SECONDS, MEMORY = 5.0, 2 << 30


def spoilt(name: str, seed: int, case: int) -> Any:
    """Input ``case`` of a reader."""
    return READERS[name].spoil(random.Random(f"{seed} {name} {case}"))


def attempt(name: str, seed: int, case: int) -> str:
    """What a reader does with an input: ``read`` or ``refused``; raises what is a failure."""
    data = spoilt(name, seed, case)
    try:
        return "read" if READERS[name].read(data) else "refused"
    except REFUSALS as error:
        sentence = str(error)
        assert sentence and len(sentence) < 20_000, f"a refusal of {len(sentence)} characters"
        return "refused"


def campaign(
    count: int, seed: int, only: str = "", say: Callable[[str], Any] = lambda line: None
) -> tuple[dict[str, Counter], list[str]]:
    """What became of ``count`` inputs by reader, and one line for each failure."""
    chosen = {name: reader for name, reader in READERS.items() if only in name}
    total = sum(reader.weight for reader in chosen.values())
    tally: dict[str, Counter] = {}
    failures: list[str] = []
    for name, reader in chosen.items():
        cases = range(math.ceil(count * reader.weight / total))
        tally[name], begin = Counter(), time.monotonic()
        spoilt(name, seed, 0)  # what all inputs are made from, and the imports for it, once and for all children
        for outcome in run_all(cases, lambda case, name=name: attempt(name, seed, case), SECONDS, MEMORY, quiet=bool):
            if outcome.fall:
                tally[name]["failed"] += 1
                failures.append(f"{name}, --seed {seed} --case {outcome.case}: {outcome.fall}")
            else:
                tally[name][outcome.value] += -outcome.case
        tally[name]["seconds"] = round(time.monotonic() - begin)
        say(row(name, tally[name]))
    return tally, failures


def row(name: str, counted: Counter) -> str:
    tried = sum(counted[kind] for kind in ("read", "refused", "failed"))
    outcomes = f"{counted['read']:>10,}{counted['refused']:>10,}{counted['failed']:>8,}"
    return f"{name:16}{tried:>10,}{outcomes}{counted['seconds']:>7,} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs in all (default: 1000000)")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default: 1)")
    parser.add_argument("--only", default="", metavar="READER", help="readers whose name holds this")
    parser.add_argument("--case", type=int, help="this input alone, with its traceback")
    parser.add_argument("--save", type=Path, help="with --case: where to write the input")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # what torch and numpy think of such files
    try:
        if args.case is not None:
            data = spoilt(args.only, args.seed, args.case)
            if args.save:
                args.save.write_bytes(data if isinstance(data, bytes) else pickle.dumps(data))
            print(attempt(args.only, args.seed, args.case))
            return
        print(f"{'reader':16}{'tried':>10}{'read':>10}{'refused':>10}{'failed':>8}{'time':>9}")
        tally, failures = campaign(args.count, args.seed, args.only, lambda line: print(line, flush=True))
    finally:
        PLACE.remove()
    print(row("all", sum(tally.values(), Counter())))
    print(*(line[:600] for line in failures[:200]), sep="\n")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
