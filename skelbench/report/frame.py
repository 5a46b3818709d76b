"""All evaluation records as one pandas frame: what tables are built from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skelbench.cost import BODIES
from skelbench.errors import SkelbenchError
from skelbench.evaluate.resampling import sums
from skelbench.files import check_regular
from skelbench.identity import canonical_json, digest
from skelbench.report.probes import Probes, spent
from skelbench.results.added import added
from skelbench.results.measures import measured
from skelbench.results.store import Damaged, ReadRun, ResultStore, RunDir, if_whole
from skelbench.spec import DataSpec, EvalSpec, RunSpec, listed, trained_streams, twin_fields
from skelbench.train.collapse import sentence

if TYPE_CHECKING:
    import pandas

    from skelbench.evaluate.statistics import PairedTest, SeedsTest

COLUMNS = (
    "run", "group", "title", "method", "version", "variant", "setting", "dataset", "split", "source", "data", "tokens",
    "frames", "patch", "preset", "encoder", "exact", "changed", "hardware", "seed", "protocol", "trained_on", "stream",
    "checkpoint",
    "accuracy", "accuracy_selected", "accuracy_best_on_test", "accuracy_sd", "draws", "drawn", "n_test", "subjects",
    "by_subject", "control_run", "control_accuracy", "difference", "p_value", "raw_evaluation", "raw_difference",
    "raw_p_value",
    "measures", "gflops", "step_gflops", "train_flops", "batch_size", "clips_seen", "train_seconds", "collapse",
    "finished", "evaluation", "predictions", "tags", "added",
)  # fmt: skip

DEFAULTS = {"encoder": RunSpec.model_fields["encoder"].default, "stream": "joint"}
"""What tables need not say."""

CONTROLS = ("untrained", "raw")
"""Methods that others are measured against: the encoder as initialised; coordinates, no network."""


class Outcomes(NamedTuple):
    """What an evaluation made of the test clips, by clip id."""

    ids_C: np.ndarray
    """Ascending."""
    correct_DC: np.ndarray
    """bool [draws, C]: whether each was recognised."""
    subject_C: np.ndarray | None
    """Who is seen; None in files that do not say, and where all are the same."""

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the accuracy over draws; None of one draw."""
        return float(self.correct_DC.mean(1).std(ddof=1)) if len(self.correct_DC) > 1 else None

    @property
    def by_subject(self) -> dict[int, tuple[float, int]] | None:
        """Clips recognised (means over draws) and clips, of each subject."""
        if self.subject_C is None:
            return None
        right_G, clips_G = sums(self.subject_C, self.correct_DC.mean(0))
        return dict(zip(np.unique(self.subject_C).tolist(), zip(right_G.tolist(), clips_G.tolist())))


def frame(every: Iterable[ReadRun]) -> pandas.DataFrame:
    """One row per evaluation record of a finished one of the runs, with the paired tests against its controls.

    Accuracies are shares; ``gflops`` is the inference encoder's and ``step_gflops`` a whole training step's per
    clip, both for one body (two bodies cost exactly twice as much); ``train_flops`` is that of the whole
    pre-training up to the checkpoint, on clips of two bodies, as in ``--budget flops=...``. ``title`` is what one types
    (``slim:glcl-only``), ``changed`` the settings that differ from preset, variant and protocol (``train.lr=0.001,
    probe.k=5``), ``encoder`` its name with the settings that are not its preset's, ``trained_on`` the streams of
    training, of all runs that are fused, ``stream`` what was evaluated (``joint + bone (scores)``), ``collapse``
    what collapsed in training (None = nothing), ``data`` the data set's fingerprint, ``finished`` when the training
    was.
    ``source`` is data set and split of the training where the evaluation's are others, which ``dataset`` then says too
    (``pku2 (from ntu60 xsub)``): such a row competes with none of an encoder that was trained on the same data.
    ``draws`` is how many were measured, ``drawn`` what of (``label subsets``), ``accuracy_sd`` the accuracy's standard
    deviation over them. ``subjects`` is how many people are seen in the test clips, None where that is not known, and
    ``by_subject`` has for each of them the clips recognised (means over draws) and all clips.
    ``raw_evaluation`` is the one of the control ``raw`` that it is tested against; ``evaluation`` and ``predictions``
    lead to the outcome of every test clip (:func:`outcomes`); ``tags`` were given to the run by hand. ``measures`` are
    further figures by name, each with how it is written (:mod:`skelbench.results.measures`).
    """
    import pandas

    runs = [run for run in every if run.outcome == "done"]
    controls, probes = Controls(runs), Probes(runs)
    costs = {run.name: if_whole(run.cost) for run in runs}
    read = reader()
    by_id = {run.spec.id: run.spec for run in runs}
    grids, encoders = _grids(runs, costs), _encoders(runs)
    rows = [
        {"tokens": grids[run.name], "encoder": encoders[run.name], **row}
        for run in runs
        for row in _rows(run, controls, probes, costs[run.name], by_id, read)
    ]
    return pandas.DataFrame(rows, columns=list(COLUMNS))


