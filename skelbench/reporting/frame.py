"""All evaluation records as one pandas frame: what tables are built from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.core.hashing import canonical_json, digest
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec, listed, stream_names, streams_seen, twin_fields
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.count import passes
from skelbench.evaluation.outcomes import Reader, paired_outcomes, reader
from skelbench.records.errors import if_whole
from skelbench.records.measures import Measure, measured
from skelbench.records.provenance import FIELD, added
from skelbench.records.run_dir import ReadRun, RunDir, keep_of, shown
from skelbench.reporting.controls import CONTROLS, Controls, question, shapes
from skelbench.reporting.protocol_settings import Probe, plain, spent
from skelbench.training.anomalies import describe

if TYPE_CHECKING:
    import pandas


COLUMNS = (
    "run", "group", "training", "title", "method", "version", "variant", "setting", "dataset", "split", "source",
    "data", "tokens", "frames", "patch", "preset", "encoder", "exact", "standard", "changed", "probe", "hardware",
    "seed", "protocol", "trained_on", "stream", "checkpoint",
    "accuracy", "accuracy_selected", "accuracy_best_on_test", "accuracy_sd", "draws", "drawn", "n_test", "subjects",
    "by_subject", "control_run", "control_accuracy", "difference", "p_value", "raw_evaluation", "raw_difference",
    "raw_p_value",
    "measures", "gflops", "clip_gflops", "step_gflops", "train_flops", "batch_size", "clips_seen", "train_seconds",
    "collapse", "finished", "evaluation", "predictions", "tags", "added",
)  # fmt: skip

NUMBERS = (
    "accuracy_selected", "accuracy_best_on_test", "control_accuracy", "difference", "p_value", "raw_difference",
    "raw_p_value", "gflops", "clip_gflops", "step_gflops", "train_flops", "batch_size", "clips_seen", "train_seconds",
    "finished",
)  # fmt: skip
"""Columns of floats, NaN where there is no value."""

DEFAULTS = {"encoder": RunSpec.model_fields["encoder"].default, "stream": "joint"}
"""Defaults, which notes of tables do not mention."""

KIND = "rows"
"""Kind of the cached facts of a run (:mod:`skelbench.records.cache`)."""


def frame(every: Iterable[ReadRun]) -> pandas.DataFrame:
    """One row per evaluation record of a finished run, with the paired tests against its controls.

    Accuracies are shares, costs count clips of two bodies except ``gflops`` (one body). ``step_gflops`` is half of a
    whole training step per clip, ``train_flops`` the whole pre-training up to the checkpoint.

    * ``title``: what one types (``slim:glcl-only``); ``encoder``: its name with settings that its preset has not.
    * ``changed``: settings that differ from preset, variant and protocol (``train.lr=0.001, probe.k=5``); ``probe``:
      settings of the evaluation; ``exact``: there are none; ``standard``: none of the evaluation, nor another stream,
      checkpoint or data.
    * ``group`` is the same for seeds of one setting, ``training`` for seeds of one training, whatever the evaluation.
    * ``trained_on``: streams of the training, of all fused runs; ``stream``: what was evaluated.
    * ``source``: data set and split of the training if the evaluation's differ; ``dataset`` then names both
      (``pku2 (from ntu60 xsub)``). ``data``: fingerprint of the data set.
    * ``draws``: how many were measured, ``drawn``: of what, ``accuracy_sd``: standard deviation over them.
    * ``subjects``: people in the test clips, None if unknown; ``by_subject``: recognized clips (means over draws) and
      clips of each.
    * ``raw_evaluation``: evaluation of the control ``raw``; ``evaluation`` and ``predictions`` lead to the outcome of
      every test clip (:func:`skelbench.evaluation.outcomes.outcomes_of`).
    * ``measures``: metrics by name, each with how it is written (:mod:`skelbench.records.measures`); ``collapse``: what
      collapsed in training; ``finished``: when the training ended; ``tags`` were given by hand.
    """
    import pandas

    runs = [run for run in every if run.outcome == "done"]
    rows = keep_of(runs, "frame", lambda: _rows(runs))
    rows = [row | {name: made(row[name]) for name, made in _MADE.items() if name in row} for row in rows]
    found = pandas.DataFrame(rows, columns=list(COLUMNS), dtype=None if rows else object)
    return found.assign(**{name: pandas.to_numeric(found[name]) for name in NUMBERS})


def _origin(found: dict[str, Any] | None) -> str | None:
    origin = added(found) if found else None
    return origin.sentence if origin else None


_MADE: Mapping[str, Callable[[Any], Any]] = {
    "added": _origin,
    "measures": lambda found: {name: (value, Measure(*how)) for name, (value, *how) in found.items()},
    "by_subject": lambda found: dict(zip(found[0], zip(found[1], found[2]))) if found else None,
}
"""Value of a column from its cached JSON data."""


def _rows(runs: Sequence[ReadRun]) -> list[dict[str, Any]]:
    """The rows of finished runs: cached facts from a run's own files (:func:`_facts`), and what other runs decide."""
    read, rows = reader(), list[dict[str, Any]]()
    facts_of = cache(lambda run: run.keep(KIND, partial(_facts, read=read)))
    by_id = {run.about["id"]: run for run in runs}
    tested = _Tests(facts_of, runs, by_id)
    tests = {run.name: tested.of(run) for run in shown(runs, KIND, "reading evaluations")}
    facts = {run.name: facts_of(run) for run in runs}
    grids, encoders, plain = _grids(runs, facts), _encoders(runs, facts), _Plain(runs, facts)
    for run in runs:
        found = facts[run.name]
        own = {"run": run.name, "tokens": grids[run.name], "encoder": encoders[run.name], **found["row"]}
        for one in found["evaluations"]:
            group, partners = one["row"]["group"], [name.partition("@")[::2] for name in one["partners"]]
            there = [(by_id[name], epoch) for name, epoch in partners if name in by_id]
            trained = [[facts[partner.name]["row"]["training"], epoch] for partner, epoch in there]
            seen = chain(found["streams"], *(facts[partner.name]["streams"] for partner, _ in there))
            probe, fused = plain.changed(one, run.preset), [_fused(run, *partner) for partner in there]
            rows.append(
                own
                | one["row"]
                | {
                    "group": digest([group, trained, len(partners)]) if partners else group,
                    "trained_on": stream_names(seen),
                    "changed": ", ".join(filter(None, [run.about["changed"], *fused, probe])),
                    "probe": probe,
                }
                | tests[run.name][one["row"]["evaluation"]]
            )
    return rows


