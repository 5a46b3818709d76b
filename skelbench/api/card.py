"""The model card of an exported encoder: README.md as the Hugging Face Hub has it.

Every figure stands with its conditions. There is no ``model-index``: what reads one compares figures without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skelbench.api.exported import ONNX, Settings
from skelbench.core.spec import listed
from skelbench.core.text import plain
from skelbench.core.version import __version__
from skelbench.data.store.clip_store import ClipStore
from skelbench.pipeline.presets import BLURB, SETTING
from skelbench.plugin.descriptors import MethodSpec
from skelbench.records.run_dir import RunDir
from skelbench.training.anomalies import describe

if TYPE_CHECKING:
    import pandas

PUBLISHED = ("paper", "ablation", "release", "imported")
"""Presets whose encoder is of a published size."""


@dataclass(frozen=True)
class Facts:
    """What a card tells of."""

    run: RunDir
    settings: Settings
    store: ClipStore
    method: MethodSpec
    evaluations: pandas.DataFrame
    """Rows of the frame of evaluations that are of this run and checkpoint, without those that fuse it with other runs;
    with ``notes``, those of the record, and ``on_encoder``, whether the protocol has the encoder itself, which it may
    train further."""
    parent: RunDir | None = None
    """The run with whose weights it began, if it is here."""
    onnx_difference: float | None = None
    """Largest difference of the ONNX model's features; None = there is none."""

    @property
    def trained(self) -> bool:
        """Whether it was trained by this run: neither imported nor left as initialised."""
        return self.method.trains and not self.run.spec.imported


def model_card(facts: Facts) -> str:
    """Markdown with a YAML header."""
    info, spec, store = facts.run.info, facts.run.spec, facts.store
    tags = ["skelbench", "timm", "skeleton", "action-recognition", "self-supervised", spec.method, store.topology.name]
    header = {"library_name": "skelbench", "pipeline_tag": "feature-extraction", "tags": sorted(set(tags))}
    text = [
        "---",
        *(f"{key}: {json.dumps(value)}" for key, value in header.items()),
        "---",
        "",
        f"# {facts.run.title}, {spec.data.title}",
        "",
        f"A frozen encoder of skeleton clips ({spec.encoder}, {facts.settings.features} features per clip), "
        + (
            f"pre-trained without labels by {facts.run.title}"
            if facts.method.trains
            else f"not trained ({spec.method})"
        )
        + f": {plain(facts.method.summary)}.",
        "",
    ]
    if info["preset"] not in PUBLISHED or info["modified"] or info.get("collapse"):
        text += [*(f"> **{line}**" for line in _cautions(info)), ""]
    text += ["## How it was made", "", *_table(_made(facts)), "", "## How good it is", "", *_figures(facts), ""]
    text += ["## How to use it", "", *_usage(facts), "", "## What it reads", "", *_table(_reads(facts)), ""]
    text += [
        "## Licence",
        "",
        f"The data it was trained on: {_licence(facts)}. These terms may bind what is made from the data, weights "
        "included; no licence of the weights is given here.",
        "",
        "## Citation",
        "",
        *(f"- {line}" for line in _citations(facts)),
    ]
    return "\n".join(text) + "\n"


def _licence(facts: Facts) -> str:
    """Of the data that shaped the weights."""
    if facts.run.spec.imported:
        return "not recorded; ask whoever made the weights"
    if not facts.method.trains:
        return "none"
    licence = plain(facts.store.meta.licence) or "not recorded; ask whoever made the data"
    if facts.run.spec.init_from and (not facts.parent or facts.parent.spec.data.name != facts.run.spec.data.name):
        licence += ", and those of the data of the run with whose weights it began"
    return licence


def _cautions(info: dict[str, Any]) -> Iterator[str]:
    preset = info["preset"]
    if preset not in PUBLISHED:
        yield (
            f"Made with preset {preset} ({BLURB.get(preset, 'settings of this method alone')}): its figures are not "
            "the paper's and compare with runs of this preset alone."
        )
    if info["modified"]:
        yield f"Settings were changed from the preset: {plain(listed(info['modified']))}."
    for found in info.get("collapse") or ():
        yield f"A collapse was seen in training: {plain(describe(found))}."


def _made(facts: Facts) -> Iterator[tuple[str, Any]]:
    run, spec, info = facts.run, facts.run.spec, facts.run.info
    yield "run", facts.settings.run
    yield "method", f"{run.title}, version {spec.method_version}"
    if facts.trained:
        yield "data", f"{spec.data.title}, training part of split {spec.data.split} ({facts.store.meta.name})"
        yield "data fingerprint", facts.store.fingerprint[:12]
        yield "how the data were made", facts.store.meta.lineage
    elif spec.imported:
        yield "data", "as the authors of the weights trained it, which is not recorded"
    if spec.init_from:
        parent = facts.parent
        yield "began with the weights of", parent.name if parent else f"run {spec.init_from}"
        if parent:
            seen = f"{parent.info['clips_seen']:,.0f} clips of " if parent.info.get("clips_seen") else ""
            data = parent.spec.data
            yield "which were trained on", f"{seen}{data.title}, training part of split {data.split}"
    yield "preset", info["preset"] + (" with changes" if info["modified"] else "")
    yield "setting", SETTING[info.get("setting", "shared")]
    yield "seed", spec.seed
    seen = f"{info['clips_seen']:,.0f}" if info.get("clips_seen") else "none: as initialised"
    yield "clips seen", "not recorded" if spec.imported else seen
    yield "hardware", run.hardware
    yield "precision", spec.train.precision
    if seconds := info.get("train_seconds"):
        yield "training time", f"{seconds / 60:.1f} min"
    yield "weights from a file", (info.get("imported") or {}).get("file")
    yield "SHA-256 of the file", spec.imported
    yield "written by", f"skelbench {__version__}"


