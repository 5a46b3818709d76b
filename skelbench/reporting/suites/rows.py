"""Which runs and evaluations are rows of a suite, by their specs alone; of those that are not, why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from skelbench.core.spec import Configured, EvalSpec, RunSpec, evaluation_defaults
from skelbench.records.run_dir import RunDir
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.suites.match import Recorded, differences
from skelbench.reporting.suites.suite import Suite

MARK = "suites"
"""Of run.json: the suites that a run was made for, and their hashes then."""


def run_reasons(suite: Suite, recorded: Recorded, info: Mapping[str, Any], spec: RunSpec) -> list[str]:
    """Why a run is no row of ``suite``, in sentences; empty = it is one. ``info`` is its run.json."""
    return list(_run_reasons(suite, recorded, info, spec))


def _run_reasons(suite: Suite, recorded: Recorded, info: Mapping[str, Any], spec: RunSpec) -> Iterator[str]:
    made_for = info.get(MARK)
    other = made_for.get(suite.name, suite.hash) if isinstance(made_for, Mapping) else suite.hash
    if other != suite.hash:
        yield f"it was made for {suite.name} with hash {other}, this one has {suite.hash}"
    if info.get("outcome") != "done":
        yield f"it is not done but {info.get('outcome')}"
    if info.get("modified"):
        yield f"settings were changed from the preset: {', '.join(map(str, info['modified']))}"
    if info.get("setting", "shared") != "shared":
        yield "it is in its method's native setting, rows are in the shared one"
    if spec.init_from or spec.imported:
        yield "it did not begin with new weights"
    yield from _data_reasons(suite, recorded, spec)
    if spec.method != "raw" and spec.seed not in suite.seeds:
        yield f"seed {spec.seed} is none of the suite's ({', '.join(map(str, suite.seeds))})"
    frames = [grid.frames for grid in suite.grids.values()]
    if spec.method == "raw":
        if spec.grid.frames not in frames:
            yield f"clips of {spec.grid.frames} frames are in none of the suite's token grids"
        return
    if spec.grid not in suite.grids.values():
        yield f"token grid {spec.grid.frames}/{spec.grid.patch} is none of the suite's"
    yield from _preset_reasons(suite, recorded, info, spec)
    for name, value in suite.training.items():
        if (own := spec.train.model_dump(mode="json").get(name, value)) != value:
            yield f"train.{name} is {own}, {value} in the suite"
    for part, version in {**spec.components, f"encoders {spec.encoder}": encoder_identity(spec)}.items():
        if suite.components.get(part, version) != version:
            yield f"{part} has version {version}, {suite.components[part]} in the suite"


def encoder_identity(spec: RunSpec) -> str:
    """As the host writes it."""
    return " ".join(filter(None, (str(spec.encoder_version), spec.encoder_source)))


def _data_reasons(suite: Suite, recorded: Recorded, spec: RunSpec) -> Iterator[str]:
    data = spec.data
    if data.name not in suite.datasets or data.split not in suite.datasets[data.name].splits:
        yield f"{data.name} {data.split} is no data set and split of the suite"
        return
    known = recorded.of(data.name).fingerprint
    if known and data.fingerprint != known:
        yield f"its {data.name} has fingerprint {data.fingerprint[:12]}, {known[:12]} in the suite"
    if data.second_body != "zero" or data.min_frames:
        yield "its clips are presented in another way than the suite's"


def _preset_reasons(suite: Suite, recorded: Recorded, info: Mapping[str, Any], spec: RunSpec) -> Iterator[str]:
    name = str(info.get("preset"))
    if name not in suite.presets:
        yield f"preset {name} is none of the suite's ({', '.join(suite.presets)})"
        return
    preset = suite.presets[name]
    if spec.encoder != suite.encoder:
        yield f"its encoder is {spec.encoder}, {suite.encoder} in the suite"
        return
    for place, theirs, mine in differences(preset.encoder_config, spec.encoder_config):
        yield f"encoder.{place} is {mine}, {theirs} in preset {name} of the suite"
    if spec.method in CONTROLS:
        return
    train, clips = spec.train, _clips(suite, recorded, info, spec)
    batch = min(preset.batch_size or train.batch_size, clips or train.batch_size)
    if preset.batch_size and train.batch_size != batch:
        yield f"its batch is {train.batch_size}, {batch} in preset {name} of the suite"
    if train.iters_per_epoch is not None:
        yield "an epoch is not one pass, as it is in the suite"
    elif preset.epochs is not None and train.epochs != preset.epochs:
        yield f"it was trained for {train.epochs:g} epochs, {preset.epochs:g} in preset {name} of the suite"
    elif preset.clips_seen and clips and abs(train.epochs * clips - preset.clips_seen) >= 1:
        yield f"it saw {train.epochs * clips:,.0f} clips, {preset.clips_seen:,} in preset {name} of the suite"


def _clips(suite: Suite, recorded: Recorded, info: Mapping[str, Any], spec: RunSpec) -> int:
    """Training clips of a run's split, as the suite knows them, else as the run says; 0 = not known."""
    if spec.data.name in suite.datasets and spec.data.split in (known := recorded.of(spec.data.name)).splits:
        if clips := known.splits[spec.data.split].train:
            return clips
    said = info.get("train_clips")
    return said if isinstance(said, int) else 0


def evaluation_reasons(suite: Suite, run: Configured, evaluation: EvalSpec, preset: str = "") -> list[str]:
    """Why an evaluation of a run that is a row is none of the suite's; empty = it is. ``preset``: by which it was
    measured, where that is not the run's own."""
    name, spec = evaluation.protocol, run.spec
    if name not in suite.protocols:
        return [f"protocol {name} is none of the suite's"]
    if evaluation.protocol_source:
        return [f"protocol {name} is that of a single file, not the suite's"]
    frozen = suite.protocols[name]
    values = {**suite.evaluation, **evaluation_defaults(spec), **frozen.defaults}
    # Controls are looked at as the run that they are compared with.
    skipped = {*evaluation_defaults(spec)} if spec.method in CONTROLS else set()
    config = {**frozen.config, **frozen.presets.get(preset or run.preset, {})}
    expected = EvalSpec(
        pretrain_id=spec.id, protocol=name, protocol_version=frozen.version, protocol_config=config, data=spec.data,
        seed=spec.seed, **values,
    )  # fmt: skip
    pairs = differences(expected.model_dump(mode="json"), evaluation.model_dump(mode="json"))
    return [
        f"{place} is {mine}, {theirs} in the suite"
        for place, theirs, mine in pairs
        if place.partition(".")[0] not in skipped
    ]


def rows_of(suite: Suite, recorded: Recorded, run: RunDir) -> tuple[set[str], list[str]]:
    """(ids of its evaluations that are the suite's, reasons against the run or against single evaluations)."""
    spec = run.spec
    if reasons := run_reasons(suite, recorded, run.info, spec):
        return set(), reasons
    found: set[str] = set()
    for record in run.records():
        evaluation = EvalSpec.model_validate(record["spec"])
        if against := evaluation_reasons(suite, run, evaluation, record.get("preset", "")):
            reasons.append(f"evaluation {record['id']} ({evaluation.protocol}): {against[0]}")
        else:
            found.add(record["id"])
    return found, reasons
