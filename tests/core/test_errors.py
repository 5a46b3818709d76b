"""The name that was probably meant, or none: a wrong guess is worse than a list."""

import pytest

from skelbench.core.errors import did_you_mean, nearest

SETTINGS = ("encoder.temporal", "encoder.dim", "method.teacher_temp", "method.prototypes", "train.lr", "train.epochs")
PRESETS = ("paper", "ablation", "small", "quick")


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("tiny", PRESETS, None),
        ("medium", PRESETS, None),
        ("smal", PRESETS, "small"),
        ("papre", PRESETS, "paper"),
        ("QUICK", PRESETS, "quick"),
        ("temperatur", SETTINGS, None),
        ("temporel", SETTINGS, "encoder.temporal"),
        ("teacher-tmp", SETTINGS, "method.teacher_temp"),
        ("lrr", SETTINGS, "train.lr"),
        ("trian.lr", SETTINGS, "train.lr"),
        ("model.dim", SETTINGS, "encoder.dim"),
        ("x", SETTINGS, None),
        ("epoch", SETTINGS, "train.epochs"),
        ("plugn:slim", ("slim", "dino"), "slim"),
        ("slim:gclc-only", ("slim", "slim:glcl-only"), "slim:glcl-only"),
        ("ntu", ("ntu60", "ntu120", "synthetic"), "ntu60"),
        ("", PRESETS, None),
        ("tiny", (), None),
    ],
)
def test_the_nearest_name_is_a_slip_or_a_beginning(typed, known, meant):
    assert nearest(typed, known) == meant


def test_where_none_is_near_all_are_named_unless_they_are_many():
    assert did_you_mean("tiny", PRESETS, "preset") == ("unknown preset 'tiny'; known: ablation, paper, quick, small.")
    many = did_you_mean("zzzz", [f"a{k:03d}" for k in range(300)], "run")
    assert many.endswith("a018, a019, ... (300 in all).") and "a020" not in many
    assert did_you_mean("zzzz", ["a"], "run", "see the list") == "unknown run 'zzzz'; see the list"
