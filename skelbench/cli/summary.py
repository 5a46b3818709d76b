"""What ``skelbench run`` says before and after: plain facts, the controls, what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.core.console import make_table, out, print_facts, styled
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec, listed
from skelbench.data.store.roots import data_root
from skelbench.evaluation.stats.paired import PairedTest, SeedsTest
from skelbench.pipeline.presets import BLURB, SETTING
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import get_host
from skelbench.records import measures
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir
from skelbench.records.store import default_root
from skelbench.training.anomalies import UNMOVED, describe
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from skelbench.evaluation.outcomes import Outcomes
    from skelbench.pipeline.resolve import Resolved


def print_header(resolved: Resolved, device: str) -> None:
    """What is about to run, where, and what its figures may be compared with."""
    from skelbench.records.environment import hardware

    spec, topology = resolved.spec, resolved.store.topology
    preset = resolved.preset + (" with changes" if resolved.modified else "")
    grid = f"{spec.tokens} x {topology.num_joints} tokens (T = {spec.grid.frames}, P_T = {spec.grid.patch})"
    if not resolved.method.weights:
        grid = f"{spec.grid.frames} frames x {topology.num_joints} joints"
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
    """`` --results FOLDER``, to be typed after others; "" where that is the results directory anyway."""
    return "" if results == default_root() else f" --results {shlex.quote(str(results))}"


def named_data(folder: Path) -> str:
    """`` --data-root FOLDER``; "" where data sets are looked for there anyway."""
    return "" if folder == data_root() else f" --data-root {shlex.quote(str(folder))}"


def print_summary(
    pairs: list[tuple[Any, dict[str, Any]]], cost: Mapping[str, Any] | None, resolved: Resolved, data: Path
) -> None:
    """Accuracy beside the controls with paired tests, cost, speed, place of the run, next commands; ``data``: where the
    data sets are."""
    run, records = pairs[0]
    if records:
        _print_accuracy(pairs)
        for protocol in records:
            _print_further(protocol, pairs)
        _print_notes(records.values())
    for sign in ("collapse", "shortcut"):
        for found in run.info.get(sign) or ():
            out.print(f"{sign}: {describe(found)}", style="bold yellow")
    if run.info.get("unmoved"):
        out.print(f"unmoved: {UNMOVED}", style="bold yellow")
    facts, info = cost_facts(cost) if cost else [], run.info
    if info.get("steps"):
        clips, seconds = info["clips_seen"], max(info["train_seconds"], 1e-9)
        pace = f"{seconds / 60:.1f} min, {clips / seconds:,.0f} clips/s"
        facts.append(("training", f"{clips:,} clips in {info['steps']:,} steps and {pace}"))
    if facts:
        print_facts(facts, title="Cost (FLOPs = 2 MACs, matrix products only)")
    out.print(f"\nThe run lies in {run.path}")
    out.print("Next:")
    where, compares = named_root(run.path.parent), any(name.startswith("linear") for name in records)
    for command, what in _next(resolved, compares, run.plugin_files + named_data(data)):
        out.print(styled(f"  {command}{where}", (f"  # {what}", "dim")), soft_wrap=True)
    if resolved.preset not in ("paper", "ablation", "imported"):
        preset = resolved.preset
        out.print(f"Figures of preset {preset} compare runs of this preset; they are not the paper's.", style="dim")


def _next(resolved: Resolved, compares: bool, made_with: str = "") -> list[tuple[str, str]]:
    """Commands and what they show; options are named only where they differ from the defaults. ``compares``: a linear
    probe has measured it, by which runs are compared; ``made_with``: further options of what trains."""
    spec, commands = resolved.spec, []
    if resolved.preset in BLURB:
        shapes = {shape: f"--tokens {tokens}" for tokens, shape in BUDGETS.items()}
        grid = f"--clip-length {spec.grid.frames}"
        grid += f" --patch {spec.grid.patch}" if resolved.method.weights else ""
        shared = resolved.setting == "shared"
        alike = "the same conditions" if shared or resolved.variant else "shared setting"
        methods = (spec for spec in get_host().all("methods") if isinstance(spec, MethodSpec))
        others = (method.name for method in methods if method.trains and not method.stage)
        other = next((name for name in others if name != spec.method), "METHOD")
        budget = str(resolved.length.budget) if resolved.length else ""
        changed = [key for key in resolved.modified if not key.startswith("budget ")]
        alike = f"preset {resolved.preset} without your changes" if changed else alike
        what = f"another method, {alike}"
        if resolved.variant:
            other, what = spec.method, f"{spec.method} itself, {alike}"
        parts = ["skelbench run", other, shapes.get((spec.grid.frames, spec.grid.patch), grid)]
        parts += [f"--dataset {spec.data.name}"] if spec.data.name != "synthetic" else []
        usual = RunSpec.model_fields["encoder"].default
        other_encoder = shared and resolved.method.weights and spec.encoder != usual
        parts += [f"--encoder {spec.encoder}"] if other_encoder else []
        parts += [f"--split {spec.data.split}"] if spec.data.split != resolved.store.meta.default_split else []
        parts += ["--set second_body=repeat"] if spec.data.second_body == "repeat" else []
        parts += [f"--set min_frames={spec.data.min_frames}"] if spec.data.min_frames else []
        parts += [f"--preset {resolved.preset}"]
        parts += [f"--budget {budget}"] if budget else []
        parts += ["--native"] if resolved.variant and resolved.setting == "native" else []
        commands.append((" ".join(parts) + made_with, what))
    compare = "skelbench compare" + (" --all" if resolved.modified else "") if compares else "skelbench runs list"
    commands.append((compare, "all runs side by side"))
    commands.append(("skelbench compare --table flops", "cost at the paper's token grids"))
    return commands


def _print_accuracy(pairs: list[tuple[Any, dict[str, Any]]]) -> None:
    from skelbench.evaluation.outcomes import paired

    run, records = pairs[0]
    columns = ["probe", run.title, "95 % interval"]
    columns += ["control", "its accuracy", "difference, points", "paired p"] if len(pairs) > 1 else []
    rows, tests = [], list[PairedTest]()
    for protocol, record in records.items():
        start = [protocol, accuracy(run, record), " over ".join(interval(run, record))]
        for other_run, others in pairs[1:]:
            test = paired(run, record, other_run, others[protocol])
            tests.append(test)
            low, high = test.interval
            difference = f"{100 * test.difference:+.1f}  [{100 * low:+.1f}, {100 * high:+.1f}]"
            p = f"{test.p_value:.2g}" if test.p_value >= 1e-4 else "< 0.0001"
            rows.append([*start, other_run.title, accuracy(other_run, others[protocol]), difference, p])
            start = ["", "", ""]
        if len(pairs) == 1:
            rows.append(start)
    out.print(
        make_table(columns, rows, title="\nTest accuracy after the last epoch; nothing is selected on test clips")
    )
    print_basis(tests)


def print_basis(tests: Sequence[PairedTest | SeedsTest]) -> None:
    """Over what intervals and p of differences are, and what a reader must know of it."""
    for over in dict.fromkeys((str(test.by_clip), str(test.by_subject or "")) for test in tests):
        units = " and over ".join(filter(None, over))
        more = "the wider interval and the larger p of those over" if over[1] else "intervals and p are over"
        out.print(f"Differences: {more} {units}.", style="dim")
    for caution in dict.fromkeys(test.caution for test in tests if test.caution):
        out.print(f"{caution[0].upper()}{caution[1:]}.", style="dim")


def cost_facts(cost: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of what a run's cost.json says."""
    encoder, step = cost["encoder"], cost["step"]
    one, many = cost["latency"]["batch 1"], cost["latency"]["batch 64"]
    macs, parameters = encoder["macs"], cost["parameters"]
    giga = f"{macs / 1e9:.4f} GMACs per body; {2e-9 * macs:.4f} GFLOPs for one body, {4e-9 * macs:.4f} for two"
    if (bodies := encoder.get("bodies", 1)) > 1:
        giga = f"{macs / 1e9:.4f} GMACs, {2e-9 * macs:.4f} GFLOPs per clip, whose {bodies} body slots it reads together"
    facts = [("tokens", f"{cost['grid']} per body"), ("encoder", giga)]
    if step:
        flops = step["flops_per_clip"] / 1e9
        text = f"{2 * flops:.3f} GFLOPs per clip with two bodies"
        facts.append(("training step", f"{text}: all views, teacher, heads, backward"))
    peak, how = cost["peak_memory"]["bytes"] / 2**20, cost["peak_memory"]["how"]
    return [
        *facts,
        ("parameters", f"{parameters['encoder']:,} in the encoder, {parameters['trainable']:,} trained"),
        ("inference", f"{one['median_ms']:.1f} ms for one clip, {many['clips_per_s']:,.0f} clips/s in batches of 64"),
        ("peak memory", f"{peak:,.0f} MiB for a batch of 64 ({how})"),
    ]


