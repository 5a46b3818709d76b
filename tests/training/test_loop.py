"""Order, schedules, divergence, distribution, observers, warm starts."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import RunSpec, TrainSpec
from skelbench.methods.imported import Imported
from skelbench.pipeline.checkpoint_file import Checkpoint, import_weights
from skelbench.pipeline.pretrain import pretrain, warm_start
from skelbench.pipeline.warm_start import finished
from skelbench.training.build import build_method
from skelbench.training.loop import Order
from skelbench.training.optimization import Optimization


@given(n=st.integers(1, 50), batch=st.integers(1, 60), seed=st.integers(0, 5))
def test_every_epoch_sees_every_clip_once(n, batch, seed):
    ids = np.arange(100, 100 + n)
    order = Order(ids, batch, seed)
    stream = np.concatenate([order(step) for step in range(math.ceil(3 * n / batch))])[: 3 * n]
    for epoch in stream.reshape(3, n):
        assert sorted(epoch) == list(ids)
    # Any step can be asked for on its own: resuming needs no replay.
    assert (Order(ids, batch, seed)(2) == order(2)).all()


class _Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def optim_groups(self):
        yield {"params": [self.a.weight], "lr_scale": 0.5, "clip": "a"}
        yield {"params": [self.a.bias], "wd_scale": 0.0, "clip": "a"}
        yield {"params": list(self.b.parameters()), "frozen_until": 0.5, "clip": "b"}


def _optimization(net, steps, **fields):
    train = TrainSpec(**{"epochs": 1, "lr": 1e-2, "batch_size": 256, **fields})
    spec = RunSpec(method="none", train=train, schedule_config={"min_lr": 1e-4, "warmup": 0.2})
    return Optimization(net.optim_groups(), spec, steps)


def test_learning_rate_warms_up_and_falls_along_a_cosine():
    optim = _optimization(_Net(), 100)
    assert optim.lr(0) == pytest.approx(1e-2 / 20)
    assert optim.lr(19) == pytest.approx(1e-2)
    assert optim.lr(60) == pytest.approx(1e-4 + (1e-2 - 1e-4) * (1 + math.cos(math.pi * 0.5)) / 2)
    assert optim.lr(99) < 2e-4


def test_the_rate_scales_with_the_square_root_of_the_batch_only_when_asked():
    assert _optimization(_Net(), 10).peak == 1e-2
    assert _optimization(_Net(), 10, lr_scaling="sqrt-1024").peak == pytest.approx(5e-3)


def test_weight_decay_follows_its_cosine():
    optim = _optimization(_Net(), 100, weight_decay=0.04, weight_decay_end=0.2)
    assert optim.weight_decay(0) == pytest.approx(0.04)
    assert optim.weight_decay(50) == pytest.approx(0.12)


def test_groups_scale_freeze_and_clip():
    torch.manual_seed(0)
    net = _Net()
    optim = _optimization(net, 10, clip_grad=1.0, weight_decay=0.1)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.grad = torch.full_like(p, 100.0)
    norms = optim.norms()
    by_part = {"a": net.a, "b": net.b}
    assert norms == {name: torch.nn.utils.clip_grad_norm_(part.parameters(), 1e9) for name, part in by_part.items()}
    optim.step(0, norms)
    assert torch.equal(net.b.weight, before["b.weight"])  # frozen for the first half
    step = float((before["a.bias"] - net.a.bias.detach()).abs().max())
    assert step == pytest.approx(optim.lr(0), rel=1e-3)  # AdamW's first step is the rate itself
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    optim.step(5, optim.norms())
    assert not torch.equal(net.b.weight, before["b.weight"])


def test_a_warm_start_begins_with_the_parents_weights(resolved, session):
    parent = pretrain(session, resolved("slim", epochs=1))
    made = resolved("slim", epochs=1)
    child = made.spec.model_copy(update={"init_from": parent.spec.id})
    assert child.id != made.spec.id
    method = build_method(child, session.host, made.store.topology)
    warm_start(session.results, method, "slim", parent.spec.id)
    state = torch.load(parent.checkpoint, weights_only=True)["method"]
    assert all(torch.equal(value, state[name]) for name, value in method.state_dict().items())
    with pytest.raises(SkelbenchError, match="no finished run"):
        warm_start(session.results, method, "slim", "0" * 12)
    wide = build_method(resolved("slim", sets={"encoder.dim": 32}).spec, session.host, made.store.topology)
    with pytest.raises(SkelbenchError, match="do not fit the encoder of this run"):
        warm_start(session.results, wide, "slim", parent.spec.id)
    parent.checkpoint.unlink()
    for refused in (
        lambda: warm_start(session.results, method, "slim", parent.spec.id),
        lambda: finished(session.results, parent.name),
    ):
        with pytest.raises(SkelbenchError, match=r"its training state \(last.pt\) is not here"):
            refused()


def test_an_imported_encoder_goes_into_every_encoder_of_its_method(resolved, session, tmp_path):
    """A public file of the inference encoder alone: what the file does not hold begins as it."""
    made = resolved("skeletonclr", imported="a" * 64)
    method = build_method(made.spec, session.host, made.store.topology)
    weights = {name: x + 1 for name, x in method.state_dict().items() if name.startswith("encoder.")}
    run = import_weights(session, made, Checkpoint(tmp_path / "a.pt", "a" * 64, weights, {}, 3), Imported({}, weights))
    method = build_method(resolved("skeletonclr").spec, session.host, made.store.topology)
    warm_start(session.results, method, "skeletonclr", run.spec.id)
    state = method.state_dict()
    for name, value in weights.items():
        assert torch.equal(state[name], value) and torch.equal(state[f"key_{name}"], value)


def test_another_method_starts_with_the_parents_encoder_in_student_and_teacher(resolved, session):
    """Also when one of the two replaces masked tokens and the other, like all that drop them, has no mask token."""
    parent = pretrain(session, resolved("untrained", seed=1))
    made = resolved("slim", epochs=1)
    method = build_method(made.spec, session.host, made.store.topology)
    warm_start(session.results, method, "slim", parent.spec.id)
    for name, value in load_file(parent.encoder()).items():
        assert torch.equal(method.encoder.state_dict()[name], value)
        assert torch.equal(method.teacher["encoder"].state_dict()[name], value)
    assert "tokenizer.mask_token" in method.encoder.state_dict().keys() - load_file(parent.encoder()).keys()

    slim, mamp = pretrain(session, made), build_method(resolved("mamp").spec, session.host, made.store.topology)
    warm_start(session.results, mamp, "mamp", slim.spec.id)
    for name, value in mamp.encoder.state_dict().items():
        assert torch.equal(load_file(slim.encoder())[name], value)


def test_slims_groups_follow_its_recipe(resolved, host):
    made = resolved("slim")
    method = build_method(made.spec, host, made.store.topology)
    names = {id(p): name for name, p in method.named_parameters()}
    groups = [{**group, "params": [names[id(p)] for p in group["params"]]} for group in method.optim_groups()]
    seen = {name: group for group in groups for name in group["params"]}
    assert set(seen) == {name for name, p in method.named_parameters() if p.requires_grad}
    stem = [f"encoder.tokenizer.project.{part}" for part in ("weight", "bias")]
    assert [n for n, g in seen.items() if g["lr_scale"] != 1.0] == stem
    frozen = {name for name, group in seen.items() if group["frozen_until"]}
    heads = ("target.head", "cl_head")
    assert frozen == {f"{head}.prototype_{part}" for head in heads for part in ("direction", "gain")}
    assert all((group["wd_scale"] == 0) == (n.endswith("bias") or "norm" in n) for n, group in seen.items())
    assert {group["clip"] for group in groups} == {"encoder", "target", "cl_head"}