def _facts(run: ReadRun, read: Reader) -> dict[str, Any]:
    """Facts from a run's own files, as plain JSON data."""
    spec, info, cost = run.spec, run.info, if_whole(run.cost)
    records = run.records()
    by_protocol = plain(records)
    training = but_for_seed(run)
    own = {
        "title": run.title,
        "training": training,
        "method": spec.method,
        "version": spec.method_version,
        "variant": info.get("variant", ""),
        "setting": info.get("setting", "shared"),
        "frames": spec.grid.frames,
        "patch": spec.grid.patch,
        "preset": info["preset"] + ("+" if info["modified"] else ""),
        "hardware": run.hardware,
        "seed": spec.seed,
        "gflops": _gflops(cost, 1),
        "clip_gflops": _gflops(cost, BODIES),
        "step_gflops": 1e-9 * cost["step"]["flops_per_clip"] if cost and cost["step"] else None,
        "batch_size": spec.train.batch_size if spec.views else None,
        "collapse": "; ".join(map(describe, info.get("collapse") or ())) or None,
        "finished": info.get("finished"),
        "tags": ", ".join(run.tags),
        "added": {FIELD: info[FIELD]} if FIELD in info else None,
    }
    return {
        "row": own,
        "shapes": shapes(spec),
        "streams": sorted(streams_seen(spec)),
        "fingerprint": spec.data.fingerprint,
        "network": digest([spec.encoder, spec.encoder_config]),
        "config": canonical_json(twin_fields(spec)["encoder_config"]),
        "grid": cost and cost["grid"].split(" x ")[1],
        "class_token": cost and cost["encoder"].get("class_token", cost.get("class_token", False)),
        "evaluations": [_evaluation(run, record, cost, by_protocol, training, read) for record in records],
        "tests": {},
    }


