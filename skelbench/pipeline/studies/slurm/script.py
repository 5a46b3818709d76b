"""The batch script of an array: its options, environment, one line per trial, and the requeue (torch-free)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.core.version import __version__

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PREFIXES = ("SKELBENCH_", "OMP_", "MKL_")
"""Environment variables that the script repeats, so that the place of submission does not matter."""

_BODY = """
set +eu  # whatever the lines before have set
run= stopping=
stop() {{ stopping=yes; [ -z "$run" ] || kill -USR2 "$run" 2>/dev/null; }}
trap stop USR2 TERM

{{ printf '$ skelbench'; printf ' %q' "$@"; echo; }} >>"$logs/$trial.log"
{python} -m skelbench "$@" >>"$logs/$trial.log" 2>&1 &
run=$!
[ -z "$stopping" ] || stop
while kill -0 "$run" 2>/dev/null; do wait "$run"; done
wait "$run"; code=$?
[ "$code" = 0 ] && exit 0

# A trial that saved its state goes back into the queue; one that failed, or makes no progress, does not.
job=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID
set -- "$logs" "$trial" "$baseline" "$job" "$code" $stopping
{python} -m skelbench.pipeline.studies.slurm.requeue "$@" || exit "$code"
echo "$(date '+%F %T') $trial: requeued"
for pause in 0 2 5 10 20; do sleep "$pause"; scontrol requeue "$job" && exit 0; done
exit "$code"
"""


@dataclass(frozen=True)
class Task:
    """One trial as a task of an array."""

    id: str
    name: str
    """Name of its log; ends in the id."""
    baseline: str
    """Id of its untrained baseline, "" for none."""
    words: tuple[str, ...]
    """Words after ``skelbench``."""


@dataclass(frozen=True)
class Resources:
    """Resources of each task of an array."""

    seconds: int
    memory: str
    cpus: int
    gpus: int
    partition: str | None
    at_once: int | None
    setup: tuple[str, ...]
    """Lines of shell before a trial."""


def seconds_of(text: str) -> int:
    """Parse ``4h``, ``1d12h``, ``90m`` or SLURM's ``4:00:00``, ``1-12:00:00``."""
    if parts := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", text):
        days, hours, minutes, rest = (int(part or 0) for part in parts.groups())
        seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
    elif re.fullmatch(r"(\d+[dhms])+", text):
        seconds = sum(int(count) * _UNITS[unit] for count, unit in re.findall(r"(\d+)([dhms])", text))
    else:
        seconds = 0
    if seconds < 60:
        raise SkelbenchError(f"--time {text!r} is not a time of a minute or more; write 4h, 90m, 1d12h or 04:00:00")
    return seconds


def script(
    study: str, name: str, logs: Path, tasks: Sequence[Task], resources: Resources, python: Sequence[str]
) -> str:
    """Return the text for sbatch. ``name``: job name; ``logs``: folder of the study; ``python``: its command."""
    folder = logs.absolute()
    options = {
        "job-name": name,
        "array": f"1-{len(tasks)}" + (f"%{resources.at_once}" if resources.at_once else ""),
        "time": -(-resources.seconds // 60),
        "mem": resources.memory,
        "cpus-per-task": resources.cpus,
        "gres": f"gpu:{resources.gpus}" if resources.gpus else None,
        "partition": resources.partition,
        "output": str(folder / "slurm").replace("%", "%%") + "/%A_%a.log",
        "open-mode": "append",
        "signal": f"B:USR2@{min(120, resources.seconds // 4)}",  # seconds before the limit, to save the state
    }
    head = [
        "#!/bin/bash",
        f"# {len(tasks)} trials of study {study}, by skelbench {__version__}. To submit it by hand, first:",
        f"# mkdir -p {shlex.quote(str(folder / 'slurm'))}",
        *(f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in options.items() if value is not None),
        "#SBATCH --requeue",
        "",
        *(f"export {key}={shlex.quote(value)}" for key, value in environment(resources).items()),
        f"cd {shlex.quote(os.getcwd())} || exit 2",
        *resources.setup,
        "",
        f"logs={shlex.quote(str(folder))}",
        "case $SLURM_ARRAY_TASK_ID in",
        *(
            f"{number}) trial={shlex.quote(task.name)} baseline={task.baseline}; set -- {shlex.join(task.words)} ;;"
            for number, task in enumerate(tasks, 1)
        ),
        "esac",
    ]
    return "\n".join(head) + "\n" + _BODY.format(python=shlex.join(python))


def environment(resources: Resources) -> dict[str, str]:
    """Environment variables of a trial: from this process, and on a CPU as many threads as cores."""
    own = {key: value for key, value in sorted(os.environ.items()) if key == "PYTHONPATH" or key.startswith(_PREFIXES)}
    return own if resources.gpus else {"OMP_NUM_THREADS": str(resources.cpus)} | own
