"""Text of ``skelbench run`` before and after: facts, comparison with the controls, next commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.core.console import make_table, out, print_facts, styled
from skelbench.core.spec import DataSpec, EvalSpec, listed
from skelbench.core.text import trainings
from skelbench.data.store.roots import data_root
from skelbench.evaluation.stats.bootstrap import SEEDS
from skelbench.evaluation.stats.paired import PairedTest, SeedsTest
from skelbench.pipeline.presets import BLURB, SETTING
from skelbench.records import measures
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir
from skelbench.records.store import default_root
from skelbench.reporting.reference import FOLDER
from skelbench.training.anomalies import ADVICE, UNMOVED, describe

if TYPE_CHECKING:
    from rich.table import Table

    from skelbench.evaluation.outcomes import Outcomes
    from skelbench.pipeline.resolve import Resolved


REFERENCE = {"linear": (0.598, 0.140), "knn": (0.558, 0.397)}
"""Test accuracy of ``results/reference/small-synthetic/slim-160000.zip`` and of raw coordinates, by probe."""


def print_header(resolved: Resolved, device: str) -> None:
    """Print the run that begins, its hardware, and the runs that it can be compared with."""
    from skelbench.records.environment import hardware

    spec, joints = resolved.spec, resolved.store.topology.num_joints
    preset = resolved.preset + (" with changes" if resolved.modified else "")
    grid = f"{spec.tokens} x {joints} tokens (T = {spec.grid.frames}, P_T = {spec.grid.patch})"
    if not resolved.method.weights:
        grid = f"{spec.grid.frames} frames x {joints} joints"
    changes = resolved.method.variants[resolved.variant] if resolved.variant else {}
    facts = [
        ("run", f"{resolved.title} on {spec.data.title} / {spec.data.split}, {grid}, seed {spec.seed}, id {spec.id}"),
        ("preset", f"{preset}: {BLURB.get(resolved.preset, 'settings of this method alone')}"),
        ("variant", changes and f"{resolved.variant}: {listed(changes)}"),
        ("setting", SETTING[resolved.setting]),
        ("budget", resolved.length and resolved.length.sentence),
        ("hardware", f"{hardware(device)}, {spec.train.precision}"),
        *(("note", note) for note in resolved.notes),
    ]
    print_facts(facts)


def named_root(results: Path) -> str:
    """`` --results FOLDER`` for a command to type; "" for the default folder."""
    return "" if results == default_root() else f" --results {shlex.quote(str(results))}"


def named_data(folder: Path) -> str:
    """`` --data-root FOLDER`` for a command to type; "" for the default folder."""
    return "" if folder == data_root() else f" --data-root {shlex.quote(str(folder))}"


def print_summary(pairs: list[tuple[Any, dict[str, Any]]], cost: Mapping[str, Any] | None, resolved: Resolved) -> None:
    """Print accuracy next to the controls with paired tests, cost, speed, directory of the run and next commands.

    ``pairs``: run and its records by protocol, the run itself first.
    """
    from skelbench.reporting.frame import budget_of

    run, records = pairs[0]
    if records:
        _print_accuracy(pairs)
        for protocol in records:
            _print_further(protocol, pairs)
        _print_perspective(run, records, resolved.store.num_classes)
        _print_notes(records.values())
    info = run.info
    for kind, warning in anomalies(info):
        out.print(f"{kind}: {warning}", style="bold yellow")
    facts = cost_facts(cost) if cost else []
    print_facts([*facts, ("training", training_text(info))], title="Cost (FLOPs = 2 MACs, matrix products only)")
    out.print(f"\nThe run is stored in {run.path}")
    out.print("Next:")
    where = named_root(run.path.parent)
    compare = "skelbench compare" + (" --all" if resolved.modified and not budget_of(run.info) else "")
    compares = any(name.startswith("linear") for name in records)
    for command, purpose in (
        ("skelbench plugins list methods", "other methods: run one in the same way"),
        ((compare if compares else "skelbench runs list") + where, "all runs side by side"),
        ("skelbench compare --table flops" + where, "cost at the paper's token grids"),
    ):
        out.print(styled(f"  {command}", (f"  # {purpose}", "dim")), soft_wrap=True)


def _print_accuracy(pairs: list[tuple[Any, dict[str, Any]]]) -> None:
    from skelbench.evaluation.outcomes import paired

    run, records = pairs[0]
    rows, tests, units = [], list[PairedTest](), []
    for protocol, record in records.items():
        for encoder, alternatives in pairs:
            bracket, over = interval(encoder, alternatives[protocol])
            cells = [encoder.title, f"{accuracy(encoder, alternatives[protocol])} {bracket}"]
            units.append(over)
            if encoder is run:
                rows.append([protocol, *cells, "", ""])
                continue
            tests.append(paired(run, record, encoder, alternatives[protocol]))
            rows.append(["", *cells, *cells_of(tests[-1])])
    title = "\nTest accuracy after the last epoch; nothing is selected on test clips"
    out.print(accuracy_table(run.title, rows, title))
    out.print(f"In brackets: 95 % intervals (accuracies: over {' or '.join(dict.fromkeys(units))}).", style="dim")
    print_basis(tests)


def accuracy_table(title_of_run: str, rows: Sequence[Sequence[str]], title: str) -> Table:
    """Table of a run and its controls by probe, without the columns of differences if there is no control.

    A row has probe, encoder, accuracy, and :func:`cells_of` the test.
    """
    columns = ["probe", "encoder", "accuracy", f"{title_of_run} minus it", "p"]
    used = columns if any(row[-1] for row in rows) else columns[:3]
    return make_table(used, [row[: len(used)] for row in rows], title)


def cells_of(test: PairedTest | SeedsTest) -> tuple[str, str]:
    """A difference in points with its interval, and p."""
    low, high = test.interval
    p = f"{test.p_value:.2g}" if test.p_value >= 1e-4 else "< 0.0001"
    return f"{100 * test.difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]", p


def _print_perspective(run: RunDir, records: Mapping[str, Any], classes: int) -> None:
    """Print the chance level, and for a quick run on the default synthetic split the reference run."""
    out.print(f"Chance: {1 / classes:.1%} ({classes} classes).")
    asked = run.preset, run.spec.data.name, run.spec.data.split
    if asked == ("quick", "synthetic", "cross-view") and REFERENCE.keys() <= set(records):
        slim, raw = (", ".join(f"{name} {values[i]:.1%}" for name, values in REFERENCE.items()) for i in (0, 1))
        out.print(f"Reference: slim after 160,000 clips has {slim}; raw has {raw}.")
        if FOLDER.is_dir():  # in a checkout only
            out.print(f"Other shipped runs: skelbench compare --reference{named_root(run.path.parent)}", soft_wrap=True)


def print_basis(tests: Sequence[PairedTest | SeedsTest]) -> None:
    """Print the units that intervals and p of differences are computed over, and cautions about them."""
    for seeds, *over in dict.fromkeys((test.seeds, str(test.by_clip), str(test.by_subject or "")) for test in tests):
        units = " and over ".join(filter(None, over))
        more = "; the more conservative one is shown" if over[1] else ""
        basis = f"{trainings(seeds)}{'; intervals also cover other seeds' if seeds >= SEEDS else ''}"
        out.print(f"Differences: intervals and p over {units}{more}. They rest on {basis}.", style="dim")
    for caution in dict.fromkeys(test.caution for test in tests if test.caution):
        out.print(f"{caution[0].upper()}{caution[1:]}.", style="dim")


def anomalies(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Kinds and texts, with advice, of problems during the training of a run."""
    texts = [(kind, f"{describe(fact)}. {ADVICE[kind]}") for kind in ADVICE for fact in info.get(kind) or ()]
    return [*texts, *([("unmoved", UNMOVED)] if info.get("unmoved") else [])]


