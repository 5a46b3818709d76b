#!/usr/bin/env python3
"""sbatch, squeue, scontrol and scancel that only keep a list, in ``queue.json`` next to them.

``settings.json``: {"away": number of calls that get no answer}.
"""

import json
import os
import re
import sys
from pathlib import Path

HERE = Path(sys.argv[0]).parent
NAME, WORDS = Path(sys.argv[0]).name, sys.argv[1:]
QUEUE, SETTINGS = HERE / "queue.json", HERE / "settings.json"


def end(sentence):
    sys.exit(f"{NAME}: error: {sentence}")


settings = json.loads(SETTINGS.read_text()) if SETTINGS.exists() else {}
tasks = json.loads(QUEUE.read_text()) if QUEUE.exists() else []
with open(HERE / "calls", "a") as calls:
    calls.write(" ".join([NAME, *WORDS]) + "\n")
away = settings.get("away", {}).get(NAME, 0) > 0
if away:
    settings["away"][NAME] -= 1
    SETTINGS.write_text(json.dumps(settings))
    if NAME != "sbatch":
        end("Unable to contact slurm controller (connect failure)")
if NAME == "sbatch":
    text = Path(WORDS[-1]).read_text() if Path(WORDS[-1]).is_file() else sys.stdin.read()
    options = dict(re.findall(r"(?m)^#SBATCH --([a-z-]+)=(.*)$", text))
    if options.get("partition", "low") != "low":
        sys.stderr.write(f"sbatch: error: invalid partition specified: {options['partition']}\n")
        end("Batch job submission failed: Invalid partition name specified")
    count = int(re.match(r"1-(\d+)", options["array"])[1])
    assert "SBATCH_TIMELIMIT" not in os.environ, "it goes before what the script says"
    job = 1 + max((task["job"] for task in tasks), default=100)
    tasks += [
        {
            "job": job,
            "index": index + 1,
            "state": "PENDING",
            "reason": "Resources",
            "node": "",
            "name": options["job-name"],
        }
        for index in range(count)
    ]
    QUEUE.write_text(json.dumps(tasks))
    if away:  # it was taken
        end("Batch job submission failed: Socket timed out on send/recv operation")
    print(job)
elif NAME == "squeue":
    job = WORDS[WORDS.index("-j") + 1] if "-j" in WORDS else None
    for task in tasks:
        if job == f"{task['job']}_{task['index']}":
            print(f"{task['state']}|{task['reason']}")
        elif job is None:
            print("|".join(str(task[key]) for key in ("job", "index", "state", "reason", "node", "name")))
elif NAME == "scancel":
    QUEUE.write_text(json.dumps([task for task in tasks if str(task["job"]) not in WORDS]))
