"""The script of an array: what is asked for, the environment, a line for each trial, and what happens when it is
stopped (torch-free)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skelbench.core.version import __version__
from skelbench.pipeline.studies.slurm.resources import lead, slurm_time

ALSO = ("PYTHONPATH",)
PREFIXES = ("SKELBENCH_", "OMP_", "MKL_")
"""Variables that decide what a trial finds and which bits come out: written into the script, so that it does the same
wherever it is submitted from."""

_BODY = """
set +eu  # whatever the lines before have set
run= stopping=
stop() {{ stopping=yes; [ -z "$run" ] || kill -USR2 "$run" 2>/dev/null; }}
trap stop USR2 TERM

{{ printf '$ skelbench'; printf ' %q' "$@"; echo; }} >>"$logs/$cell.log"
{python} -m skelbench "$@" >>"$logs/$cell.log" 2>&1 &
run=$!
[ -z "$stopping" ] || stop
while kill -0 "$run" 2>/dev/null; do wait "$run"; done
wait "$run"; code=$?
[ "$code" = 0 ] && exit 0

# Stopped with its state saved, it goes back into the queue; what failed, or gets nowhere, stays out of it.
job=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
{python} -m skelbench.pipeline.studies.slurm.requeue "$logs" "$cell" "$twin" "$job" "$code" $stopping || exit "$code"
echo "$(date '+%F %T') $cell: goes back into the queue"
for pause in 0 2 5 10 20; do sleep "$pause"; scontrol requeue "$job" && exit 0; done
exit "$code"
"""


@dataclass(frozen=True)
class Cell:
    """One trial as a task of an array."""

    id: str
    name: str
    """Of its log; ends in the id."""
    twin: str
    """Id of its untrained twin, "" for none."""
    words: tuple[str, ...]
    """After ``skelbench``."""


@dataclass(frozen=True)
class Asked:
    """What an array asks of SLURM."""

    seconds: int
    memory: str
    cpus: int
    gpus: int
    partition: str | None
    at_once: int | None
    setup: tuple[str, ...]


def script(study: str, name: str, logs: Path, cells: Sequence[Cell], asked: Asked, python: Sequence[str]) -> str:
    """The text for sbatch. ``name``: of the job; ``logs``: the study's folder; ``python``: how it is called."""
    place = logs.absolute()
    options = {
        "job-name": name,
        "array": f"1-{len(cells)}" + (f"%{asked.at_once}" if asked.at_once else ""),
        "time": slurm_time(asked.seconds),
        "mem": asked.memory,
        "cpus-per-task": asked.cpus,
        "gres": f"gpu:{asked.gpus}" if asked.gpus else None,
        "partition": asked.partition,
        "output": str(place / "slurm").replace("%", "%%") + "/%A_%a.log",
        "open-mode": "append",
        "signal": f"B:USR2@{lead(asked.seconds)}",
    }
    head = [
        "#!/bin/bash",
        f"# {len(cells)} trials of study {study}, by skelbench {__version__}. To submit it by hand, first:",
        f"# mkdir -p {shlex.quote(str(place / 'slurm'))}",
        *(f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in options.items() if value is not None),
        "#SBATCH --requeue",
        "",
        *(f"export {key}={shlex.quote(value)}" for key, value in environment(asked).items()),
        f"cd {shlex.quote(os.getcwd())} || exit 2",
        *asked.setup,
        "",
        f"logs={shlex.quote(str(place))}",
        "case $SLURM_ARRAY_TASK_ID in",
        *(
            f"{number}) cell={shlex.quote(cell.name)} twin={cell.twin}; set -- {shlex.join(cell.words)} ;;"
            for number, cell in enumerate(cells, 1)
        ),
        "esac",
    ]
    return "\n".join(head) + "\n" + _BODY.format(python=shlex.join(python))


def environment(asked: Asked, held: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables of a trial: those of this process, and as many threads as cores, as a study here would give it."""
    kept = {key: value for key, value in sorted(held.items()) if key in ALSO or key.startswith(PREFIXES)}
    return kept if asked.gpus else {"OMP_NUM_THREADS": str(asked.cpus)} | kept
