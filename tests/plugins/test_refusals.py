"""Settings that make no sense are errors before anything runs: one case per kind of mistake."""

import pytest

from skelbench.core.errors import SkelbenchError

REFUSED = [
    ("mamp", {"mask_ratio": 0.999}, "leaves none of"),
    ("gfp", {"windows": (3, 6)}, "windows"),
    ("gfp", {"motion_stride": 32}, "motion over 32 frames"),
    ("sjepa", {"momentum": 1.5}, "momentum"),
    ("sjepa", {"decoder_dim": 0}, "decoder_dim"),
    ("slim", {"glcl_weight": 0.0, "mfp_weight": 0.0}, "nothing is left to learn"),
    ("amr", {"windows": ()}, "windows"),
    ("gl-transformer", {"intervals": (0, 5)}, "intervals"),
    ("hysp", {"ramp": 0.0}, "ramp"),
    ("longt-gan", {"hidden_min": 0.6}, "hidden_min 0.6 is above hidden_max"),
    ("pclust", {"decoder": "fixed-weights", "target": "same"}, "target is for decoder=fixed-state"),
    ("pcm3", {"hide": 0.05}, "hides 0 of the 5 body parts"),
    ("pstl", {"mask_frames": 0.01}, "twice 0 of 4 patches"),
    ("pstl", {"mask_joints": 0.999}, "25 of 25 joints"),
    ("skeattnclr", {"heads": 3}, "does not divide the encoder's width"),
    ("hico", {"native": True, "granularities": 3}, "but the encoder has 4"),
    ("isc", {"partner": "agnc"}, "did you mean 'agcn'"),
    ("isc", {"partner_settings": {"base": 4}}, "partner=agcn"),
    ("macdiff", {"native": True, "mean": (0.1, 0.2, 0.3)}, "do not agree with method.mean and variance"),
    ("umurl", {"fusion": "early"}, "as one input"),
    ("umurl", {"batch_size": 1}, "batch_size=1"),
    *((method, {"queue": 25}, "to fill it") for method in ("skeletonclr", "crosclr", "hico", "igm")),
    ("halp", {"queue": 9}, "needs 27 clips to fill it"),
    ("halp", {"clusters": 20}, "20 clusters of 4 keys"),
]


@pytest.mark.parametrize(("method", "settings", "message"), REFUSED)
def test_contradictory_method_settings_are_rejected(method, settings, message, resolved):
    with pytest.raises(SkelbenchError, match=message) as error:
        resolved(method, **settings)
    assert "\n" not in str(error.value)