class Controls:
    """Of finished ``runs`` those that others are measured against, the first of each shape, and their records."""

    def __init__(self, runs: Iterable[ReadRun]) -> None:
        self._found: dict[str, dict[str, ReadRun]] = {kind: {} for kind in CONTROLS}
        for run in runs:
            if run.outcome == "done" and (spec := run.spec).method in self._found:
                self._found[spec.method].setdefault(_SHAPES[spec.method](spec), run)
        self.records = cache(lambda run, seed: {_what(record, seed): record for record in run.records()})

    def of(self, kind: str, spec: RunSpec) -> ReadRun | None:
        """``kind`` "untrained": the untrained run with the same encoder, grid, data, precision and seed; "raw": the one
        on the same data and clip length. None where there is none, and for a control itself."""
        found = self._found[kind]
        apart = CONTROLS if kind == "untrained" else ("raw",)
        return found.get(_SHAPES[kind](spec)) if found and spec.method not in apart else None


def _shape(spec: RunSpec) -> str:
    fields = spec.model_dump(mode="json", include={*twin_fields(spec)})
    return json.dumps([fields, spec.train.precision], sort_keys=True)


def _raw_shape(spec: RunSpec) -> str:
    return json.dumps([spec.data.model_dump(mode="json"), spec.grid.frames], sort_keys=True)


_SHAPES: Mapping[str, Callable[[RunSpec], str]] = {"untrained": _shape, "raw": _raw_shape}


