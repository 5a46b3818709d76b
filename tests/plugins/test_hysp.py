"""HYSP against numbers of the public code, and its checkpoints."""

import official_graph
import official_hysp
import pytest
import torch
from skelbench_plugins.hysp import HYSP, HYSPConfig, imported
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Step
from skelbench.methods.contract import Context
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

EUCLIDEAN, HYPERBOLIC = 1.797658, 7.584373
GOLDEN = {
    2: (EUCLIDEAN, 56.4852275, 4.2270382, 1.1234695),
    6: ((EUCLIDEAN + HYPERBOLIC) / 2, 136.9333952, 11.6443013, 1.7213821),
    10: (HYPERBOLIC, 219.9553797, 19.9399493, 2.9751729),
}
"""By the step, of 16 with a ramp from 2 to 10: loss, and gradient norms of the first temporal convolution, of the
projector's first and the predictor's last layer, of paolomandica/HYSP (commit 7aa7bc0), src/net/hysp.py with
lambda_hyper 0, 0.5 and 1, in training mode without dropout and in float64, on clips 0 (x) and 1 (y)."""


def make(**settings):
    grid, encoder = Grid(16, 1, 25), STGCNConfig(base=official_hysp.BASE, out=official_hysp.OUT, dropout=0.0)
    config = HYSPConfig(head_hidden=official_hysp.HIDDEN, ramp_from=2 / 16, ramp=8 / 16, **{"capped": True} | settings)
    return HYSP(config, Context(NTU25, grid, lambda: STGCN(encoder, NTU25, grid), official_hysp.OUT, official_hysp.OUT))


def step_at(index, of=16):
    return Step(index, of, 0.0, torch.Generator(), lambda *_: None)


def views():
    return {name: View.of(official_graph.clips(k).double()) for k, name in enumerate(("strong", "normal"))}


def public(**settings):
    method = make(**settings)
    assert fit(method, imported(official_hysp.state(), {}).weights, "official_hysp.state")
    return method.double()


@pytest.mark.parametrize("index", GOLDEN)
def test_the_step_equals_the_public_code(index):
    method = public()
    out = method(views(), step_at(index))
    out["loss"].backward()
    layers = method.encoder.blocks[0].time[2], method.projector[0], method.predictor[3]
    found = [float(out["loss"].detach()), *(float(layer.weight.grad.norm()) for layer in layers)]
    assert found == pytest.approx(GOLDEN[index], rel=1e-6)
    assert [float(out[name].detach()) for name in ("euclidean", "hyperbolic", "radius")] == pytest.approx(
        [EUCLIDEAN, HYPERBOLIC, float(out["radius"].detach())], rel=1e-6
    )
    assert 0 < float(out["radius"].detach()) < 1


def test_a_checkpoint_of_the_probe_has_only_the_encoder():
    state = {name: x for name, x in official_hysp.state().items() if "target" not in name and "predictor" not in name}
    found = imported(state, {})
    assert found.settings == {"encoder.base": 4, "encoder.out": 12, "encoder.kernel": 9}
    assert found.weights and all(name.startswith("encoder.") for name in found.weights)
    assert found.leftover and all(name.startswith("online_projector.") for name in found.leftover)
    with pytest.raises(SkelbenchError, match="tensor 'queue' belongs to another model"):
        imported(state | {"model.queue": torch.zeros(1)}, {})
