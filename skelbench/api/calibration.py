"""Comparison of imported public checkpoints, measured by their authors' own probe, with the published accuracies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec, listed
from skelbench.data.store.splits import full_name
from skelbench.evaluation.stats.paired import wilson
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.resolve import open_dataset
from skelbench.pipeline.session import Session
from skelbench.plugin.descriptors import MethodSpec, NativeProbe
from skelbench.records.run_dir import RunDir
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import Papers
from skelbench.reporting.published import Figure

Z = 1.96
"""Standard normal quantile of a two-sided 95 % interval."""


def expected(published: float, spread: float | None, n: int) -> tuple[float, float]:
    """Interval for a second measurement of a published accuracy: Wilson's 95 % interval of that fraction on ``n`` test
    clips, widened on both sides by 1.96 times the standard deviation that the source gives, if any.

    >>> [round(limit, 4) for limit in expected(0.85, None, 16487)]
    [0.8445, 0.8554]
    >>> [round(limit, 4) for limit in expected(0.85, 0.01, 16487)]
    [0.8249, 0.875]
    """
    low, high = wilson(round(published * n), n)
    margin = Z * (spread or 0.0)
    return max(0.0, low - margin), min(1.0, high + margin)


def calibrate(
    session: Session, dataset: str, split: str | None = None, run: tuple[RunDir, str] | None = None, force: bool = False
) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure ``run`` (with its checkpoint), or every imported checkpoint on ``dataset`` (and ``split``), by its
    authors' own probe; existing evaluations are read.

    Returns:
        One record per calibration, with accuracies between 0 and 1: ``published`` and its standard deviation,
        ``low`` and ``high`` (:func:`expected`), ``ours``, by the metric ``figure``, ``last_epoch``, ``passed``, run,
        data, probe and source; and the reasons why other imported runs could not be calibrated.

    Raises:
        SkelbenchError: there is nothing to calibrate: no imported run, no probe of its authors, no published number.
    """
    store = open_dataset(dataset, session.host, session.data_root)
    part = None if split is None else store.split(split).name
    cases, skipped = [], []
    announced = Papers(TableInputs(session.host, session.results))
    for measured, checkpoint in [run] if run else _imported(session, dataset, part):
        published = _published(session, measured, checkpoint, dataset, part, announced)
        if isinstance(published, str):
            skipped.append(f"{measured.name}: {published}")
        else:
            cases.append((measured, *published))
    if not cases:
        where = f"{dataset} / {part}" if part else dataset
        raise SkelbenchError(
            "; ".join(skipped)
            or f"no imported checkpoint on {where} in {session.results.root}; import one: skelbench import-checkpoint "
            f"METHOD FILE --dataset {dataset}{f' --split {part}' if part else ''}"
        )
    return [_measured(session, *case, force=force) for case in cases], skipped


def _imported(session: Session, dataset: str, split: str | None) -> Iterator[tuple[RunDir, str]]:
    for run in session.results.read():
        data = run.spec.data
        if run.outcome == "done" and run.spec.imported and data.name == dataset and split in (None, data.split):
            yield RunDir(run.path), "last"


def _published(
    session: Session, run: RunDir, checkpoint: str, dataset: str, split: str | None, announced: Papers
) -> tuple[EvalSpec, NativeProbe, Figure] | str:
    """The authors' probe of ``run`` and the published result, or why there is none."""
    data, host = run.spec.data, session.host
    if not run.spec.imported:
        return "it was trained here; a calibration is of a checkpoint that its authors published"
    if data.name != dataset or split not in (None, data.split):
        return f"it was imported for {data.name} / {data.split}; import the file for {dataset} too"
    method = next((entry for entry in host.all("methods") if entry.name == run.spec.method), None)
    probe = method.probe if isinstance(method, MethodSpec) else None
    if probe is None:
        return f"no plugin says by which protocol the authors of {run.spec.method} measured (probe of its MethodSpec)"
    settings = probe.data.get(data.name, {})
    if differing := {key: value for key, value in settings.items() if getattr(data, key) != value}:
        options = " ".join(f"--set data.{key}={value}" for key, value in differing.items())
        return f"its clips are not prepared as in its authors' code; import the file again with {options}"
    own = eval_spec(host, run, probe.protocol, checkpoint, config=probe.on(data.name, full_name(data.split)))
    figure = announced.printed(run.title, own.stream_title, data.name, data.split)
    if figure is None:
        return (
            f"no published linear accuracy of {run.title} ({own.stream_title}) on {data.title} / {data.split} is "
            "announced; a plugin can (skelbench_published, skelbench_rows)"
        )
    return own, probe, figure


def _measured(
    session: Session, run: RunDir, spec: EvalSpec, probe: NativeProbe, figure: Figure, force: bool
) -> dict[str, Any]:
    record = evaluate(session, run, spec, force)
    session.features.clear()  # the next run cannot use these features
    metrics, data = record["metrics"], run.spec.data
    published, n = figure["value"] / 100, int(metrics["n_test"])
    spread = None if figure["std"] is None else figure["std"] / 100
    compared = "accuracy_best_on_test" if probe.best_on_test else "accuracy"
    if compared not in metrics:
        raise SkelbenchError(
            f"protocol {spec.protocol} measured no {compared}, but the NativeProbe of {run.spec.method} has "
            "best_on_test=True: remove it, or let the protocol measure it (for fine-tuning: "
            "settings={'': {'best_on_test': True}})"
        )
    low, high = expected(published, spread, n)
    return {
        "method": run.title,
        "run": run.name,
        "dataset": data.title,
        "split": data.split,
        "stream": spec.stream_title,
        "protocol": spec.protocol,
        "settings": listed(probe.on(data.name, full_name(data.split))),
        "published": published,
        "published_sd": spread,
        "source": figure["source"],
        "note": figure["note"],
        "low": low,
        "high": high,
        "figure": compared,
        "ours": metrics[compared],
        "last_epoch": metrics["accuracy"],
        "n_test": n,
        "changed": listed(run.info["modified"]),
        "evaluation": record["id"],
        "passed": low <= metrics[compared] <= high,
    }