def predictions(run: RunDir, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Per-clip test predictions of an evaluation: ids, labels [C]; predicted, correct [C], or of several draws
    [draws, C]; and, where the file says who is seen in the clips, subjects [C]."""
    try:
        path = run.path / Path(record["predictions"]).name  # a record that came from elsewhere leads nowhere else
        check_regular(path)
        with np.load(path) as file:
            arrays = {name: file[name] for name in ("ids", "labels", "predicted")}
            if "subjects" in file:
                arrays["subjects"] = file["subjects"]
        drawn = arrays["predicted"].shape[:-1]
        sizes = {array.shape for name, array in arrays.items() if name != "predicted"}
        if sizes != {arrays["predicted"].shape[-1:]} or len(drawn) > 1:
            raise ValueError("they are not one whole number per clip")
        if any(array.dtype.kind not in "iu" for array in arrays.values()):
            raise ValueError("they are not whole numbers")
    except Exception as error:  # damaged bytes make zipfile and numpy raise almost anything
        raise Damaged(
            f"predictions of evaluation {record['id']} in {run.path} are missing or damaged; "
            f"evaluate again: skelbench eval {run.spec.id} --force"
        ) from error
    return {**arrays, "correct": arrays["labels"] == arrays["predicted"]}


def outcomes_of(run: RunDir, record: Mapping[str, Any]) -> Outcomes:
    """The outcomes of an evaluation of ``run``."""
    found = predictions(run, record)
    order, subjects = np.argsort(found["ids"], kind="stable"), found.get("subjects")
    known = subjects is not None and len(np.unique(subjects)) > 1
    return Outcomes(
        found["ids"][order],
        np.atleast_2d(found["correct"])[:, order],
        subjects[order] if subjects is not None and known else None,
    )


def outcomes(store: ResultStore, row: Any) -> Outcomes:
    """The outcomes of one row of the frame."""
    return outcomes_of(RunDir(store.root / row["run"]), {"id": row["evaluation"], "predictions": row["predictions"]})


def paired(run: RunDir, record: dict[str, Any], other: RunDir, other_record: dict[str, Any]) -> PairedTest:
    """Paired test of two evaluations of the same test clips (first minus second)."""
    return _paired(outcomes_of(run, record), outcomes_of(other, other_record), (run.name, other.name))


def _paired(mine: Outcomes, theirs: Outcomes, names: tuple[str, str]) -> PairedTest:
    from skelbench.evaluate.statistics import paired_test

    # Of the same clips the subjects are the same, whichever of the files says so.
    subject_C = mine.subject_C if mine.subject_C is not None else theirs.subject_C
    try:
        return paired_test(mine.ids_C, mine.correct_DC, theirs.ids_C, theirs.correct_DC, names, subjects_a=subject_C)
    except SkelbenchError as error:  # other clips: no test of this pair, and all the others as ever
        raise Damaged(str(error)) from error


Reader = Callable[[Path, str, str], Outcomes]
"""``read(run, evaluation, predictions)``: the outcomes in a run's directory."""


def reader() -> Reader:
    """Of outcomes, each of which it reads once: who compares many rows comes back to the same ones."""
    return lru_cache(maxsize=256)(
        lambda run, evaluation, name: outcomes_of(RunDir(run), {"id": evaluation, "predictions": name})
    )


def paired_over_seeds(
    store: ResultStore, mine: pandas.DataFrame, theirs: pandas.DataFrame, read: Reader | None = None
) -> SeedsTest | None:
    """Paired test of two settings, each with one row of the frame per seed, over the seeds that both have; coordinates
    without a network (``raw``) have none, and stand beside every seed.

    None where they have no seed in common, or predictions of one are damaged. The same test clips under several seeds
    and draws are not several clips: a clip counts once, with its mean over them.
    """
    from skelbench.evaluate.statistics import seeds_test

    sides = (mine, theirs)
    seeds = [set(side["seed"]) for side in sides if not _seedless(side)]
    both = sorted(set.intersection(*seeds)) if seeds else [0]
    if not both:
        return None
    names, found, read = [], [], read or reader()
    for side in sides:
        repeated = [0] * len(both) if _seedless(side) else [list(side["seed"]).index(seed) for seed in both]
        rows = [side.iloc[place] for place in repeated]
        names += [row["run"] for row in rows]
        places = [(store.root / row["run"], row["evaluation"], row["predictions"]) for row in rows]
        found.append([outcome for place in places if (outcome := if_whole(partial(read, *place)))])
        if len(found[-1]) < len(rows):
            return None
    every = list(chain(*found))
    for name, one in zip(names, every, strict=True):
        if not np.array_equal(one.ids_C, every[0].ids_C):
            raise Damaged(
                f"runs {names[0]} and {name} were evaluated on different test clips; evaluate both again: "
                "skelbench eval RUN --force"
            )
    subject_C = next((one.subject_C for one in every if one.subject_C is not None), None)
    first_SDC, second_SDC = (np.stack([one.correct_DC for one in side]) for side in found)
    return seeds_test(first_SDC, second_SDC, subject_C=subject_C)


def _seedless(side: pandas.DataFrame) -> bool:
    return "method" in side and side["method"].iloc[0] == "raw"


def _rows(
    run: ReadRun,
    controls: Controls,
    probes: Probes,
    cost: dict[str, Any] | None,
    by_id: Mapping[str, RunSpec],
    read: Reader,
) -> Iterator[dict[str, Any]]:
    def outcome(of: RunDir, record: Mapping[str, Any]) -> Outcomes | None:
        return if_whole(partial(read, of.path, record["id"], record["predictions"]))

    def tested(record: Mapping[str, Any], control: tuple[RunDir, Mapping[str, Any]]) -> PairedTest | None:
        mine, theirs = outcome(run, record), outcome(*control)
        return mine and theirs and if_whole(partial(_paired, mine, theirs, (run.name, control[0].name)))

    spec, info = run.spec, run.info
    origin = added(info)
    twin, raw = controls.of("untrained", spec), controls.of("raw", spec)
    twin_records = controls.records(twin, True) if twin else {}
    raw_records = controls.records(raw, False) if raw else {}
    for record in run.records():
        evaluated, metrics = record["spec"], record["metrics"]
        partners = [name.split("@")[0] for name in evaluated.get("partners", ())]
        data, source = DataSpec.model_validate(evaluated["data"]), ""
        if (data.title, data.split) != (spec.data.title, spec.data.split):
            source = f"{spec.data.title} {spec.data.split}"
        spending = spent(run, evaluated["checkpoint"])
        changed = [listed(info["modified"]), probes.changed(run, record)]
        row = {
            "run": run.name,
            "group": _group(spec, evaluated),
            "title": run.title,
            "method": spec.method,
            "version": spec.method_version,
            "variant": info.get("variant", ""),
            "setting": info.get("setting", "shared"),
            "dataset": data.title + (f" (from {source})" if source else ""),
            "split": data.split,
            "source": source,
            "data": evaluated["data"]["fingerprint"][:12],
            "frames": spec.grid.frames,
            "patch": spec.grid.patch,
            "preset": info["preset"] + ("+" if info["modified"] else ""),
            "exact": not info["modified"] and record["standard"],
            "changed": ", ".join(filter(None, changed)),
            "hardware": run.hardware,
            "seed": spec.seed,
            "protocol": evaluated["protocol"],
            "trained_on": trained_streams([spec, *(by_id[name] for name in partners if name in by_id)]),
            "stream": EvalSpec.model_validate(evaluated).stream_title,
            "checkpoint": evaluated["checkpoint"],
            "accuracy": metrics["accuracy"],
            "accuracy_selected": metrics.get("accuracy_selected"),
            "accuracy_best_on_test": metrics.get("accuracy_best_on_test"),
            "accuracy_sd": metrics.get("accuracy_sd"),
            "drawn": record.get("drawn", ""),
            "n_test": int(metrics["n_test"]),
            "measures": measured(record),
            "gflops": 2e-9 * cost["encoder"]["macs"] / cost["encoder"].get("bodies", 1) if cost else None,
            "step_gflops": 1e-9 * cost["step"]["flops_per_clip"] if cost and cost["step"] else None,
            "batch_size": spec.train.batch_size if spec.views else None,
            **spending,
            "train_flops": _train_flops(cost, spending["clips_seen"]),
            "collapse": "; ".join(map(sentence, info.get("collapse") or ())) or None,
            "finished": info.get("finished"),
            "evaluation": record["id"],
            "predictions": record["predictions"],
            "tags": ", ".join(run.tags),
            "added": origin.sentence if origin else None,
        }
        mine = outcome(run, record)
        if mine is not None:
            by_subject = mine.by_subject
            row |= {"draws": len(mine.correct_DC), "by_subject": by_subject, "subjects": by_subject and len(by_subject)}
            row["accuracy_sd"] = mine.spread if row["accuracy_sd"] is None else row["accuracy_sd"]
        control = twin_records.get(_what(record)) if twin_records else None
        if twin is not None and control is not None:
            row |= {"control_run": twin.name, "control_accuracy": control["metrics"]["accuracy"]}
            if (test := tested(record, (twin, control))) is not None:
                row |= {"difference": test.difference, "p_value": test.p_value}
        floor = raw_records.get(_what(record, seed=False))
        if raw is not None and floor is not None:
            row["raw_evaluation"] = floor["id"]
            if (test := tested(record, (raw, floor))) is not None:
                row |= {"raw_difference": test.difference, "raw_p_value": test.p_value}
        yield row


def _train_flops(cost: Mapping[str, Any] | None, clips: float | None) -> float | None:
    """FLOPs of pre-training on so many clips; None where no step or no clip was counted."""
    return BODIES * cost["step"]["flops_per_clip"] * clips if cost and cost["step"] and clips else None


def _grids(runs: Sequence[RunDir], costs: Mapping[str, dict[str, Any] | None]) -> dict[str, str]:
    """Token grid of each run, ``8x25``, with ``+1`` for a class token: two untrained encoders of one grid can differ in
    it. Joints and class token stand in the cost alone: a run without one has those of its neighbours, on the same data
    and with the same encoder."""

    def encoder(run: RunDir) -> str:
        return digest([run.spec.encoder, run.spec.encoder_config])

    costed = [(run, cost) for run in runs if (cost := costs[run.name])]
    joints = {run.spec.data.fingerprint: cost["grid"].split(" x ")[1] for run, cost in costed}
    class_token = {
        encoder(run): cost["encoder"].get("class_token", cost.get("class_token", False)) for run, cost in costed
    }
    return {
        run.name: "x".join(filter(None, [str(run.spec.tokens), joints.get(run.spec.data.fingerprint)]))
        + ("+1" if class_token.get(encoder(run)) else "")
        for run in runs
    }


def _encoders(runs: Sequence[RunDir]) -> dict[str, str]:
    """The encoder of each run: its name, and those of its settings in which it differs from the encoder that the exact
    runs of its preset have. A method's own setting has its own form of the encoder, which is not spelt out."""
    settings: dict[tuple[str, ...], list[tuple[RunDir, dict[str, Any]]]] = {}
    labels = {}
    for run in runs:
        spec, info = run.spec, run.info
        labels[run.name] = spec.encoder
        if info.get("setting", "shared") == "shared":
            settings.setdefault((spec.encoder, info["preset"]), []).append((run, twin_fields(spec)["encoder_config"]))
    for group in settings.values():
        exact = [config for run, config in group if not run.info["modified"]] or [config for _, config in group]
        usual = json.loads(Counter(map(canonical_json, exact)).most_common(1)[0][0])
        for run, config in group:
            config = json.loads(canonical_json(config))
            own = {key: value for key, value in config.items() if key not in usual or usual[key] != value}
            labels[run.name] += f" ({listed(own)})" if own else ""
    return labels


def _group(spec: RunSpec, evaluated: dict[str, Any]) -> str:
    """What must agree for two runs to be seeds of one setting."""
    probe = {
        key: value for key, value in evaluated.items() if key not in ("pretrain_id", "partners", "seed", "checkpoint")
    }
    return digest([spec.model_copy(update={"seed": 0}).model_dump(mode="json"), probe])


def _what(record: dict[str, Any], seed: bool = True) -> str:
    """Everything that must agree between two evaluations for a paired test, whatever the encoder and checkpoint;
    ``seed`` False: and the seed, of which the control ``raw`` has none."""
    apart = ("pretrain_id", "partners", "checkpoint", *(() if seed else ("seed",)))
    return canonical_json({key: value for key, value in record["spec"].items() if key not in apart})