def _figures(facts: Facts) -> Iterator[str]:
    rows, notes = facts.evaluations.to_dict("records"), list[str]()
    if not rows:
        yield "It was not evaluated."
        return
    frozen = [row for row in rows if not row["on_encoder"]]
    if frozen:
        yield (
            "Test accuracy of frozen features, after the last step of each probe; nothing is selected on test clips. "
            "The control is the same encoder as initialised. Every line is one run, one seed."
        )
        yield from _accuracies(frozen, notes)
    if further := [row for row in rows if row["on_encoder"]]:
        yield (
            "Test accuracy of protocols that have the encoder itself and may train it further with labels: it is not "
            "that of the weights of this folder alone."
        )
        yield from _accuracies(further, notes)
    yield from (f"{number}. {plain(note)}" for number, note in enumerate(notes, 1))


def _accuracies(rows: Sequence[Mapping[str, Any]], notes: list[str]) -> Iterator[str]:
    """A table; what is to be said of its rows goes into ``notes``, whose numbers they have."""
    yield ""
    yield (
        "| probe | settings | stream | tested on | test clips | accuracy | control | difference, points | preset | "
        "hardware | notes |"
    )
    yield "|:---|:---|:---|:---|---:|---:|---:|---:|:---|:---|:---|"
    for row in rows:
        known = row["control_accuracy"] == row["control_accuracy"] and row["control_accuracy"] is not None
        control = f"{row['control_accuracy']:.1%}" if known else "–"
        difference = f"{100 * (row['accuracy'] - row['control_accuracy']):+.1f}" if known else "–"
        notes += [note for note in row["notes"] if note not in notes]
        said = ", ".join(str(notes.index(note) + 1) for note in row["notes"])
        place = f"{row['dataset']} / {row['split']}"
        figures = (f"{row['n_test']:,}", f"{row['accuracy']:.1%}", control, difference)
        cells = (row["protocol"], row["probe"], row["stream"], place, *figures, row["preset"], row["hardware"], said)
        yield "| " + " | ".join(map(_cell, cells)) + " |"
    yield ""


def _usage(facts: Facts) -> Iterator[str]:
    yield "```python"
    yield "import skelbench"
    yield ""
    yield 'encoder = skelbench.load_encoder("FOLDER")'
    yield "features = encoder.embed(clips)  # [B, T, J, 3] or [B, M, T, J, 3], or a list of clips; metres, Y up"
    yield "```"
    yield ""
    yield "or as a model of timm, which trains further:"
    yield ""
    yield "```python"
    yield "import timm, skelbench.api.timm"
    yield ""
    yield 'model = timm.create_model("local-dir:FOLDER", pretrained=True, num_classes=60)  # or "hf-hub:OWNER/NAME"'
    yield "```"
    if facts.onnx_difference is not None:
        yield ""
        yield (
            f"`{ONNX}` takes what `encoder.prepare(clips)` returns: `clips`, float32 [batch, M, T, J, 3] of the grid's "
            "T frames, and `present`, bool [batch, M]; it returns `features`, float32 [batch, F], which differed by at "
            f"most {facts.onnx_difference:.1e} from PyTorch's when it was written."
        )


def _reads(facts: Facts) -> Iterator[tuple[str, Any]]:
    settings = facts.settings
    look, skeleton = settings.preprocessing, settings.skeleton
    yield "skeleton", f"{skeleton.name}, {len(skeleton.joints)} joints: {', '.join(skeleton.joints)}"
    yield "coordinates", f"metres, {look.up_axis.upper()} up, {look.dimensions}-D, as in the clip stores of skelbench"
    yield "frames", f"the central {look.share:.0%} of a clip, resampled ({look.resize}) to T = {settings.grid.frames}"
    yield "frames per token", settings.grid.patch
    yield "stream", look.stream
    yield "origin", {"clip": "as given, the same for all bodies", "body": "each body's own centre joint"}[look.centre]
    yield "alignment", look.align
    yield "bodies", f"{look.bodies}, at most {look.slots}, joined by {look.bodies_pool}"
    yield "second body of a clip of one", look.second_body
    yield "readout", look.readout


def _citations(facts: Facts) -> Iterator[str]:
    if facts.method.citation:
        yield f"the method: {plain(facts.method.citation)}"
    yield f"the data: that of {facts.store.meta.name}, from where it is distributed"
    yield f"the software: skelbench {__version__}"


def _table(rows: Iterator[tuple[str, Any]]) -> list[str]:
    shown = [f"| {name} | {_cell(value)} |" for name, value in rows if value not in (None, "")]
    return ["| | |", "|:---|:---|", *shown]


def _cell(value: Any) -> str:
    return plain(value).replace("|", "\\|")
