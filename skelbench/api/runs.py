"""Runs in a notebook: train, find and evaluate them with the code of the commands."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.api.arguments import keywords
from skelbench.api.place import RunOnDisk, open_place, path_of
from skelbench.api.plugins import use_plugins
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec, RunSpec
from skelbench.core.text import plain
from skelbench.pipeline.request import EvaluationRequest, RunRequest, known_protocols, read_config
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore

if TYPE_CHECKING:
    import pandas

    from skelbench.api.encoder import FrozenEncoder
    from skelbench.pipeline.resolve import Resolved

log = logging.getLogger(__name__)


class Run(RunOnDisk):
    """A run on disk, read on access. :func:`run`, :func:`runs` and :func:`get_run` return it."""

    @property
    def name(self) -> str:
        """Name of the run's directory: method, data, preset, seed and id."""
        return self._directory.name

    @property
    def id(self) -> str:
        """The pretrain_id: hash of everything that decides the weights."""
        return self.spec.id

    @property
    def title(self) -> str:
        """``slim``, ``slim:glcl-only``: method and variant as they are typed."""
        return self._directory.title

    @property
    def spec(self) -> RunSpec:
        """Settings that decide the weights, as plain data."""
        return self._directory.spec

    @property
    def info(self) -> dict[str, Any]:
        """Content of run.json: spec, preset, what was modified, environment, outcome, times."""
        return self._directory.info

    @property
    def outcome(self) -> str:
        """new, running, interrupted, diverged, failed or done."""
        return self._directory.outcome

    @property
    def metrics(self) -> pandas.DataFrame:
        """Log of training, a row per line: ``step``, ``epoch``, ``clips_seen``, ``loss``, ...; NaN where a line has no
        such value. Empty for an untrained run."""
        return read_metrics(self._directory)

    @property
    def cost(self) -> dict[str, Any] | None:
        """MACs, step FLOPs, parameters, latency, memory; None before they were counted."""
        return self._directory.cost()

    def accuracy(self, protocol: str = "linear") -> float:
        """Test accuracy by ``protocol`` as a fraction: of the standard evaluation at :attr:`checkpoint`, else of the
        latest.

        Raises:
            SkelbenchError: the run has no such evaluation; says how to make it.
        """
        records = [record for record in self._directory.records() if record["spec"]["checkpoint"] == self.checkpoint]
        matching = [record for record in records if record["spec"]["protocol"] == protocol]
        if not matching:
            protocols = sorted({record["spec"]["protocol"] for record in records})
            raise SkelbenchError(
                f"run {self.name} was not evaluated by {protocol!r}, but by {', '.join(protocols) or 'nothing'}; "
                f"skelbench.evaluate(run, {protocol!r}) does it"
            )
        best = max(matching, key=lambda record: (record["standard"], record["finished"]))
        return best["metrics"]["accuracy"]

    def evaluate(self, protocol: str = "linear", **options: Any) -> Evaluation:
        """:func:`skelbench.evaluate` of this run."""
        return evaluate(self, protocol, **options)

    def encoder(self, **options: Any) -> FrozenEncoder:
        """Its frozen encoder: :func:`skelbench.load_encoder` with the same options."""
        from skelbench.api.load import load_encoder

        return load_encoder(self, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and (self.path, self.checkpoint) == (other.path, other.checkpoint)

    def __hash__(self) -> int:
        return hash((self.path, self.checkpoint))

    def __repr__(self) -> str:
        epoch = "" if self.checkpoint == "last" else f"@{self.checkpoint}"
        return f"Run({self.name}{epoch}: {self.outcome})"


class Evaluation:
    """One evaluation of a run."""

    def __init__(self, run: Run, record: Mapping[str, Any]) -> None:
        self.run, self.record = run, record

    @property
    def accuracy(self) -> float:
        """Test accuracy, a share."""
        return self.metrics["accuracy"]

    @property
    def metrics(self) -> dict[str, float]:
        """All that the protocol measured; accuracies are fractions."""
        return dict(self.record["metrics"])

    @property
    def spec(self) -> EvalSpec:
        """Protocol, settings, data and preprocessing of clips."""
        return EvalSpec.model_validate(self.record["spec"])

    @property
    def predictions(self) -> pandas.DataFrame:
        """A row per test clip: ``ids``, ``labels``, ``predicted``, ``correct`` and, if the file has them, ``subjects``.
        With several draws (label subsets, corruptions), one row per draw and clip; ``draw`` counts from 0."""
        import numpy as np
        import pandas

        from skelbench.evaluation.outcomes import predictions

        arrays = predictions(RunDir(self.run.path), self.record)
        if arrays["predicted"].ndim == 1:
            return pandas.DataFrame(arrays)
        draws, clips = arrays["predicted"].shape
        flat = {name: x.ravel() if x.ndim == 2 else np.tile(x, draws) for name, x in arrays.items()}
        return pandas.DataFrame({"draw": np.repeat(np.arange(draws), clips), **flat})

    def __repr__(self) -> str:
        spec = self.spec
        figures = ", ".join(f"{name}={value:.4g}" for name, value in self.metrics.items())
        return f"Evaluation({self.run.title} by {spec.protocol} on {spec.data.title} / {spec.data.split}: {figures})"


@keywords(RunRequest)
def run(method: str, **asked: Any) -> Run:
    """Train ``method``, probe it and its controls, count its cost: ``skelbench run``, from Python.

    A finished run is not made again, and a stopped run resumes: make the same call again. Defaults are the command's.

    Raises:
        SkelbenchError: says what is wrong and what to do; a notebook shows only this message.
    """
    from skelbench.pipeline.controls import check_protocols, conclude
    from skelbench.pipeline.pace import Timer
    from skelbench.pipeline.pretrain import pretrain
    from skelbench.pipeline.resolve import resolve
    from skelbench.pipeline.warm_start import finished

    request = RunRequest(method=method, **asked)
    host = use_plugins([*request.plugins, *(read_config(request.config)[0]["plugins"] if request.config else ())])
    host.method(method)
    known_protocols(host, request.probes)
    session = open_place(request)
    if (parent := request.init_from) is not None:
        if isinstance(parent, Run):
            parent = parent.id + ("" if parent.checkpoint == "last" else f"@{parent.checkpoint}")
        request = request.model_copy(update={"init_from": finished(session.results, parent)})
    resolved = resolve(request, session.host, session.data_root, session.device, Timer(session, keep=True))
    check_protocols(session, resolved, request.probes)
    for note in resolved.notes:
        log.warning("note: %s", note)
    directory = pretrain(session, resolved, request.force)

    def uncounted(resolved: Resolved, error: Exception) -> None:
        log.warning("note: the cost of %s could not be counted: %s", resolved.title, plain(error))

    conclude(session, directory, resolved, request.probes, request.force, uncounted)
    return Run(directory, session.data_root)


@keywords(EvaluationRequest)
def evaluate(run: Run | str | Sequence[Run | str], protocol: str = "linear", **asked: Any) -> Evaluation:
    """Evaluate a finished run by ``protocol``: ``skelbench eval``, from Python. Existing results are read.

    ``run``: a :class:`Run`, its name, its id, or a part of either; several, one per stream, are fused.

    Raises:
        SkelbenchError: there is no such run or protocol, or the run is not finished.
    """
    from skelbench.api.evaluations import evaluate_runs

    request = EvaluationRequest(**asked)
    runs = [run] if isinstance(run, Run | str) else list(run)
    if not runs:
        raise SkelbenchError("there is no run among those given; give one at least")
    first = next((run for run in runs if isinstance(run, Run)), None)
    if first is not None:
        results, data, _ = first.at(request.results, request.data)
        request = request.model_copy(update={"results": results, "data": data})
    use_plugins(request.plugins).get("protocols", protocol)
    session = open_place(request)
    entries = [
        (RunDir(item.path).checked(), item.checkpoint) if isinstance(item, Run) else session.results.find(item)
        for item in runs
    ]
    (record,) = evaluate_runs(session, entries, [protocol], request)
    directory, checkpoint = entries[0]
    return Evaluation(Run(RunDir(directory.path), session.data_root, checkpoint), record)


def get_run(pattern: str, *, results: Path | str | None = None, data: Path | str | None = None) -> Run:
    """The run with this name, id, title or an unambiguous part of name or id; ``RUN@50`` is its snapshot at epoch 50.

    Raises:
        SkelbenchError: none or several have it; names the nearest.
    """
    directory, checkpoint = ResultStore(path_of(results)).find(pattern)
    directory.encoder(checkpoint)
    return Run(RunDir(directory.path), data, checkpoint)


def runs(results: Path | str | None = None, *, data: Path | str | None = None) -> list[Run]:
    """Every run below ``results`` (none = ``$SKELBENCH_RESULTS`` or ``results``), by name."""
    return [Run(RunDir(stored.path), data) for stored in ResultStore(path_of(results)).read()]
