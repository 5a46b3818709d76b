"""The model card of an exported encoder: README.md for the Hugging Face Hub, where every result has its conditions.

There is no ``model-index``: its readers compare results without conditions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
"""Presets whose encoder has a published size."""

USAGE = """```python
import skelbench

encoder = skelbench.load_encoder("FOLDER")
features = encoder.embed(clips)  # [B, T, J, 3] or [B, M, T, J, 3], or a list of clips; meters, Y up
```

or as a model of timm, which can be trained further:

```python
import timm, skelbench.api.timm

model = timm.create_model("local-dir:FOLDER", pretrained=True, num_classes=60)  # or "hf-hub:OWNER/NAME"
```
"""


def model_card(
    run: RunDir,
    settings: Settings,
    store: ClipStore,
    method: MethodSpec,
    evaluations: pandas.DataFrame,
    onnx_difference: float | None = None,
) -> str:
    """Return the card: Markdown with a YAML header.

    Args:
        run: the run of the encoder.
        settings: description of the encoder.
        store: the data that the run was trained on.
        method: the method of the run.
        evaluations: rows of :func:`skelbench.results` for the frozen weights of the folder.
        onnx_difference: largest difference of the ONNX model's features; None = there is no ONNX model.
    """
    spec = run.spec
    tags = {"skelbench", "timm", "skeleton", "action-recognition", "self-supervised", spec.method, store.topology.name}
    header = {"library_name": "skelbench", "pipeline_tag": "feature-extraction", "tags": sorted(tags)}
    trained = f"pre-trained without labels by {run.title}" if method.trains else f"not trained ({spec.method})"
    usage = USAGE
    if onnx_difference is not None:
        usage += (
            f"\n`{ONNX}` maps the output of `encoder.prepare(clips)`, `clips` and `present`, to `features`; they "
            f"differ from PyTorch's by at most {onnx_difference:.1e}.\n"
        )
    citations = [f"the method: {method.citation}"] if method.citation else []
    citations += [f"the data: see the distribution of {store.meta.name}", f"the software: skelbench {__version__}"]
    sections = {
        "How it was made": _table([("", ""), *_made(run, settings, store, method)]),
        "Results": _results(evaluations.to_dict("records")),
        "How to use it": usage,
        "License": f"The data it was trained on: {_license(run, store, method)}. These terms may apply to the weights "
        "too; no license of the weights is given here.\n",
        "Citation": "".join(f"- {plain(line)}\n" for line in citations),
    }
    return (
        "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in header.items()) + "---\n\n"
        f"# {run.title}, {spec.data.title}\n\nA frozen encoder of skeleton clips ({spec.encoder}, "
        f"{settings.features} features per clip), {trained}: {plain(method.summary)}.\n\n"
        + "".join(f"> **{line}**\n\n" for line in _cautions(run.info))
        + "".join(f"## {title}\n\n{text}\n" for title, text in sections.items())
    )


def _cautions(info: Mapping[str, Any]) -> Iterator[str]:
    if (preset := info["preset"]) not in PUBLISHED:
        about = BLURB.get(preset, "settings of this method alone")
        yield f"Made with preset {preset} ({about}): its results are not the paper's; compare runs of this preset only."
    if info["modified"]:
        yield f"Settings were changed from the preset: {plain(listed(info['modified']))}."
    yield from (f"Training collapsed: {plain(describe(sign))}." for sign in info.get("collapse") or ())


def _made(run: RunDir, settings: Settings, store: ClipStore, method: MethodSpec) -> Iterator[tuple[str, Any]]:
    spec, info, skeleton, how = run.spec, run.info, settings.skeleton, settings.preprocessing
    yield "run", settings.run
    yield "method", f"{run.title}, version {spec.method_version}"
    if method.trains and not spec.imported:
        data = f"{spec.data.title} ({store.meta.name}), fingerprint {store.fingerprint[:12]}"
        yield "data", f"{data}, training part of split {spec.data.split}; {store.meta.lineage}"
    if spec.init_from:
        yield "started from", f"run {spec.init_from}"
    yield "preset", info["preset"] + (" with changes" if info["modified"] else "")
    yield "setting, seed", f"{SETTING[info.get('setting', 'shared')]}, {spec.seed}"
    yield "clips seen", "not recorded" if spec.imported else f"{info.get('clips_seen') or 0:,.0f}"
    yield "hardware, precision", f"{run.hardware}, {spec.train.precision}"
    if spec.imported:
        yield "weights from the file", f"{(info.get('imported') or {}).get('file')}, SHA-256 {spec.imported}"
    yield "input", f"skeleton {skeleton.name}, {len(skeleton.joints)} joints, meters, {how.up_axis.upper()} up"
    yield "frames", f"central {how.share:.0%} of a clip, resized to T = {settings.grid.frames}"


def _results(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "It was not evaluated.\n"
    columns = ("probe", "settings", "stream", "tested on", "test clips", "accuracy", "untrained encoder")
    lines: list[Any] = [(*columns, "preset", "hardware")]
    for row in rows:
        valid = row["control_accuracy"] is not None and row["control_accuracy"] == row["control_accuracy"]
        tested_on, untrained = (f"{row['dataset']} / {row['split']}", f"{row['control_accuracy']:.1%}" if valid else "")
        results = (row["stream"], tested_on, f"{row['n_test']:,}", f"{row['accuracy']:.1%}", untrained)
        lines.append((row["protocol"], row["probe"], *results, row["preset"], row["hardware"]))
    return (
        "Test accuracy of the frozen encoder after the last step of each probe; nothing is selected on test clips. "
        f"Each row is one run with one seed.\n\n{_table(lines)}"
    )


def _license(run: RunDir, store: ClipStore, method: MethodSpec) -> str:
    """License of the data that shaped the weights."""
    if run.spec.imported:
        return "not recorded; ask the authors of the weights"
    if not method.trains:
        return "none"
    license = plain(store.meta.license) or "not recorded; ask the authors of the data"
    return license + (", and the terms of the data of the run that it started from" if run.spec.init_from else "")


def _table(rows: list[Any]) -> str:
    lines = ["| " + " | ".join(plain(cell).replace("|", "\\|") for cell in row) + " |\n" for row in rows]
    return "".join([lines[0], "|" + ":---|" * len(rows[0]) + "\n", *lines[1:]])
