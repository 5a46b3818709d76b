"""Information of prototypes, part by part: known answers, and the parts of a view's rows or masked tokens."""

import math

import pytest
import torch

from skelbench.models.information import samples_of, split_information
from skelbench.models.prototype_objective import PrototypeObjective
from skelbench.views.view import View

CLIPS, BODIES, TOKENS = 8, 2, 5


def view_of(count=2, masked=False):
    """Both bodies of eight clips, in ``count`` views."""
    rows = count * CLIPS * BODIES
    mask_RN = torch.ones(rows, TOKENS, dtype=torch.bool) if masked else None
    return View(
        x_RTJC=torch.zeros(rows, 1, 1, 3),
        rows_R=torch.arange(rows),
        clips=CLIPS,
        bodies=BODIES,
        count=count,
        mask_RN=mask_RN,
        masked_I=mask_RN.flatten().nonzero()[:, 0] if masked else None,
    )


def told(prototype_n, view):
    """Parts of one-hot assignments to ``prototype_n``."""
    q_nK = torch.nn.functional.one_hot(prototype_n).float()
    chosen_n, parts = samples_of(view, len(q_nK), 1024)
    return {name: float(value) for name, value in split_information(q_nK[chosen_n], parts).items()}


@pytest.mark.parametrize(
    ("prototype", "expected"),
    [
        (lambda view, clip, slot: slot, {"slot": math.log(2)}),
        (lambda view, clip, slot: view, {"view": math.log(2)}),
        (lambda view, clip, slot: clip, {"clip": math.log(CLIPS)}),
        (lambda view, clip, slot: 2 * clip + slot, {"slot": math.log(2), "clip": math.log(CLIPS)}),
        (lambda view, clip, slot: 2 * slot + view, {"view": math.log(2), "slot": math.log(2)}),
        (lambda view, clip, slot: 0 * clip, {}),
    ],
)
def test_information_is_split_into_parts_and_clip(prototype, expected):
    view = view_of()
    slot_R, clip_R = view.rows_R % BODIES, view.clip_R
    found = told(prototype(view.rows_R // (CLIPS * BODIES), clip_R, slot_R), view)
    assert found == pytest.approx(dict.fromkeys(("view", "slot", "clip"), 0.0) | expected, abs=1e-6)


def test_masked_tokens_are_compared_at_the_same_position():
    view = view_of(masked=True)
    place_I, row_I = view.masked_I % TOKENS, view.masked_I // TOKENS
    assert told(place_I, view) == pytest.approx({"place": math.log(TOKENS), "view": 0, "slot": 0, "clip": 0}, abs=1e-6)
    assert told(view.clip_R[row_I], view) == pytest.approx(
        {"place": 0, "view": 0, "slot": 0, "clip": math.log(CLIPS)}, abs=1e-6
    )


def test_an_objective_reports_its_last_step():
    """Eight prototypes, one for each clip."""
    view, W = view_of(), torch.eye(CLIPS)
    z, objective = W[view.clip_R], PrototypeObjective(CLIPS, "none")
    objective(z, W, z, W, torch.ones(len(z)), 0.01)
    figures = objective.figures(view)
    assert objective.figures().keys() == {"teacher_entropy", "prototypes_used"} == figures.keys() - {
        "view_information", "slot_information", "clip_information",
    }  # fmt: skip
    assert float(figures["clip_information"]) == pytest.approx(math.log(CLIPS), abs=1e-4)