def _print_notes(records: Iterable[Mapping[str, Any]]) -> None:
    """What a protocol wants every reader of its numbers to know."""
    for record in records:
        for note in record.get("notes", ()):
            out.print(f"note, {record['spec']['protocol']}: {note}")


def print_records(run: RunDir, records: list[dict[str, Any]], best_on_test: bool = False) -> None:
    """Evaluation records of a run, one row each, and their notes; ``best_on_test``: also the highest test accuracy."""
    selected = {"selected": "accuracy_selected"} | ({"best on test": "accuracy_best_on_test"} if best_on_test else {})
    columns = ("protocol", "stream", "checkpoint", "data", "accuracy", "95 % interval", "over", *selected)
    rows, trained = [], f"{run.spec.data.title}/{run.spec.data.split}"
    for record in records:
        spec, metrics = record["spec"], record["metrics"]
        others = [metrics.get(name) for name in selected.values()]
        data = f"{DataSpec.model_validate(spec['data']).title}/{spec['data']['split']}"
        rows.append(
            (
                spec["protocol"],
                EvalSpec.model_validate(spec).stream_title,
                spec["checkpoint"],
                data + (f" (from {trained})" if data != trained else ""),
                accuracy(run, record),
                *interval(run, record),
                *("" if value is None else f"{value:.1%}" for value in others),
                measures.sentence(measures.own(record).values()),
                record["id"],
            )
        )
    names, rows = _filled((*columns, "further", "eval id"), rows)
    out.print(make_table(names, rows, title=f"{run.title}, {run.name}"))
    _print_notes(records)