def _evaluation(
    run: ReadRun,
    record: Mapping[str, Any],
    cost: dict[str, Any] | None,
    by_protocol: Mapping[str, Mapping[str, Any]],
    training: str,
    read: Reader,
) -> dict[str, Any]:
    """Facts of one evaluation, from its record and predictions.

    ``by_protocol``: the run's evaluations with default settings; ``training``: see :func:`but_for_seed`.
    """
    spec, evaluated, metrics = run.spec, record["spec"], record["metrics"]
    data, source = DataSpec.model_validate(evaluated["data"]), ""
    if (data.title, data.split) != (spec.data.title, spec.data.split):
        source = f"{spec.data.title} {spec.data.split}"
    spending, unseeded = spent(run, evaluated["checkpoint"]), question(record, seed=False)
    row = {
        "group": digest([training, unseeded]),
        "dataset": data.title + (f" (from {source})" if source else ""),
        "split": data.split,
        "source": source,
        "data": evaluated["data"]["fingerprint"][:12],
        "exact": not run.info["modified"] and record["standard"],
        "standard": record["standard"],
        **({"preset": record["preset"]} if "preset" in record and spec.method in CONTROLS else {}),
        "protocol": evaluated["protocol"],
        "stream": EvalSpec.model_validate(evaluated).stream_title,
        "checkpoint": evaluated["checkpoint"],
        "accuracy": metrics["accuracy"],
        "accuracy_selected": metrics.get("accuracy_selected"),
        "accuracy_best_on_test": metrics.get("accuracy_best_on_test"),
        "accuracy_sd": metrics.get("accuracy_sd"),
        "drawn": record.get("drawn", ""),
        "n_test": int(metrics["n_test"]),
        **spending,
        "train_flops": _train_flops(cost, spending["clips_seen"]),
        "evaluation": record["id"],
        "predictions": record["predictions"],
        "measures": {name: [value, how.label, how.share] for name, (value, how) in measured(record).items()},
    }
    found = {
        "row": row,
        "partners": list(evaluated.get("partners", ())),
        "standard": record["standard"],
        "what": {"untrained": question(record), "raw": unseeded},
    }
    if not record["standard"]:
        probe, own = Probe.of(run, record), by_protocol.get(evaluated["protocol"])
        found |= {"probe": list(probe)} if own is None else {"changed": probe.changed(own, own=True)}
    mine = if_whole(partial(read, run.path, record["id"], record["predictions"]))
    if mine is not None:
        by_subject = mine.by_subject
        row |= {"draws": len(mine.correct_DC), "subjects": by_subject and len(by_subject)}
        row["accuracy_sd"] = mine.spread if row["accuracy_sd"] is None else row["accuracy_sd"]
        row["by_subject"] = by_subject and [[*by_subject], *(list(each) for each in zip(*by_subject.values()))]
    return found


def _fused(run: ReadRun, partner: ReadRun, epoch: str) -> str:
    """``with cmd:bone@50 (train.lr=0.1)`` for a fused run that is not like ``run``; "" for one of another stream
    alone."""
    theirs = {name: partner.about[name] for name in ("method", "preset", "changed")}
    other = {name: value for name, value in theirs.items() if value != run.about[name]}
    named = ", ".join(value for name, value in other.items() if value and name != "method")
    text = f"with {partner.title}{epoch and f'@{epoch}'}{named and f' ({named})'}"
    return text if other or epoch else ""


class _Plain:
    """The first evaluation with default settings by each protocol, for runs that have none of their own.

    A preset may decide a protocol's settings: an evaluation of the run's preset goes before others.
    """

    def __init__(self, runs: Sequence[ReadRun], facts: Mapping[str, dict[str, Any]]) -> None:
        self._runs: dict[tuple[str, str], ReadRun] = {}
        for run in runs:
            for one in facts[run.name]["evaluations"]:
                if one["standard"] and run.about["method"] not in CONTROLS:
                    for preset in (run.preset, ""):
                        self._runs.setdefault((one["row"]["protocol"], preset), run)
        self._of = cache(lambda protocol, preset: plain(self._runs[protocol, preset].records())[protocol])

    def changed(self, evaluation: Mapping[str, Any], preset: str) -> str:
        """Changed settings of an evaluation (:func:`_evaluation`) of a run of ``preset``."""
        if "probe" not in evaluation:
            return evaluation.get("changed", "")
        protocol = evaluation["row"]["protocol"]
        like = next((key for key in ((protocol, preset), (protocol, "")) if key in self._runs), None)
        return Probe(*evaluation["probe"]).changed(self._of(*like) if like else None, own=False)


