"""The nearest name, or none: a wrong guess is worse than a list."""

import pytest

from skelbench.core.errors import did_you_mean, nearest

SETTINGS = ("encoder.temporal", "encoder.dim", "method.teacher_temp", "method.prototypes", "train.lr", "train.epochs")
PRESETS = ("paper", "ablation", "small", "quick")


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [
        ("tiny", PRESETS, None),
        ("papre", PRESETS, "paper"),
        ("QUICK", PRESETS, "quick"),
        ("temporel", SETTINGS, "encoder.temporal"),
        ("teacher-tmp", SETTINGS, "method.teacher_temp"),
        ("trian.lr", SETTINGS, "train.lr"),
        ("x", SETTINGS, None),
        ("slim:gclc-only", ("slim", "slim:glcl-only"), "slim:glcl-only"),
        ("", PRESETS, None),
    ],
)
def test_the_nearest_name(typed, known, meant):
    assert nearest(typed, known) == meant


def test_all_names_are_listed_if_none_is_near_unless_they_are_many():
    assert did_you_mean("tiny", PRESETS, "preset") == "unknown preset 'tiny'; known: ablation, paper, quick, small."
    assert did_you_mean("zzzz", [f"a{k:03d}" for k in range(300)], "run").endswith("a018, a019, ... (300 in all).")
