"""When a shortcut is concluded, that only what the objective asks for is judged, and that a run says and records it."""

import pytest

from skelbench.pipeline.pretrain import pretrain
from skelbench.training.anomalies import Shortcut, describe
from skelbench.training.build import rotates_bodies

TOTAL = 9


def line(step, **figures):
    return {"step": step, "epoch": step / 10, "loss": 1.0, **figures}


def told(name="cl", **parts):
    return {f"{part}_information_{name}": value for part, value in parts.items()}


def follow(lines, clips=16, turned=True):
    shortcut = Shortcut(clips, TOTAL, turned)
    changes = [shortcut.check(line(step, **figures)) for step, figures in enumerate(lines, 1)]
    return shortcut.found, changes


def test_prototypes_that_tell_the_slot_alone_are_a_shortcut():
    """What was measured of SLiM's class tokens: 0.323 of 0.327 nats say which body."""
    healthy, only_slot = told(view=0.0, slot=0.27, clip=0.32), told(view=0.0, slot=0.323, clip=0.004)
    found, changes = follow([healthy] * 2 + [only_slot] * 5 + [healthy] * 2)
    assert [len(change) for change in changes] == [0] * 5 + [1, 0, 0, 1]  # the last five looks are asked together
    assert [(one["what"], one["step"], one["until"]) for one in found] == [("cl", 6, 9)]
    assert "18% of their information is about the clip since step 6 until step 9" in describe(found[0])


@pytest.mark.parametrize(
    ("figures", "names"),
    [
        (told(slot=0.3, clip=0.001) | told("mfp", place=1.0, view=0.1, slot=0.1, clip=1.0), ["cl"]),
        (told(view=0.0, slot=0.0, clip=0.4), []),  # a batch without second bodies
        (told(view=0.0, slot=0.01, clip=0.0), []),  # nothing is told at all: a collapse, if it is one
    ],
)
def test_what_prototypes_tell_is_judged_by_its_sum(figures, names):
    assert [found["what"] for found in follow([figures] * 5)[0]] == names


MATCHED, HIDDEN = told(view=0.0, slot=0.2, clip=0.3), told("mfp", place=0.1, view=0.0, slot=0.2, clip=0.3)


@pytest.mark.parametrize(
    ("first", "last", "prototypes", "turned", "expected"),
    [
        (1.05, 1.03, MATCHED, True, 0.981),
        (0.64, 0.28, MATCHED, True, None),
        (1.05, 1.03, MATCHED, False, None),  # its views are not turned
        (1.05, 1.03, HIDDEN, True, None),  # predicts hidden tokens of one view, nothing across views
        (0.3, 0.3, MATCHED, True, None),  # went on from one that had learnt it
    ],
)
def test_turns_are_judged_where_the_objective_asks_for_it(first, last, prototypes, turned, expected):
    lines = [dict(prototypes) for _ in range(TOTAL)]
    lines[0] |= {} if first is None else {"rotation_cls": first, "rotation_pooled": 9.0}
    lines[4] |= {"rotation_cls": last}  # in the middle nothing is concluded
    lines[-1] |= {"rotation_cls": last, "rotation_pooled": 9.0}
    found, changes = follow(lines, turned=turned)
    assert not any(changes[:-1])
    assert [(one["what"], one["step"], one["value"]) for one in found] == (
        [("cls", TOTAL, expected)] if expected else []
    )
    if expected:
        assert "class token" in describe(found[0]) and "ratio 0.98" in describe(found[0])


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [("slim", {}, True), ("slim", {"rotation": "limited"}, False), ("mamp", {}, False)],
)
def test_views_that_are_turned_by_any_angle(method, settings, expected, resolved):
    assert rotates_bodies(resolved(method, **settings).spec) == expected


STILL = {"mfp_weight": 0.0, "local_counts": [0, 0, 0], "train.lr": 1e-12, "schedule.min_lr": 0.0, "momentum": 1.0}
"""The contrastive branch learns nothing, so neither what a turn is."""


def test_a_run_says_and_records_it(resolved, noting, capsys):
    session, said = noting
    made = resolved("slim", epochs=6, batch_size=12, **STILL)
    run = pretrain(session, made)
    (found,) = (one for one in run.info["shortcut"] if one["what"] == "cls")
    assert found["step"] == 6 and found["value"] == pytest.approx(1, abs=1e-3)
    assert any(f"shortcut: {describe(found)}" in note for note in said)

    from skelbench.cli.summary import print_summary

    print_summary([(run, {})], None, made, session.data_root)
    assert f"shortcut: {describe(found)}" in " ".join(capsys.readouterr().out.split())