class _Tests:
    """Paired tests of evaluations against the controls of their runs.

    A test rests on the files of two runs: it is cached with the run's own facts, with the stamp of the control's file.
    """

    def __init__(
        self, facts_of: Callable[[ReadRun], dict[str, Any]], runs: Sequence[ReadRun], by_id: Mapping[str, ReadRun]
    ) -> None:
        self._facts_of, self._by_id, self._controls, self._read = facts_of, by_id, Controls(runs), reader()

    def of(self, run: ReadRun) -> dict[str, dict[str, Any]]:
        """By evaluation of ``run`` the columns of the frame that the controls fill."""
        filled: dict[str, dict[str, Any]] = {}
        for one in self._facts_of(run)["evaluations"]:
            cells = filled.setdefault(one["row"]["evaluation"], {})
            for kind in CONTROLS:
                found = self._same_question(kind, run, one)
                if found is None:
                    continue
                control, beside = found
                names = ("difference", "p_value") if kind == "untrained" else ("raw_difference", "raw_p_value")
                cells |= dict(zip(names, self._tested(kind, run, one["row"], control, beside)))
                if kind == "untrained":
                    cells |= {"control_run": control.name, "control_accuracy": beside["accuracy"]}
                else:
                    cells["raw_evaluation"] = beside["evaluation"]
        return filled

    def _control(self, kind: str, run: ReadRun) -> ReadRun | None:
        facts = self._facts_of(run)
        return self._controls.beside(kind, facts["row"]["method"], facts["shapes"][kind])

    def _same_question(
        self, kind: str, run: ReadRun, evaluation: Mapping[str, Any]
    ) -> tuple[ReadRun, dict[str, Any]] | None:
        """The control of a run, and its evaluation (a row of the frame) with the same settings and fused controls."""
        control = self._control(kind, run)
        fused = [self._by_id.get(name.partition("@")[0]) for name in evaluation["partners"]]
        beside = [other for one in fused if one and (other := self._control(kind, one))]
        if control is None or len(beside) < len(fused):
            return None
        partners, question = [other.about["id"] for other in beside], evaluation["what"][kind]
        theirs = self._facts_of(control)["evaluations"]
        same = [one["row"] for one in theirs if one["what"][kind] == question and one["partners"] == partners]
        return (control, same[-1]) if same else None

    def _tested(
        self, kind: str, run: ReadRun, mine: Mapping[str, Any], control: ReadRun, theirs: Mapping[str, Any]
    ) -> Sequence[float]:
        """Difference and p; nothing if predictions are missing or of other clips."""
        stamp = control.stamps.get(Path(theirs["predictions"]).name)
        mark = [control.name, theirs["evaluation"], theirs["predictions"], stamp]
        tests = self._facts_of(run)["tests"].setdefault(mine["evaluation"], {})
        if stamp and kind in tests and tests[kind][0] == mark:
            return tests[kind][1]
        first, second = (
            if_whole(partial(self._read, one.path, row["evaluation"], row["predictions"]))
            for one, row in ((run, mine), (control, theirs))
        )
        test = first and second and if_whole(partial(paired_outcomes, first, second, (run.name, control.name)))
        if not test:
            return ()
        if stamp and run.cache:
            tests[kind] = [mark, [test.difference, test.p_value]]
            run.cache.changed = True
        return [test.difference, test.p_value]


def _gflops(cost: Mapping[str, Any] | None, bodies: int) -> float | None:
    """GFLOPs of the inference encoder for a clip with ``bodies`` bodies."""
    return 2e-9 * cost["encoder"]["macs"] * passes(bodies, cost["encoder"].get("bodies", 1)) if cost else None


def _train_flops(cost: Mapping[str, Any] | None, clips: float | None) -> float | None:
    """FLOPs of pre-training on ``clips`` clips; None without a counted step or clip."""
    return BODIES * cost["step"]["flops_per_clip"] * clips if cost and cost["step"] and clips else None


def _grids(runs: Sequence[ReadRun], facts: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Token grid of each run, ``8x25``, with ``+1`` for a class token. A run without cost has joints and class token of
    other runs on the same data and with the same encoder."""
    costed = [found for found in facts.values() if found["grid"]]
    joints = {found["fingerprint"]: found["grid"] for found in costed}
    class_token = {found["network"]: found["class_token"] for found in costed}
    return {
        run.name: "x".join(filter(None, [str(run.about["tokens"]), joints.get(facts[run.name]["fingerprint"])]))
        + ("+1" if class_token.get(facts[run.name]["network"]) else "")
        for run in runs
    }


def _encoders(runs: Sequence[ReadRun], facts: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """The encoder of each run: its name, and settings that differ from the encoder of its preset's exact runs. Native
    settings, which have an encoder of their own, are not spelled out."""
    settings: dict[tuple[str, ...], list[ReadRun]] = {}
    labels = {run.name: run.about["encoder"] for run in runs}
    for run in runs:
        if facts[run.name]["row"]["setting"] == "shared":
            settings.setdefault((run.about["encoder"], run.about["preset"]), []).append(run)
    for group in settings.values():
        exact = [run for run in group if not run.about["modified"]] or group
        usual = Counter(facts[run.name]["config"] for run in exact).most_common(1)[0][0]
        for run in group:
            labels[run.name] += _apart(facts[run.name]["config"], usual)
    return labels


@cache
def _apart(config: str, usual: str) -> str:
    """`` (dim=32)``: settings, given as JSON, in which an encoder differs from the usual one."""
    theirs = json.loads(usual)
    own = {key: value for key, value in json.loads(config).items() if key not in theirs or theirs[key] != value}
    return f" ({listed(own)})" if own else ""


def but_for_seed(run: RunDir) -> str:
    """Hash that seeds of one setting share. The first stage of a second one counts only if it is a changed setting."""
    spec, same = run.spec, dict[str, Any](seed=0)
    if spec.init_from is not None and "init_from" not in run.info["modified"]:
        same |= {"init_from": "first stage"}
    return digest(spec.model_copy(update=same).model_dump(mode="json"))
