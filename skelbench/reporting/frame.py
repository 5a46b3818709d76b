"""All evaluation records as one pandas frame: what tables are built from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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

DEFAULTS = {"encoder": RunSpec.model_fields["encoder"].default, "stream": "joint"}
"""What tables need not say."""

KIND = "rows"
"""Of what is kept of a run (:mod:`skelbench.records.cache`)."""


def frame(every: Iterable[ReadRun]) -> pandas.DataFrame:
    """One row per evaluation record of a finished one of the runs, with the paired tests against its controls.

    Accuracies are shares; ``gflops`` is the inference encoder's for a clip of one body, ``clip_gflops`` for one of two
    (which costs no more where an encoder reads both together), and ``step_gflops`` half of what a whole training step
    costs per clip of two; ``train_flops`` is that of the whole
    pre-training up to the checkpoint, on clips of two bodies, as in ``--budget flops=...``. ``title`` is what one types
    (``slim:glcl-only``), ``changed`` the settings that differ from preset, variant and protocol (``train.lr=0.001,
    probe.k=5``), ``probe`` those of them that are not the training's, ``exact`` that there are none, ``standard`` that
    there are none of the evaluation, nor another stream, checkpoint or data, ``encoder`` its name with the settings
    that are not its preset's, ``trained_on`` the streams of training, of all runs that are fused, ``stream`` what was
    evaluated (``joint + bone (scores)``), ``collapse`` what collapsed in training (None = nothing), ``data`` the data
    set's fingerprint, ``finished`` when the training was. ``group`` is one for seeds of one setting, ``training`` for
    those of one setting of the training, whatever the evaluation.
    ``source`` is data set and split of the training where the evaluation's are others, which ``dataset`` then says too
    (``pku2 (from ntu60 xsub)``): such a row competes with none of an encoder that was trained on the same data.
    ``draws`` is how many were measured, ``drawn`` what of (``label subsets``), ``accuracy_sd`` the accuracy's standard
    deviation over them. ``subjects`` is how many people are seen in the test clips, None where that is not known, and
    ``by_subject`` has for each of them the clips recognised (means over draws) and all clips.
    ``raw_evaluation`` is the one of the control ``raw`` that it is tested against; ``evaluation`` and ``predictions``
    lead to the outcome of every test clip (:func:`outcomes`); ``tags`` were given to the run by hand. ``measures`` are
    further figures by name, each with how it is written (:mod:`skelbench.records.measures`).
    """
    import pandas

    runs = [run for run in every if run.outcome == "done"]
    found = keep_of(runs, "frame", partial(_columns, runs))
    columns = {name: _unpacked(found[name], _MADE.get(name)) for name in COLUMNS}
    return pandas.DataFrame(columns, dtype=object if len(columns["run"]) == 0 else None)  # no rows: of any type


def _columns(runs: Sequence[ReadRun]) -> dict[str, Any]:
    """The columns of the frame as plain data."""
    rows = _rows(runs)
    return {name: _packed([row.get(name, _MISSING) for row in rows]) for name in COLUMNS}


_MISSING = float("nan")


def _packed(column: list[Any]) -> list[Any] | dict[str, list[Any]]:
    """Of texts and of what holds several values each different one, and its place for every row: they are few."""
    kinds = {type(value) for value in column if value is not _MISSING}
    if kinds.isdisjoint((str, list, dict)):
        return column
    keys = column if kinds == {str} else [json.dumps(value) for value in column]
    different = {key: value for key, value in zip(keys, column) if value is not _MISSING}
    places = {key: place for place, key in enumerate(different)}
    return {"different": [*different.values()], "places": [places.get(key, -1) for key in keys]}


def _unpacked(column: Any, made: Callable[[Any], Any] | None) -> Any:
    """The values of a column, those that hold several ``made`` into what they stand for."""
    if not isinstance(column, dict):
        return column
    different = np.empty(len(column["different"]) + 1, object)
    for place, value in enumerate(column["different"]):
        different[place] = made(value) if made else value
    different[-1] = _MISSING
    return different[column["places"]]


def _origin(found: dict[str, Any] | None) -> str | None:
    origin = added(found) if found else None
    return origin.sentence if origin else None


def _measures(found: dict[str, list[Any]]) -> dict[str, tuple[float, Measure]]:
    return {name: (value, Measure(*how)) for name, (value, *how) in found.items()}


def _by_subject(found: list[list[Any]] | None) -> dict[int, tuple[float, int]] | None:
    return dict(zip(found[0], zip(found[1], found[2]))) if found else None


_MADE: Mapping[str, Callable[[Any], Any]] = {"added": _origin, "measures": _measures, "by_subject": _by_subject}


def _rows(runs: Sequence[ReadRun]) -> list[dict[str, Any]]:
    """The rows of finished runs. What the own files of a run say may have been kept (:func:`_facts`); what other runs
    decide is added here."""
    controls, read, rows = Controls(runs), reader(), list[dict[str, Any]]()
    facts_of = cache(lambda run: run.keep(KIND, partial(_facts, read=read)))
    by_id = {run.about["id"]: run for run in runs}
    tests = {
        run.name: _Tests(run, facts_of, controls, by_id, read).figures()
        for run in shown(runs, KIND, "reading evaluations")
    }
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
    """What a run's own files say of it, as plain data that JSON gives back as they are."""
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
    """What a record and its predictions say; ``by_protocol``: the run's evaluations by protocol alone, ``training``:
    the hash of :func:`_training`."""
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
    """``with cmd:bone@50 (train.lr=0.1)``: in what a run that ``run`` is fused with is more than its like for another
    stream; "" for nothing."""
    apart = [name for name in ("method", "preset", "changed") if partner.about[name] != run.about[name]]
    if not apart and not epoch:
        return ""
    facts = [partner.preset if "preset" in apart else "", partner.about["changed"] if "changed" in apart else ""]
    named = ", ".join(filter(None, facts))
    return f"with {partner.title}{epoch and f'@{epoch}'}{named and f' ({named})'}"


