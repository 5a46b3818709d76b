"""Turned clips and second bodies: known answers, what is looked at and when, that a look changes nothing."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from skelbench.models.encoder import Encoded, Encoder
from skelbench.training.diagnostics import Diagnostics
from skelbench.training.fixed_clips import FixedClips, sensitivity, slot_share


class _Made(Encoder):
    """What ``readout(x_RTJC)`` makes of coordinates, through dropout and a norm that remembers batches."""

    def __init__(self, readout, per_clip=False):
        super().__init__(None, None, None)
        self.readout, self.per_clip = readout, per_clip
        self.norm, self.dropout = nn.BatchNorm1d(1), nn.Dropout()

    def forward(self, view):
        x_RD = self.dropout(self.readout(view.x_BMTJC[:, 0] if self.per_clip else view.x_RTJC).flatten(1))
        self.norm(x_RD[:, :1])
        self.width = self.features = x_RD.shape[1]
        return Encoded(tokens_RND=x_RD[:, None], pooled_RD=x_RD, per_clip=self.per_clip)


def of_height(x_RTJC):
    return x_RTJC[..., 1].flatten(1)


@pytest.fixture
def fixed(trainer):
    return trainer("mamp", epochs=1).diagnostics.fixed


def test_a_turn_changes_no_invariant_feature_and_the_coordinates_as_much_as_they_turn(fixed):
    invariant = fixed.figures(_Made(of_height))
    assert invariant["rotation_pooled"] == pytest.approx(0, abs=1e-9)
    plain = fixed.figures(_Made(lambda x: x))
    first = fixed.view.rows_R % fixed.view.bodies == 0
    x, y = (view.x_RTJC[first].flatten(1).double() for view in (fixed.view, fixed.turned))
    pairs = torch.cdist(x, x).square()
    expected = (y - x).square().sum(1).mean() / (pairs.sum() / (len(x) * (len(x) - 1)))
    assert plain["rotation_pooled"] == pytest.approx(float(expected)) and expected > 0.5
    assert torch.allclose(fixed.turned.x_RTJC.norm(dim=-1), fixed.view.x_RTJC.norm(dim=-1), atol=1e-5)


def test_sensitivity_is_one_where_a_turn_is_as_much_as_another_clip():
    x_nD = torch.randn(400, 8, generator=torch.Generator().manual_seed(0)) + 5
    assert sensitivity(x_nD, x_nD) == 0
    assert sensitivity(x_nD, x_nD.flip(0)) == pytest.approx(1, abs=0.1)
    assert sensitivity(torch.ones(9, 4), torch.zeros(9, 4)) is None


def test_slot_share_by_hand():
    """Clips 0 and 2 have two bodies; the lone body of clip 1 does not count."""
    rows_R = torch.tensor([0, 1, 2, 4, 5])

    def share(*values):
        return slot_share(torch.tensor(values)[:, None], rows_R, 2)

    assert share(0.0, 1.0, 9.0, 0.0, 1.0) == pytest.approx(1)
    assert share(1.0, 1.0, 9.0, 2.0, 2.0) == pytest.approx(0)
    assert share(0.0, 1.0, 9.0, 1.0, 2.0) == pytest.approx(0.5)
    assert share(3.0, 3.0, 9.0, 3.0, 3.0) is None
    assert slot_share(torch.eye(3), torch.tensor([0, 1, 2]), 2) is None  # a single clip with two bodies


def test_a_look_changes_nothing(fixed):
    encoder = _Made(of_height).train()
    encoder.dropout.eval()
    state, noise = {name: x.clone() for name, x in encoder.state_dict().items()}, torch.get_rng_state()
    fixed.figures(encoder)
    assert encoder.training and encoder.norm.training and not encoder.dropout.training
    assert torch.equal(torch.get_rng_state(), noise)
    assert all(torch.equal(x, state[name]) for name, x in encoder.state_dict().items())


def test_flat_poses_are_not_turned_and_a_few_clips_tell_nothing(trainer):
    training = trainer("mamp", epochs=1)
    few = FixedClips(training.spec, training.source, training.ids[:7])
    assert few.figures(_Made(of_height)) == {}
    flat = training.spec.model_copy(update={"data": training.spec.data.model_copy(update={"dimensions": 2})})
    figures = FixedClips(flat, training.source, training.ids).figures(_Made(of_height))
    assert figures.keys() == {"slot_share_pooled"}


@pytest.mark.parametrize(("often", "steps"), [(True, [1, 48, 100]), (False, [100])])
def test_fixed_clips_are_measured_at_the_start_in_the_middle_and_at_the_end_or_only_there(often, steps):
    diagnostics = Diagnostics(nn.Identity(), 100, 1, SimpleNamespace(often=often))
    assert [step for step in range(1, 101) if diagnostics.is_due(step) and diagnostics.measures_rotation(step)] == steps
    other_rank = Diagnostics(nn.Identity(), 100, 1)
    assert not any(other_rank.measures_rotation(step) for step in range(1, 101))
