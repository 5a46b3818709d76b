"""What every shipped method must do, whatever its idea."""

import math
from pathlib import Path

import pytest
import torch
from seven import SEVEN
from small import COMPARING, METHODS, STILL, TEACHERS, TINY_METHOD, write_small_store

from skelbench.views.keyed import Keyed
from skelbench.views.view import View

pytestmark = pytest.mark.parametrize("name", METHODS)


def test_gradients_reach_every_trainable_parameter_and_no_teacher(name, trainer):
    training = trainer(name)
    out = training.method(training.views(0), training.step_info(0))
    out["loss"].backward()
    missing = [key for key, p in training.method.named_parameters() if p.requires_grad and p.grad is None]
    assert missing == []
    teacher = [p for key, p in training.method.named_parameters() if key.startswith("teacher.")]
    assert all(p.grad is None and not p.requires_grad for p in teacher)
    assert bool(teacher) == (name in TEACHERS)


def test_it_learns_the_clip_it_is_trained_on(name, trainer):
    """Trained on one clip with the same draws every step, it does clearly better there than on another clip.

    Predicting zero, a mean or any constant gains as much on both; so does a method whose targets are noise. What must
    not be learned is held still: teacher, its temperature, its centre, and GFP's targets, which could collapse.
    """
    if name in COMPARING:
        pytest.skip("there is no other clip to tell it from")
    sizes = {"encoder.dim": 32} | ({"decoder_dim": 32} if "decoder_dim" in TINY_METHOD[name] else {})
    rates = {"train.lr": 3e-3, "schedule.warmup": 0.0}
    training = trainer(name, epochs=1000, batch_size=1, **sizes, **rates, **STILL.get(name, {}))
    if name == "gfp":
        training.method.targets.requires_grad_(False)
    own, other = (training.builder(training.source.gather(training.order(i)), Keyed(0, 0)) for i in (0, 1))

    def gap():
        """Loss (of GFP the prediction's alone) on the own clip over that on the other."""
        with torch.no_grad():
            out = [training.method(views, training.step_info(0)) for views in (own, other)]
        mine, others = (float(reported.get("prediction", reported["loss"])) for reported in out)
        assert math.isfinite(mine)
        return mine / others

    before = gap()
    for _ in range(80):
        training.train_step(0, own)
    assert gap() < 0.88 * before


def test_an_absent_second_body_changes_nothing(name, trainer):
    """Rows are the present bodies: what stands in an absent slot is never looked at."""
    training = trainer(name)
    views = training.views(0)
    first = next(iter(views.values()))
    assert first.rows == int(first.valid_BM.sum()) < first.valid_BM.numel()
    assert not first.x_BMTJC[~first.valid_BM].any()


@pytest.fixture
def seven(monkeypatch):
    """A skeleton of seven joints that a user's file announces."""
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", str(Path(__file__).parents[1] / "seven.py"))
    return SEVEN


def test_another_skeleton_trains(name, seven, trainer, data_root):
    """Nothing but the topology says how many joints there are and which belong together."""
    write_small_store(data_root, "seven", topology=seven)
    training = trainer(name, dataset="seven")
    losses = [float(training.train_step(step, training.views(step))["loss"]) for step in range(2)]
    assert all(math.isfinite(loss) for loss in losses)
    assert training.method.inference_encoder()(next(iter(training.views(0).values()))).tokens_RND.shape[1] == 4 * 7


SETTINGS = [{"native": True}, {"train.precision": "bf16"}, *({"tokens": tokens} for tokens in (8, 15, 30))]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_setting_trains(name, settings, trainer):
    training = trainer(name, **settings)
    assert "tokens" not in settings or training.spec.tokens == settings["tokens"]
    steps = 3 if "train.precision" in settings else 1
    losses = [float(training.train_step(step, training.views(step))["loss"]) for step in range(steps)]
    assert all(math.isfinite(loss) for loss in losses)


def test_the_encoder_treats_bodies_one_by_one(name, trainer):
    training = trainer(name)
    encoder = training.method.inference_encoder().eval()
    x_BMTJC = torch.randn(5, 1, 32, 25, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = encoder(View.of(x_BMTJC)).pooled_RD
        alone = torch.cat([encoder(View.of(x[None])).pooled_RD for x in x_BMTJC])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_the_same_seed_gives_the_same_loss_and_another_seed_another(name, trainer):
    def early_loss(seed):  # the second step's: the first has no earlier clips to tell its own from
        training = trainer(name, seed=seed)
        return [float(training.train_step(step, training.views(step))["loss"]) for step in range(2)][1]

    assert early_loss(0) == early_loss(0) != early_loss(1)


def test_the_step_can_be_counted_on_shapes_alone(name, resolved, host):
    from skelbench.cost.report import step_cost

    made = resolved(name)
    cost = step_cost(made.spec, host, made.store.topology)
    assert cost["device"] == "meta" and cost["flops_per_clip"] > 0
    assert cost["by_role"]["student"]["backward"] > cost["by_role"]["student"]["forward"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_step_agrees_with_the_cpu(name, trainer):
    """Same clips, draws and weights: the losses of the first steps agree to float32 rounding."""

    def losses(device):
        training = trainer(name, device=device)
        return [float(training.train_step(step, training.views(step))["loss"]) for step in range(3)]

    assert losses("cuda") == pytest.approx(losses("cpu"), rel=1e-3)
