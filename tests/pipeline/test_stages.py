"""A second stage of another method: what it may start from, and what it is without."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain, warm_start
from skelbench.pipeline.warm_start import finished
from skelbench.plugin.host import Host
from skelbench.training.build import build_method

LATER = """
from skelbench.plugin import MethodSpec, Stage, hookimpl
from skelbench.methods import MomentumContrastConfig
from skelbench_plugins.skeletonclr import SkeletonCLR

@hookimpl
def skelbench_methods():
    variants = {"halved": {"method.shear": "x0.5"}}
    parts = dict(variants=variants, target=":SkeletonCLR", config=":MomentumContrastConfig", native={"grid.frames": 40})
    return [
        MethodSpec(name="later", stage=Stage(after=("skeletonclr",), alone={"method.shear": 0.25}), **parts),
        MethodSpec(name="never-alone", stage=Stage(after=("skeletonclr", "aimclr")), **parts),
    ]
"""
QUEUE = {"method.queue": 8, "method.embedding": 8}


@pytest.fixture
def later(tmp_path):
    path = tmp_path / "later.py"
    path.write_text(LATER)
    return Host([path])


@pytest.fixture
def made(later, data_root):
    from small import tiny_run

    def make(method="later", **fields):
        sets = {} if method == "untrained" else QUEUE
        return tiny_run(data_root, later, method, epochs=1, sets=sets, **fields)

    return make


@pytest.fixture
def at(session, later):
    return replace(session, host=later)


def test_a_second_stage_starts_from_its_first_or_contains_it(made, at):
    parent = pretrain(at, made("skeletonclr"))
    assert finished(at.results, "skeletonclr").spec.id == parent.spec.id
    alone, after = made(), made(init_from=parent)
    assert (alone.spec.method_config["shear"], after.spec.method_config["shear"]) == (0.25, 0.5)
    assert alone.spec.init_from is None and after.spec.init_from == parent.spec.id and after.spec.id != alone.spec.id

    method = build_method(after.spec, at.host, after.store.topology)
    warm_start(at.results, method, "later", parent.spec.id, ("skeletonclr",))
    state = torch.load(parent.checkpoint, weights_only=True)["method"]
    assert all(torch.equal(x, state[name]) for name, x in method.state_dict().items())  # the key encoder's own too
    assert any(not torch.equal(x, state[f"key_encoder.{name}"]) for name, x in method.encoder.state_dict().items())
    warm_start(at.results, method, "later", parent.spec.id)  # as the start of any other method
    for name, x in load_file(parent.encoder()).items():
        assert torch.equal(method.key_encoder.state_dict()[name], x)
    assert pretrain(at, after).info["outcome"] == "done"


def test_a_second_stage_with_the_preset_first_stage_is_exact(made, at):
    """Settings of the tests aside, which both stages have."""
    parent = pretrain(at, made("skeletonclr"))
    assert "init_from" in made(init_from=parent).modified  # the parent's own settings differ from the preset's
    parent.update(modified={})
    assert "init_from" not in made(init_from=parent).modified
    assert "init_from" in made(init_from=parent, seed=1).modified
    parent.update(variant="halved")
    assert "init_from" in made(init_from=parent).modified
    assert "init_from" not in made("later:halved", init_from=parent).modified
    assert "init_from" in made(init_from=parent, preset="quick").modified


def test_a_second_stage_without_a_parent_is_rejected(made, at):
    for resolved in (made(native=True), made("never-alone"), made("never-alone", native=True)):
        with pytest.raises(SkelbenchError, match=r"is the second stage of skeletonclr.* --init-from RUN") as refused:
            pretrain(at, resolved)
        assert "\n" not in str(refused.value) and not at.results.root.exists()
        assert ("run skeletonclr --native" in str(refused.value)) == (resolved.setting == "native")
    assert "method.shear" not in made("later", native=True).modified


def test_a_wrong_parent_is_rejected(made, at):
    other = pretrain(at, made("untrained"))
    with pytest.raises(SkelbenchError, match="second stage of skeletonclr, and that is a run of untrained"):
        made(init_from=other)
    parent = pretrain(at, made("skeletonclr"))
    for settings, what in (({"encoder.depth": 2}, "encoder"), ({"stream": "bone"}, "stream")):
        with pytest.raises(SkelbenchError, match=f"its {what} is .*; both stages need the same"):
            made(init_from=parent, **settings)


def test_test_clips_in_the_training_of_a_first_stage_are_reported(made, at):
    """Also where the run itself was trained on others; and that it is not known of a first stage that is gone."""
    parent = pretrain(at, made("skeletonclr"))
    run = pretrain(at, made(init_from=parent, split="half~tune"))
    said = " ".join(evaluate(at, run, eval_spec(at.host, run, "knn"))["notes"])
    assert f"by run {parent.name}, whose weights it began with: 4 of the 4 test clips are training clips" in said
    other = pretrain(at, made(split="half~tune", seed=1))
    fused = {"streams": ("joint", "bone"), "fusion": "scores"}
    for first, second in ((run, other), (other, run)):
        spec = eval_spec(at.host, first, "knn", **fused, partners=(second.spec.id,))
        told = [note for note in evaluate(at, first, spec)["notes"] if parent.name in note]
        assert len(told) == 1 and told[0].startswith(f"{run.name}: by run {parent.name}")
    same = pretrain(at, made(init_from=parent))
    assert not [note for note in evaluate(at, same, eval_spec(at.host, same, "knn"))["notes"] if parent.name in note]
    gone = parent.spec.id
    shutil.rmtree(parent.path)
    (note,) = [
        note for note in evaluate(at, run, eval_spec(at.host, run, "knn"), force=True)["notes"] if "began with" in note
    ]
    assert f"run {gone}, which is not here" in note
