"""Results whose every name would do harm if anything took it for more than words."""

import json

import numpy as np
from fabricated import COLLAPSE, Fabricated, correct
from small import write_small_store

from skelbench.data.store.clip_store import ClipStore

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e[/]"
"""Text that would run, or reverse a line, if a page did not escape it."""
METRICS = [
    {"step": step, "epoch": step / 40, "clips_seen": 32 * step, "loss": 3.0 / step, "rank_pooled": 5.0, EVIL: 1.0}
    for step in range(1, 1201)
]


def edit(path, **fields):
    """Change fields of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def write_results(root):
    """Runs of a dataset with hostile classes: finished, failed, collapsed, damaged, and one with snapshots."""
    (root / "data").mkdir()
    write_small_store(root / "data", "evil", classes=[f"{EVIL}{k}" for k in range(4)])
    data = {"dataset": "evil", "split": "half", "fingerprint": ClipStore.open(root / "data/evil").meta.fingerprint}
    made, rng = Fabricated(root / "results"), np.random.default_rng(0)
    labels = np.arange(400) % 4
    for title, share in (("slim", 0.9), ("mamp", 0.5), ("untrained", 0.4)):
        predicted = np.where(rng.random(400) < share, labels, (labels + 1) % 4)
        how = {"labels": labels, "predicted": predicted, "hardware": EVIL, **data}
        name = made.run(title, np.zeros(400), preset="quick", trained_on=(), metrics=METRICS, collapse=[], **how)
        edit(root / "results" / name / "run.json", created=1.0)
    made.run(
        "slim", correct(0.6, 400), preset="quick", trained_on=(), hardware=EVIL, checkpoint="12.5", knn=None, **data
    )
    edit(root / "results" / made.run("amr", None, outcome="failed", **data) / "run.json", reason=EVIL)
    made.run("ibot", None, collapse=[COLLAPSE], **data)
    made.run("gfp", correct(0.5, 400), modified={EVIL: EVIL}, **data)
    (root / "results" / made.run("dino", 0.5) / "run.json").write_text("{ not whole")
    return root
