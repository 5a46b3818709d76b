"""When a shortcut is concluded, that only what the objective asks for is judged, and that a run says and records it."""

import pytest

from skelbench.pipeline.pretrain import pretrain
from skelbench.training import anomalies
from skelbench.training.anomalies import Shortcut, describe


def line(step, **figures):
    return {"step": step, "epoch": step / 10, "loss": 1.0, **figures}


def told(name="cl", **parts):
    return {f"{part}_information_{name}": value for part, value in parts.items()}


def follow(lines):
    shortcut = Shortcut(16)
    changes = [shortcut.check(line(step, **figures)) for step, figures in enumerate(lines, 1)]
    return shortcut.found, changes


def test_prototypes_that_encode_only_the_slot_are_a_shortcut():
    """Measured information of SLiM's class tokens: 0.323 of 0.327 nats are about the body."""
    healthy, only_slot = told(view=0.0, slot=0.27, clip=0.32), told(view=0.0, slot=0.323, clip=0.004)
    found, changes = follow([healthy] * 2 + [only_slot] * 5 + [healthy] * 2)
    assert [len(change) for change in changes] == [0] * 5 + [1, 0, 0, 1]  # the last five looks are asked together
    assert [(one["what"], one["step"], one["until"]) for one in found] == [("cl", 6, 9)]
    assert describe(found[0]).startswith("only 18% of the information in the prototypes of class tokens is about")
    assert describe(found[0]).endswith("since step 6 until step 9")


@pytest.mark.parametrize(
    ("figures", "names"),
    [
        (told(slot=0.3, clip=0.001) | told("mfp", place=1.0, view=0.1, slot=0.1, clip=1.0), ["cl"]),
        (told(view=0.0, slot=0.0, clip=0.4), []),  # a batch without second bodies
        (told(view=0.0, slot=0.01, clip=0.0), []),  # no information at all: a collapse, if anything
    ],
)
def test_information_of_prototypes_is_checked_by_its_sum(figures, names):
    assert [found["what"] for found in follow([figures] * 5)[0]] == names


def test_a_very_short_run_is_not_checked():
    assert follow([told(slot=0.3, clip=0.001)] * 4) == ([], [[]] * 4)


def test_a_run_reports_and_records_the_shortcut(resolved, noting, capsys, monkeypatch):
    monkeypatch.setattr(anomalies, "CLIP_FRACTION", 1.1)  # everything is a shortcut
    session, said = noting
    made = resolved("slim", epochs=6, batch_size=12)
    run = pretrain(session, made)
    found = run.info["shortcut"][0]
    assert found["step"] == 5
    assert any(f"shortcut: {describe(found)}" in note for note in said)

    from skelbench.cli.summary import print_summary

    print_summary([(run, {})], None, made)
    assert f"shortcut: {describe(found)}" in " ".join(capsys.readouterr().out.split())
