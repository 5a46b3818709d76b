"""Lines of metrics.jsonl: logged values, and anomalies found in them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from skelbench.core.files import naming
from skelbench.records.metrics import logged_lines
from skelbench.records.run_dir import RunDir
from skelbench.training.anomalies import AnomalyDetector, describe
from skelbench.training.checkpoint import WITHOUT_LOG

LINES = 500
"""Number of lines of metrics.jsonl, at even intervals, besides the first and the last step."""


class MetricsLog:
    """Write the metrics of a run of ``total`` steps and check them for anomalies; used in the first process only.

    ``on_line(step, metrics)`` gets every line. ``on_anomaly(*names, **found)`` is called when anomalies change: with
    the names of all detectors, and the anomalies of each detector that has some.
    """

    def __init__(self, run: RunDir, total: int, detectors: Mapping[str, AnomalyDetector]) -> None:
        self.run, self.total, self.detectors = run, total, detectors
        self.every = max(1, total // LINES)
        self.on_line: Callable[[int, dict[str, Any]], None] | None = None
        self.on_anomaly: Callable[..., None] | None = None
        self._file: IO[str] | None = None
        self._nonfinite: set[str] = set()
        """Metrics that were reported as not finite."""

    @contextmanager
    def open(self) -> Iterator[None]:
        """Context in which lines are appended to metrics.jsonl."""
        with naming(self.run.metrics), open(self.run.metrics, "a") as self._file:
            yield

    def is_due(self, step: int) -> bool:
        """Whether ``step``, counted from 1, has a line."""
        return step == 1 or step % self.every == 0 or step == self.total

    def replay(self) -> None:
        """Feed the lines of an earlier attempt to the detectors, and correct the anomalies in run.json."""
        for line in logged_lines(self.run, WITHOUT_LOG):
            for detector in self.detectors.values():
                detector.check(line)
        self._report()

    def write(self, line: dict[str, Any], reported: Mapping[str, Any]) -> dict[str, Any]:
        """Write ``line``; ``reported`` names the method's metrics in it; return fields for a progress bar."""
        assert self._file is not None, "write is called within open()"
        self.run.check_held()
        rounded = {key: _rounded(value) for key, value in line.items()}
        self._file.write(json.dumps(rounded) + "\n")
        self._file.flush()
        changed = {name: detector.check(rounded) for name, detector in self.detectors.items()}
        notes = [f"warning: {name}: {describe(anomaly)}" for name, items in changed.items() for anomaly in items]
        if notes:
            self._report()
        if nonfinite := {name for name in reported if rounded[name] is None} - self._nonfinite:
            self._nonfinite |= nonfinite
            notes.append(f"not finite, so not logged, since step {line['step']:,}: {', '.join(sorted(nonfinite))}")
        if self.on_line:
            self.on_line(line["step"], line)
        rank = next((key for key in ("rank_masked", "rank_pooled") if key in line), None)
        return ({rank: line[rank]} if rank else {}) | ({"note": "; ".join(notes)} if notes else {})

    def _report(self) -> None:
        if self.on_anomaly:
            anomalies = {name: detector.found for name, detector in self.detectors.items() if detector.found}
            self.on_anomaly(*self.detectors, **anomalies)


def _rounded(value: Any) -> Any:
    """Seven significant digits, which float32 has; None for a number that is not finite, which JSON cannot write."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None
