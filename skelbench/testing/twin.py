"""Whether a method, by its own recipe, is better than the untrained encoder of its shape: the one check that takes
minutes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from skelbench.evaluation.outcomes import paired
from skelbench.evaluation.stats.paired import PairedTest
from skelbench.pipeline.controls import control
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import Resolved, resolve
from skelbench.pipeline.session import Session, open_session
from skelbench.plugin.host import Host
from skelbench.testing.check import Failed

PROTOCOLS = ("linear", "knn")
ALPHA = 0.05
"""For both probes together: each is held against half of it."""


def check_twin(host: Host, method: str) -> None:
    """Train ``method`` at preset ``quick`` on the synthetic clips, and hold it against its untrained twin.

    Raises:
        Failed: no probe finds it better.
    """
    with tempfile.TemporaryDirectory(prefix="skelbench-") as folder:
        session = open_session(Path(folder), device="cpu")
        request = Request(method, dataset="synthetic", preset="quick", tokens=8)
        judge(compared(session, resolve(request, host, session.data_root, session.device)))


def compared(session: Session, resolved: Resolved) -> dict[str, PairedTest]:
    """By protocol: the run minus its untrained twin, on the same test clips."""
    runs = [pretrain(session, one) for one in (resolved, control(resolved, session.host))]
    tests = {}
    for protocol in PROTOCOLS:
        specs = [eval_spec(session.host, run, protocol, like=resolved) for run in runs]
        records = [evaluate(session, run, spec, like=resolved) for run, spec in zip(runs, specs)]
        tests[protocol] = paired(runs[0], records[0], runs[1], records[1])
    return tests


def judge(tests: Mapping[str, PairedTest]) -> None:
    """Raise :class:`Failed` unless one of the tests finds the run better, at :data:`ALPHA` for all together."""
    if any(test.difference > 0 and test.p_value < ALPHA / len(tests) for test in tests.values()):
        return
    seen = [
        f"{name} {100 * test.accuracy_a:.1f} % against {100 * test.accuracy_b:.1f} % untrained, p = {test.p_value:.2g}"
        for name, test in tests.items()
    ]
    raise Failed(
        f"better than its untrained encoder by one probe of {len(tests)}, p < {ALPHA / len(tests):g}",
        "; ".join(seen),
        "learning rate, temperature and length of the schedule: eight thousand clips are few",
    )
