"""Views of contrastive methods: augmentations, streams and phases of the published settings."""

import pytest

from skelbench.training.build import build_method

EXTREME = ["shear", "mirror", "axis-rotate", "noise", "blur", "axis-drop"]
HIDING = ["axis-rotate", "mirror", "shear", "hide-joints", "hide-frames"]
AUGMENTATIONS = {
    "aimclr": {"query": ["shear"], "key": ["shear"], "strong": EXTREME},
    "hysp": {"normal": ["shear"], "strong": [*EXTREME, "time-flip"]},
    "rvtclr": {"query": ["shear", "noise", "blur", "axis-drop"], "key": ["shear"], "whole": ["shear"]},
    "actclr": {"strong-all": [*EXTREME, "pace", "bone-scale"], "plain": []},
    "crosclr": {"query-joint": ["shear"], "query-motion": [], "key-joint": ["shear"], "key-bone": []},
    "scd-net": {"query": HIDING, "key": HIDING},
}
PHASES = {
    "aimclr": [("contrast", 0.0), ("mining", 0.5)],
    "crosclr": [("alone", 0.0), ("mining", 0.5)],
    "cpm": [("similarity", 0.0), ("mining", 2 / 3)],
}


@pytest.mark.parametrize("method", AUGMENTATIONS)
def test_views_have_the_published_augmentations(method, resolved):
    views = resolved(method).spec.views
    found = {name: [op["kind"] for op in views[name]["augment"]] for name in AUGMENTATIONS[method]}
    assert found == AUGMENTATIONS[method]


def test_all_views_have_the_requested_stream(resolved):
    for method in ("aimclr", "hysp", "rvtclr"):
        assert {view["stream"] for view in resolved(method, stream="bone").spec.views.values()} == {"bone"}


@pytest.mark.parametrize("method", PHASES)
def test_mining_begins_late(method, resolved, host):
    made = resolved(method)
    assert build_method(made.spec, host, made.store.topology).phases() == PHASES[method]