def _print_further(protocol: str, pairs: list[tuple[Any, dict[str, Any]]]) -> None:
    """What a protocol measured besides accuracy, and of the controls."""
    (_, first), *controls = [
        (run.title, measures.sentence(measures.own(records[protocol]).values())) for run, records in pairs
    ]
    if first:
        beside = "; ".join(f"{title}: {text}" for title, text in controls)
        out.print(f"{protocol}: {first}" + (f" ({beside})" if beside else ""), soft_wrap=True)


def _filled(columns: Sequence[str], rows: list[tuple[Any, ...]]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Without the columns ``further``, ``stream`` and ``checkpoint`` where nothing, or what is usual, is in them."""
    usual = {"further": "", "stream": "joint", "checkpoint": "last"}
    keep = [i for i, name in enumerate(columns) if name not in usual or any(row[i] != usual[name] for row in rows)]
    return tuple(columns[i] for i in keep), [tuple(row[i] for i in keep) for row in rows]


def accuracy(run: RunDir, record: Mapping[str, Any]) -> str:
    """Accuracy in percent; of several draws with their standard deviation: ``52.3% ± 1.2 (sd of 5 label subsets)``."""
    mean, sd = record["metrics"]["accuracy"], record["metrics"].get("accuracy_sd")
    found = _outcomes(run, record) if sd is not None or record.get("drawn") else None
    sd = found.spread if sd is None and found else sd
    if sd is None:
        return f"{mean:.1%}"
    draws = f"{len(found.correct_DC)} " if found else ""
    return f"{mean:.1%} ± {100 * sd:.1f} (sd of {draws}{record.get('drawn') or 'draws'})"


def _outcomes(run: RunDir, record: Mapping[str, Any]) -> Outcomes | None:
    from skelbench.evaluation.outcomes import outcomes_of

    return if_whole(lambda: outcomes_of(run, record))


def interval(run: RunDir, record: Mapping[str, Any]) -> tuple[str, str]:
    """95 % interval of an accuracy, and over what: clips, or subjects where that is wider."""
    from skelbench.evaluation.stats.paired import accuracy_interval

    found = _outcomes(run, record)
    by_subject = list((found.by_subject or {}).values()) if found else []
    arrays = tuple(np.array(by_subject, dtype=float).T) if by_subject else None
    metrics = record["metrics"]
    (low, high), over = accuracy_interval(metrics["accuracy"], int(metrics["n_test"]), arrays)
    return f"{low:.1%} to {high:.1%}", over
