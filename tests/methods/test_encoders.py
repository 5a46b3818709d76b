"""Encoders say what they can do, methods what they require: whatever fits runs, the rest is refused in one sentence."""

import math

import pytest
from small import TINY_METHOD

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host

POINTS = """
from torch import nn
from skelbench.models.encoder import Encoded, Encoder
from skelbench.plugin import EncoderSpec, hookimpl


class Points(Encoder):
    '''The mean pose and nothing to set; its layers are built from a number that is looked up in a tensor.'''

    abilities = frozenset({"short-views"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        import torch

        self.width, self.features = 5, int(torch.tensor([3, 12]).max())
        self.tokens = nn.Linear(3 * topology.num_joints, self.width)
        self.readout = nn.Linear(self.width, self.features)

    def forward(self, view, mask_RN=None, keep_RK=None):
        tokens_RTD = self.tokens(view.x_RTJC.flatten(2))
        return Encoded(tokens_RND=tokens_RTD, pooled_RD=self.readout(tokens_RTD.mean(1)))


@hookimpl
def skelbench_encoders():
    return [EncoderSpec(name="points", target=":Points")]
"""


@pytest.fixture
def host(tmp_path):
    (tmp_path / "points.py").write_text(POINTS)
    return Host([tmp_path / "points.py"])


@pytest.fixture
def made(data_root, host):
    def make(method, encoder, host=host):
        sets = {f"method.{key}": value for key, value in TINY_METHOD.get(method, {}).items()} | {"encoder": encoder}
        shape = {"clip_length": 32, "patch": 8, "epochs": 1, "batch_size": 4}
        return resolve(
            Request(method=method, dataset="small", preset="quick", sets=sets, **shape), host, data_root, "cpu"
        )

    return make


@pytest.mark.parametrize("encoder", ["stgcn", "points"])
@pytest.mark.parametrize("method", ["untrained", "dino"])
def test_what_asks_for_a_summary_runs_on_any_encoder(method, encoder, made, session):
    run = pretrain(session, made(method, encoder))
    record = evaluate(session, run, eval_spec(session.host, run, "knn"))
    assert run.outcome == "done" and math.isfinite(record["metrics"]["accuracy"])


@pytest.mark.parametrize(
    ("method", "ability"), [("slim", "replace-tokens"), ("ibot", "replace-tokens"), ("mamp", "drop-tokens")]
)
def test_an_encoder_that_cannot_is_refused_by_what_it_lacks(method, ability, made):
    with pytest.raises(
        SkelbenchError, match=rf"method {method} needs an encoder that can .*\({ability}\), which stgcn"
    ):
        made(method, "stgcn")


def test_an_ability_that_nobody_knows_is_a_slip(made, tmp_path):
    (tmp_path / "slip.py").write_text(POINTS.replace('"short-views"', '"short-view"'))
    with pytest.raises(
        SkelbenchError, match=r"slip.py:7, Points: abilities: .*'short-view'; did you mean 'short-views'"
    ):
        made("untrained", "points", Host([tmp_path / "slip.py"]))
