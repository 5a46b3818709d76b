"""All evaluation records as one pandas frame, from which tables are built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.core.hashing import canonical_json, digest
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec, listed, section, stream_names, streams_seen
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.count import passes
from skelbench.evaluation.outcomes import paired_outcomes, reader
from skelbench.records.errors import if_whole
from skelbench.records.measures import measured
from skelbench.records.metrics import logged_lines
from skelbench.records.provenance import added
from skelbench.records.run_dir import ReadRun, RunDir
from skelbench.reporting.controls import CONTROLS, Controls, question
from skelbench.training.anomalies import describe

if TYPE_CHECKING:
    import pandas


COLUMNS = (
    "run", "group", "training", "title", "method", "version", "variant", "setting", "dataset", "split", "source",
    "data", "tokens", "frames", "patch", "preset", "encoder", "exact", "standard", "changed", "budget", "probe",
    "hardware", "seed", "protocol", "trained_on", "stream", "checkpoint", "accuracy", "accuracy_selected",
    "accuracy_best_on_test", "accuracy_sd", "draws", "drawn", "n_test", "subjects", "by_subject", "classes",
    "control_run", "control_accuracy", "difference", "interval", "p_value", "raw_evaluation", "raw_difference",
    "raw_p_value", "measures", "gflops", "clip_gflops", "step_gflops", "train_flops", "batch_size", "clips_seen",
    "train_seconds", "collapse", "finished", "evaluation", "predictions", "tags", "added",
)  # fmt: skip

NUMBERS = (
    "accuracy_selected", "accuracy_best_on_test", "control_accuracy", "difference", "p_value", "raw_difference",
    "raw_p_value", "gflops", "clip_gflops", "step_gflops", "train_flops", "batch_size", "clips_seen", "train_seconds",
    "finished",
)  # fmt: skip
"""Columns of floats, NaN where there is no value."""

DEFAULTS = {
    "encoder": RunSpec.model_fields["encoder"].default, "stream": "joint", "setting": "shared", "checkpoint": "last",
    "protocol": "linear",
}  # fmt: skip
"""Defaults, which notes of tables do not mention."""

UNKNOWN = "settings of the probe"
"""Placeholder if there is no default-settings evaluation to compare with."""
_OF_THE_RUN = {"bodies", "center", "align"}
"""Settings that an evaluation takes from its run by default."""
_SETTINGS = ("readout", "bodies_pool", "share", "resize", "min_confidence", "bodies", "center", "align")
"""Settings that decide a result and have columns of their own: data, stream, checkpoint, seed."""


def frame(every: Iterable[ReadRun]) -> pandas.DataFrame:
    """One row per evaluation record of a finished run, with the paired tests against its controls.

    Accuracies are fractions; costs count clips of two bodies except ``gflops`` (one body). ``step_gflops`` is half of a
    whole training step per clip, ``train_flops`` the whole pre-training up to the checkpoint.

    * ``title``: name that the user types (``slim:glcl-only``); ``encoder``: its name, with settings that differ from
      its preset.
    * ``changed``: settings that differ from preset, variant and protocol (``train.lr=0.001, probe.k=5``); ``probe``:
      settings of the evaluation; ``exact``: nothing is changed; ``standard``: nothing of the evaluation is changed, nor
      stream, checkpoint or data. ``budget``: ``clips=200`` if only the training budget was changed.
    * ``group`` is the same for seeds of one setting, ``training`` for seeds of one training, whatever the evaluation.
    * ``trained_on``: streams of the training, of all fused runs; ``stream``: what was evaluated.
    * ``source``: dataset and split of the training if the evaluation's differ; ``dataset`` then names both
      (``pku2 (from ntu60 xsub)``). ``data``: fingerprint of the dataset.
    * ``draws``: number of draws, ``drawn``: what was drawn, ``accuracy_sd``: standard deviation over draws.
    * ``subjects``: people in the test clips, None if unknown; ``by_subject``: recognized clips (means over draws) and
      clips of each; ``classes``: number of classes of the test clips. ``interval``: interval of ``difference``, and its
      units.
    * ``raw_evaluation``: evaluation of the control ``raw``; ``evaluation`` and ``predictions`` lead to the outcome of
      every test clip (:func:`skelbench.evaluation.outcomes.outcomes_of`).
    * ``measures``: metrics by name, each with how it is written (:mod:`skelbench.records.measures`); ``collapse``: what
      collapsed in training; ``finished``: when the training ended; ``tags`` were given by hand.
    """
    import pandas

    runs = [run for run in every if run.outcome == "done"]
    shared = _Shared(runs)
    rows = [row for run in runs for row in _rows(run, shared)]
    frame = pandas.DataFrame(rows, columns=list(COLUMNS), dtype=None if rows else object)
    return frame.assign(**{name: pandas.to_numeric(frame[name]) for name in NUMBERS})


def _rows(run: ReadRun, shared: _Shared) -> Iterator[dict[str, Any]]:
    """The rows of one run."""
    own = _of_run(run, shared)
    for record in run.records():
        partners = [name.partition("@")[::2] for name in record["spec"].get("partners", ())]
        partner_runs = [(shared.by_id[name], epoch) for name, epoch in partners if name in shared.by_id]
        trained = [[shared.training(partner), epoch] for partner, epoch in partner_runs]
        streams = chain(streams_seen(run.spec), *(streams_seen(partner.spec) for partner, _ in partner_runs))
        probe, group = shared.usual.changed(run, record), digest([own["training"], question(record, seed=False)])
        changed = [run.about["changed"], *(_fused(run, *partner) for partner in partner_runs), probe]
        yield (
            own
            | _of_record(run, record, shared)
            | {
                "group": digest([group, trained, len(partners)]) if partners else group,
                "trained_on": stream_names(streams),
                "changed": ", ".join(filter(None, changed)),
                "probe": probe,
                **_tests(run, record, shared),
            }
        )


class _Shared:
    """All finished runs, and facts that their rows share."""

    def __init__(self, runs: Sequence[ReadRun]) -> None:
        self.by_id = {run.about["id"]: run for run in runs}
        self.training = cache(but_for_seed)
        self.usual = _UsualSettings(runs)
        self.read = reader()
        controls = Controls(runs)
        self.control = cache(lambda kind, run: controls.of(kind, run.spec))
        self.asked = cache(
            lambda run, seed: {(question(r, seed), *r["spec"].get("partners", ())): r for r in run.records()}
        )
        self.costs = {run: if_whole(run.cost) for run in runs}
        costed = [(run.spec, cost) for run, cost in self.costs.items() if cost]
        self.joints = {spec.data.fingerprint: cost["grid"].split(" x ")[1] for spec, cost in costed}
        self.class_tokens = {
            (spec.encoder, canonical_json(spec.encoder_config))
            for spec, cost in costed
            if cost["encoder"]["class_token"]
        }

    def grid(self, run: ReadRun) -> str:
        """Token grid, ``8x25``, with ``+1`` for a class token. A run without cost has joints and class token of other
        runs on the same data and with the same encoder."""
        joints = self.joints.get(run.spec.data.fingerprint)
        grid = f"{run.about['tokens']}x{joints}" if joints else str(run.about["tokens"])
        network = run.spec.encoder, canonical_json(run.spec.encoder_config)
        return grid + ("+1" if network in self.class_tokens else "")


def _of_run(run: ReadRun, shared: _Shared) -> dict[str, Any]:
    """Columns that all evaluations of a run share."""
    spec, info, cost, origin = run.spec, run.info, shared.costs[run], added(run.info)
    encoder = section(info["modified"], "encoder")
    return {
        "run": run.name,
        "title": run.title,
        "training": shared.training(run),
        "method": spec.method,
        "version": spec.method_version,
        "variant": info.get("variant", ""),
        "setting": info.get("setting", "shared"),
        "tokens": shared.grid(run),
        "frames": spec.grid.frames,
        "patch": spec.grid.patch,
        "preset": info["preset"] + ("+" if info["modified"] else ""),
        "encoder": spec.encoder + (f" ({listed(encoder)})" if encoder else ""),
        "hardware": run.hardware,
        "seed": spec.seed,
        "gflops": _gflops(cost, 1),
        "clip_gflops": _gflops(cost, BODIES),
        "step_gflops": 1e-9 * cost["step"]["flops_per_clip"] if cost and cost["step"] else None,
        "batch_size": spec.train.batch_size if spec.views else None,
        "collapse": "; ".join(map(describe, info.get("collapse") or ())) or None,
        "finished": info.get("finished"),
        "tags": ", ".join(run.tags),
        "added": origin and origin.sentence,
    }


def _of_record(run: ReadRun, record: Mapping[str, Any], shared: _Shared) -> dict[str, Any]:
    """Columns of one evaluation, from its record and predictions."""
    spec, evaluated, metrics = run.spec, record["spec"], record["metrics"]
    data, source = DataSpec.model_validate(evaluated["data"]), ""
    if (data.title, data.split) != (spec.data.title, spec.data.split):
        source = f"{spec.data.title} {spec.data.split}"
    spending = _spent(run, evaluated["checkpoint"])
    outcomes = if_whole(partial(shared.read, run.path, record["id"], record["predictions"]))
    by_subject = outcomes and outcomes.by_subject
    spread = metrics.get("accuracy_sd")
    return {
        "dataset": data.title + (f" (from {source})" if source else ""),
        "split": data.split,
        "source": source,
        "data": evaluated["data"]["fingerprint"][:12],
        "exact": not run.info["modified"] and record["standard"],
        "budget": budget_of(run.info) if record["standard"] else "",
        "standard": record["standard"],
        **({"preset": record["preset"]} if "preset" in record and spec.method in CONTROLS else {}),
        "protocol": evaluated["protocol"],
        "stream": EvalSpec.model_validate(evaluated).stream_title,
        "checkpoint": evaluated["checkpoint"],
        "accuracy": metrics["accuracy"],
        "accuracy_selected": metrics.get("accuracy_selected"),
        "accuracy_best_on_test": metrics.get("accuracy_best_on_test"),
        "accuracy_sd": outcomes.spread if spread is None and outcomes else spread,
        "draws": outcomes and len(outcomes.correct_DC),
        "drawn": record.get("drawn", ""),
        "n_test": int(metrics["n_test"]),
        "subjects": by_subject and len(by_subject),
        "classes": outcomes and outcomes.classes,
        "by_subject": by_subject,
        **spending,
        "train_flops": _train_flops(shared.costs[run], spending["clips_seen"]),
        "evaluation": record["id"],
        "predictions": record["predictions"],
        "measures": measured(record),
    }


def _fused(run: ReadRun, partner: ReadRun, epoch: str) -> str:
    """``with cmd:bone@50 (train.lr=0.1)`` for a fused run that differs from ``run`` in more than the stream; else
    ""."""
    partner_facts = {name: partner.about[name] for name in ("method", "preset", "changed")}
    differences = {name: value for name, value in partner_facts.items() if value != run.about[name]}
    named = ", ".join(value for name, value in differences.items() if value and name != "method")
    text = f"with {partner.title}{epoch and f'@{epoch}'}{named and f' ({named})'}"
    return text if differences or epoch else ""


def _tests(run: ReadRun, record: Mapping[str, Any], shared: _Shared) -> dict[str, Any]:
    """Columns of the paired tests against the baselines, evaluated and fused in the same way as ``run``."""
    cells: dict[str, Any] = {}
    fused = [shared.by_id.get(name.partition("@")[0]) for name in record["spec"].get("partners", ())]
    for kind in CONTROLS:
        seed, control = kind == "untrained", shared.control(kind, run)
        controls = [member and shared.control(kind, member) for member in fused]
        key = question(record, seed), *(control_run.about["id"] for control_run in controls if control_run)
        if control is None or None in controls or (twin := shared.asked(control, seed).get(key)) is None:
            continue
        if seed:
            cells |= {"control_run": control.name, "control_accuracy": twin["metrics"]["accuracy"]}
        else:
            cells["raw_evaluation"] = twin["id"]
        own, base = (
            if_whole(partial(shared.read, side.path, row["id"], row["predictions"]))
            for side, row in ((run, record), (control, twin))
        )
        test = own and base and if_whole(partial(paired_outcomes, own, base, (run.name, control.name)))
        if test:
            prefix = "" if seed else "raw_"
            cells |= {f"{prefix}difference": test.difference, f"{prefix}p_value": test.p_value}
            cells |= {"interval": (test.interval, test.over)} if seed else {}
    return cells


class _UsualSettings:
    """The first evaluation with default settings by each protocol: of a run itself, of its preset, or of any run."""

    def __init__(self, runs: Iterable[ReadRun]) -> None:
        self._found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for run in runs:
            places = (run.name,) if run.about["method"] in CONTROLS else (run.name, f"preset {run.preset}", "")
            for record in (record for record in run.records() if record["standard"]):
                for place in places:
                    self._found.setdefault((record["spec"]["protocol"], place), record["spec"])

    def changed(self, run: ReadRun, record: Mapping[str, Any]) -> str:
        """``probe.lr=0.1, probe.readout=mean``: settings of an evaluation that are not the usual ones. "" if there are
        none, or if only data, checkpoint or streams differ: these have their own columns."""
        if record["standard"]:
            return ""
        evaluated, changed = record["spec"], list[str]()
        places = ((evaluated["protocol"], place) for place in (run.name, f"preset {run.preset}", ""))
        place = next((place for place in places if place in self._found), None)
        if place is not None:
            usual, excluded = _settings(self._found[place]), () if place[1] == run.name else _OF_THE_RUN
            own = {name: value for name, value in _settings(evaluated).items() if name not in excluded}
            changed += [f"probe.{name}={value}" for name, value in own.items() if value != usual.get(name)]
        changed += [f"probe.seed={evaluated['seed']}"] if evaluated["seed"] != run.spec.seed else []
        return ", ".join(changed) or ("" if _elsewhere(run, evaluated) else UNKNOWN)


def _elsewhere(run: RunDir, evaluated: Mapping[str, Any]) -> bool:
    """Whether an evaluation is special in a way that has its own column: data, checkpoint, streams."""
    data = run.spec.data.model_dump(mode="json")
    if evaluated["checkpoint"] != "last" or evaluated["fusion"] != "none" or evaluated["streams"] != ["joint"]:
        return True
    return any(evaluated["data"].get(name) != data.get(name) for name in ("name", "split", "second_body", "min_frames"))


def _settings(evaluated: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: evaluated[name] for name in _SETTINGS if name in evaluated}
    return {**evaluated["protocol_config"], **own}


def _spent(run: ReadRun, checkpoint: str) -> dict[str, float | None]:
    """``clips_seen`` and ``train_seconds`` of a run or its snapshot. For a snapshot they are interpolated in the log.
    Without a log they are its fraction of the totals."""
    totals = {name: run.info.get(name) for name in ("clips_seen", "train_seconds")}
    if checkpoint == "last":
        return totals
    epoch, lines = float(checkpoint), if_whole(partial(logged_lines, run)) or []
    if timed := [line for line in lines if line.get("seconds") is not None]:
        epochs = [0.0, *(line["epoch"] for line in timed)]
        keys = {"clips_seen": "clips_seen", "train_seconds": "seconds"}
        logged = {name: [0.0, *(line[key] for line in timed)] for name, key in keys.items()}
        return {name: float(np.interp(epoch, epochs, values)) for name, values in logged.items()}
    share = min(1.0, epoch / run.spec.train.epochs) if run.spec.train.epochs else 0.0
    return {name: None if value is None else share * value for name, value in totals.items()}


def _gflops(cost: Mapping[str, Any] | None, bodies: int) -> float | None:
    """GFLOPs of the inference encoder for a clip with ``bodies`` bodies."""
    return 2e-9 * cost["encoder"]["macs"] * passes(bodies, cost["encoder"].get("bodies", 1)) if cost else None


def _train_flops(cost: Mapping[str, Any] | None, clips: float | None) -> float | None:
    """FLOPs of pre-training on ``clips`` clips; None without a counted step or clip."""
    return BODIES * cost["step"]["flops_per_clip"] * clips if cost and cost["step"] and clips else None


def budget_of(info: Mapping[str, Any]) -> str:
    """Budget of a training, ``clips=200``, if it is the one changed setting; else ""."""
    changed = listed(info["modified"])
    return changed.removeprefix("budget ") if len(info["modified"]) == 1 and changed.startswith("budget ") else ""


def but_for_seed(run: RunDir) -> str:
    """Hash that seeds of one setting share. The first stage of a second one counts only if it is a changed setting."""
    spec, shared_settings = run.spec, dict[str, Any](seed=0)
    if spec.init_from is not None and "init_from" not in run.info["modified"]:
        shared_settings |= {"init_from": "first stage"}
    return digest(spec.model_copy(update=shared_settings).model_dump(mode="json"))
