"""An exported encoder gives the run's features again: in skelbench, timm and onnxruntime."""

import importlib.util
import json

import numpy as np
import pytest
import torch

import skelbench
from skelbench.api.exported import read_settings
from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError


@pytest.fixture
def run(trained):
    return trained("skeletonmae")


@pytest.fixture
def exported(run, tmp_path):
    """A run, the folder of its encoder, test clips and their features."""
    folder = tmp_path / "out"
    written = skelbench.export(run, folder)
    assert written.files == ("README.md", "config.json", "model.safetensors") and not written.onnx_difference
    part = skelbench.dataset("small", part="test", data=run.data)
    clips = [part[i][0].numpy() for i in range(len(part))]
    return run, folder, clips, run.encoder(device="cpu").embed(part)


def test_the_export_folder_is_self_contained(exported, run, monkeypatch):
    _, folder, clips, expected = exported
    monkeypatch.delenv("SKELBENCH_DATA")
    encoder = skelbench.load_encoder(folder, device="cpu")
    assert np.array_equal(encoder.embed(clips), expected) and run.name in repr(encoder)
    settings = read_settings(folder)
    assert settings.features == expected.shape[1] and settings.skeleton.name == "ntu25"
    assert (settings.grid.frames, settings.grid.patch, settings.preprocessing.slots) == (32, 8, 2)
    with pytest.raises(SkelbenchError, match="is an exported encoder, with one checkpoint"):
        skelbench.load_encoder(folder, "12")


def test_timm_creates_the_exported_encoder(exported):
    import timm

    import skelbench.api.timm  # noqa: F401

    _, folder, clips, expected = exported
    model = timm.create_model(f"local-dir:{folder}", pretrained=True)
    assert np.array_equal(model(clips).detach().numpy(), expected) and model.num_features == expected.shape[1]
    files = {"settings": folder / "config.json", "checkpoint_path": str(folder / "model.safetensors")}
    assert np.array_equal(timm.create_model("skelbench_encoder", **files)(clips).detach().numpy(), expected)
    fresh = timm.create_model(f"local-dir:{folder}", pretrained=False)
    assert not np.allclose(fresh(clips).detach().numpy(), expected, atol=1e-2)
    classifier = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=7).train()
    scores = classifier(clips)
    scores.logsumexp(1).sum().backward()
    assert scores.shape == (len(clips), 7) and classifier.encoder.training
    assert classifier.encoder.tokenizer.project.weight.grad.any()
    with pytest.raises(SkelbenchError, match="needs an export"):
        timm.create_model("skelbench_encoder")


def test_onnx_gives_the_same_features(exported, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    import onnxruntime

    run, _, clips, expected = exported
    folder = tmp_path / "onnx"
    written = skelbench.export(run, folder, "onnx")
    assert 0 <= written.onnx_difference < 1e-4 and "model.onnx" in written.files
    assert f"{written.onnx_difference:.1e}" in (folder / "README.md").read_text()
    model = onnxruntime.InferenceSession(folder / "model.onnx")
    x_BMTJC, present_BM = skelbench.load_encoder(folder, device="cpu").prepare(clips)
    for batch in (slice(0, 1), slice(None)):
        (features,) = model.run(None, {"clips": x_BMTJC[batch], "present": present_BM[batch]})
        assert np.allclose(features, expected[batch], atol=1e-4)


def test_the_model_card_names_the_conditions(trained, tmp_path, session):
    run = trained("slim", preset="quick")
    evaluated = run.evaluate("knn", progress=False)
    skelbench.export(run, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    _, header, text = card.split("---\n", 2)
    assert '"self-supervised"' in header and "model-index" not in header
    assert "its results are not the paper's" in text and "Settings were changed from the preset" in text
    (line,) = [line for line in text.splitlines() if line.startswith("| knn")]
    for condition in (
        f"{evaluated.accuracy:.1%}",
        "small / half",
        "| 12 |",
        "quick+",
        run.info["environment"]["hardware"],
    ):
        assert condition in line
    assert "Do et al." in text and "no license of the weights is given" in text


def test_an_existing_folder_and_an_unsaveable_encoder_are_errors(exported, run, tmp_path, capsys, monkeypatch):
    _, folder, _, _ = exported
    where = ["--results", str(run.path.parent), "--data-root", str(run.data)]

    def refused(said, *words):
        assert main(["export", run.id, *words, *where]) == 2
        assert said in capsys.readouterr().err and not list(tmp_path.glob(".*"))

    refused("exists already", "-o", str(folder))
    refused("did you mean 'onnx'", "-o", str(tmp_path / "new"), "--format", "onx")
    found = importlib.util.find_spec
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "onnx" else found(name, *more))
        refused("pip install 'skelbench[onnx]'", "-o", str(tmp_path / "new"), "--format", "onnx")

    def forgetful(self):
        return {name: torch.zeros_like(x) for name, x in torch.nn.Module.state_dict(self).items()}

    monkeypatch.setattr("skelbench.models.vit.ViT.state_dict", forgetful, raising=False)
    with pytest.raises(SkelbenchError, match="gives other features after it was written"):
        skelbench.export(run, tmp_path / "new")
    assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".*"))


def test_a_damaged_or_foreign_export_is_an_error(exported):
    _, folder, _, _ = exported
    whole = (folder / "config.json").read_text()
    for change, said in (
        (lambda settings: settings.update(format=99), "newer than this skelbench reads"),
        (lambda settings: settings.update(encoder_version=7), "is not the one that was exported"),
        (lambda settings: settings.pop("grid"), "grid"),
    ):
        config = json.loads(whole)
        change(config["model_args"]["settings"])
        (folder / "config.json").write_text(json.dumps(config))
        with pytest.raises(SkelbenchError, match=said):
            skelbench.load_encoder(folder)
    (folder / "config.json").write_text(whole)
    (folder / "model.safetensors").write_bytes(b"no")
    with pytest.raises(SkelbenchError, match="model.safetensors are missing or damaged"):
        skelbench.load_encoder(folder)