class _Plain:
    """Of each protocol the first evaluation that was asked for by it alone, for runs that have none of their own: one
    of a run's preset, which may decide the protocol's settings, goes before others."""

    def __init__(self, runs: Sequence[ReadRun], facts: Mapping[str, dict[str, Any]]) -> None:
        self._runs: dict[tuple[str, str], ReadRun] = {}
        for run in runs:
            for one in facts[run.name]["evaluations"]:
                if one["standard"] and run.about["method"] not in CONTROLS:
                    for preset in (run.preset, ""):
                        self._runs.setdefault((one["row"]["protocol"], preset), run)
        self._of = cache(lambda protocol, preset: plain(self._runs[protocol, preset].records())[protocol])

    def changed(self, evaluation: Mapping[str, Any], preset: str) -> str:
        """What is changed in an evaluation of :func:`_evaluation`, of a run of ``preset``."""
        if "probe" not in evaluation:
            return evaluation.get("changed", "")
        protocol = evaluation["row"]["protocol"]
        like = next((key for key in ((protocol, preset), (protocol, "")) if key in self._runs), None)
        return Probe(*evaluation["probe"]).changed(self._of(*like) if like else None, own=False)


class _Tests:
    """The paired tests of a run's evaluations against the controls. They rest on the files of two runs: they are kept
    with the run's own facts, beside the stamp of the control's predictions."""

    def __init__(
        self,
        run: ReadRun,
        facts_of: Callable[[ReadRun], dict[str, Any]],
        controls: Controls,
        by_id: Mapping[str, ReadRun],
        read: Reader,
    ) -> None:
        self._run, self._facts_of, self._runs, self._by_id, self._read = run, facts_of, controls, by_id, read
        self._facts = facts_of(run)
        self._controls = {kind: control for kind in CONTROLS if (control := self._control(kind, run))}

    def _control(self, kind: str, run: ReadRun) -> ReadRun | None:
        facts = self._facts_of(run)
        return self._runs.beside(kind, facts["row"]["method"], facts["shapes"][kind])

    def figures(self) -> dict[str, dict[str, Any]]:
        """By evaluation the columns of the frame that the controls fill."""
        return {one["row"]["evaluation"]: self._of(one) for one in self._facts["evaluations"]}

    def _of(self, evaluation: Mapping[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = {}
        for kind, control in self._controls.items():
            theirs = self._facts_of(control)["evaluations"]
            what, partners = evaluation["what"][kind], self._partners(kind, evaluation["partners"])
            alike = [one for one in theirs if one["what"][kind] == what and one["partners"] == partners]
            if not alike:
                continue
            beside = alike[-1]["row"]
            tested = self._tested(kind, evaluation["row"], control, beside)
            if kind == "untrained":
                filled |= {"control_run": control.name, "control_accuracy": beside["accuracy"]}
                filled |= dict(zip(("difference", "p_value"), tested))
            else:
                filled |= {"raw_evaluation": beside["evaluation"]}
                filled |= dict(zip(("raw_difference", "raw_p_value"), tested))
        return filled

    def _partners(self, kind: str, partners: Sequence[str]) -> list[str] | None:
        """The ids of the controls of those that are fused with this run; None where one of them has none here."""
        runs = [self._by_id.get(name.partition("@")[0]) for name in partners]
        beside = [control for run in runs if run and (control := self._control(kind, run))]
        return [control.about["id"] for control in beside] if len(beside) == len(runs) else None

    def _tested(
        self, kind: str, mine: Mapping[str, Any], control: ReadRun, theirs: Mapping[str, Any]
    ) -> Sequence[float]:
        """Difference and p; nothing where they cannot be told."""
        stamp = control.stamps.get(Path(theirs["predictions"]).name)
        mark = [control.name, theirs["evaluation"], theirs["predictions"], stamp]
        kept = self._facts["tests"].setdefault(mine["evaluation"], {}).get(kind)
        if stamp and kept and kept[0] == mark:
            return kept[1]
        places = (
            (run.path, row["evaluation"], row["predictions"]) for run, row in ((self._run, mine), (control, theirs))
        )
        first, second = (if_whole(partial(self._read, *place)) for place in places)
        names = (self._run.name, control.name)
        test = first and second and if_whole(partial(paired_outcomes, first, second, names))
        if not test:
            return ()
        figures = [test.difference, test.p_value]
        if stamp and self._run.cache:
            self._facts["tests"][mine["evaluation"]][kind] = [mark, figures]
            self._run.cache.changed = True
        return figures


def _gflops(cost: Mapping[str, Any] | None, bodies: int) -> float | None:
    """GFLOPs of the inference encoder for a clip of so many bodies."""
    return 2e-9 * cost["encoder"]["macs"] * passes(bodies, cost["encoder"].get("bodies", 1)) if cost else None


def _train_flops(cost: Mapping[str, Any] | None, clips: float | None) -> float | None:
    """FLOPs of pre-training on so many clips; None where no step or no clip was counted."""
    return BODIES * cost["step"]["flops_per_clip"] * clips if cost and cost["step"] and clips else None


def _grids(runs: Sequence[ReadRun], facts: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Token grid of each run, ``8x25``, with ``+1`` for a class token: two untrained encoders of one grid can differ in
    it. Joints and class token stand in the cost alone: a run without one has those of its neighbours, on the same data
    and with the same encoder."""
    costed = [found for found in facts.values() if found["grid"]]
    joints = {found["fingerprint"]: found["grid"] for found in costed}
    class_token = {found["network"]: found["class_token"] for found in costed}
    return {
        run.name: "x".join(filter(None, [str(run.about["tokens"]), joints.get(facts[run.name]["fingerprint"])]))
        + ("+1" if class_token.get(facts[run.name]["network"]) else "")
        for run in runs
    }


def _encoders(runs: Sequence[ReadRun], facts: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """The encoder of each run: its name, and those of its settings in which it differs from the encoder that the exact
    runs of its preset have. A method's own setting has its own form of the encoder, which is not spelt out."""
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
    """`` (dim=32)``: in which settings, written as JSON, an encoder is not the usual one."""
    theirs = json.loads(usual)
    own = {key: value for key, value in json.loads(config).items() if key not in theirs or theirs[key] != value}
    return f" ({listed(own)})" if own else ""


def but_for_seed(run: RunDir) -> str:
    """One for trainings that are seeds of one setting. A second stage starts from a first one of its own seed, which
    is no difference unless it was changed from what the preset has there."""
    spec, same = run.spec, dict[str, Any](seed=0)
    if spec.init_from is not None and "init_from" not in run.info["modified"]:
        same |= {"init_from": "first stage"}
    return digest(spec.model_copy(update=same).model_dump(mode="json"))