def training_text(info: Mapping[str, Any]) -> str:
    """Clips, steps, time and speed of the training; "" for a run without training."""
    if not info.get("steps"):
        return ""
    clips, seconds = info["clips_seen"], max(info["train_seconds"], 1e-9)
    pace = f"{seconds / 60:.1f} min, {clips / seconds:,.0f} clips/s"
    return f"{clips:,.0f} clips in {info['steps']:,} steps and {pace}"


def cost_facts(cost: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of the costs in a run's cost.json."""
    encoder, step = cost["encoder"], cost["step"]
    single, many = cost["latency"]["batch 1"], cost["latency"]["batch 64"]
    macs, parameters = encoder["macs"], cost["parameters"]
    if not parameters["encoder"]:
        return [("encoder", "none: raw coordinates, no FLOPs")]
    giga = f"{macs / 1e9:.4f} GMACs per body; {2e-9 * macs:.4f} GFLOPs for one body, {4e-9 * macs:.4f} for two"
    if (bodies := encoder.get("bodies", 1)) > 1:
        giga = f"{macs / 1e9:.4f} GMACs, {2e-9 * macs:.4f} GFLOPs per clip, whose {bodies} body slots it reads together"
    facts = [("tokens", f"{cost['grid']} per body"), ("encoder", giga)]
    if step:
        flops = step["flops_per_clip"] / 1e9
        text = f"{2 * flops:.3f} GFLOPs per clip with two bodies"
        facts.append(("training step", f"{text}: all views, teacher, heads, backward"))
    speed = f"{single['median_ms']:.1f} ms for one clip, {many['clips_per_s']:,.0f} clips/s in batches of 64"
    peak, how = cost["peak_memory"]["bytes"] / 2**20, cost["peak_memory"]["how"]
    return [
        *facts,
        ("parameters", f"{parameters['encoder']:,} in the encoder, {parameters['trainable']:,} trained"),
        ("inference", speed),
        ("peak memory", f"{peak:,.0f} MiB for a batch of 64 ({how})"),
    ]


def _print_notes(records: Iterable[Mapping[str, Any]]) -> None:
    """Print the notes of the protocols."""
    for record in records:
        for note in record.get("notes", ()):
            out.print(f"note, {record['spec']['protocol']}: {note}")


def print_records(run: RunDir, records: list[dict[str, Any]], best_on_test: bool = False) -> None:
    """Print evaluation records of a run, one row each; ``best_on_test``: also the highest test accuracy."""
    selected = {"selected on train": "accuracy_selected"} | (
        {"best on test": "accuracy_best_on_test"} if best_on_test else {}
    )
    columns = ("protocol", "stream", "checkpoint", "data", "accuracy", "95 % interval", "over", *selected, "further",
               "eval id")  # fmt: skip
    rows, trained = [], f"{run.spec.data.title}/{run.spec.data.split}"
    for record in records:
        spec, metrics = record["spec"], record["metrics"]
        values = [metrics.get(name) for name in selected.values()]
        data = f"{DataSpec.model_validate(spec['data']).title}/{spec['data']['split']}"
        rows.append(
            (
                spec["protocol"],
                EvalSpec.model_validate(spec).stream_title,
                spec["checkpoint"],
                data + (f" (from {trained})" if data != trained else ""),
                accuracy(run, record),
                *interval(run, record),
                *("" if value is None else f"{value:.1%}" for value in values),
                measures.sentence(measures.own(record).values()),
                record["id"],
            )
        )
    first = dict(zip(columns, rows[0], strict=True))
    usual = {"further": "", "stream": "joint", "checkpoint": "last", "data": first["data"]}
    keep = [i for i, name in enumerate(columns) if name not in usual or any(row[i] != usual[name] for row in rows)]
    cells = [[row[i] for i in keep] for row in rows]
    heads = [columns[i] for i in keep]
    where = "" if "data" in heads else f" on {first['data']}"
    out.print(make_table(heads, cells, title=f"{run.title}{where}, {run.name}"))
    _print_notes(records)


def _print_further(protocol: str, pairs: list[tuple[Any, dict[str, Any]]]) -> None:
    """Print the metrics of a protocol besides accuracy, of the run and of its controls."""
    (_, first), *controls = [
        (run.title, measures.sentence(measures.own(records[protocol]).values())) for run, records in pairs
    ]
    if first:
        text_of_controls = "; ".join(f"{title}: {text}" for title, text in controls)
        out.print(f"{protocol}: {first}" + (f" ({text_of_controls})" if text_of_controls else ""), soft_wrap=True)


def accuracy(run: RunDir, record: Mapping[str, Any]) -> str:
    """Accuracy in percent; several draws add a standard deviation: ``52.3% ± 1.2 (sd of 5 label subsets)``."""
    mean, sd = record["metrics"]["accuracy"], record["metrics"].get("accuracy_sd")
    outcomes = _outcomes(run, record) if sd is not None or record.get("drawn") else None
    sd = outcomes.spread if sd is None and outcomes else sd
    if sd is None:
        return f"{mean:.1%}"
    draws = f"{len(outcomes.correct_DC)} " if outcomes else ""
    return f"{mean:.1%} ± {100 * sd:.1f} (sd of {draws}{record.get('drawn') or 'draws'})"


def _outcomes(run: RunDir, record: Mapping[str, Any]) -> Outcomes | None:
    from skelbench.evaluation.outcomes import outcomes_of

    return if_whole(lambda: outcomes_of(run, record))


def interval(run: RunDir, record: Mapping[str, Any]) -> tuple[str, str]:
    """95 % interval of an accuracy, and its units: clips, or subjects if that interval is wider."""
    from skelbench.evaluation.stats.paired import accuracy_interval

    outcomes = _outcomes(run, record)
    by_subject = list((outcomes.by_subject or {}).values()) if outcomes else []
    arrays = tuple(np.array(by_subject, dtype=float).T) if by_subject else None
    metrics = record["metrics"]
    (low, high), over = accuracy_interval(metrics["accuracy"], int(metrics["n_test"]), arrays)
    return f"[{100 * low:.1f}, {100 * high:.1f}]", over
