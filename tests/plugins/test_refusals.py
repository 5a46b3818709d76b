"""Settings that mean nothing are refused in one sentence, before anything runs."""

import pytest

from skelbench.core.errors import SkelbenchError

REFUSED = [
    *(
        (method, {"mask_ratio": 0.999}, "0.999 of 100 tokens leaves none visible")
        for method in ("mamp", "gfp", "sjepa")
    ),
    *(("sjepa", {name: 0}, name) for name in ("crop_frames", "decoder_dim", "decoder_depth", "decoder_heads")),
    *(("gfp", {"windows": windows}, "windows") for windows in ((3, 6), (2, 0), ())),
    *(("amr", {"windows": windows}, "windows") for windows in ((), (0, 4))),
    *((method, {"motion_stride": 32}, "motion over 32 frames, of clips of 32, is none") for method in ("mamp", "gfp")),
    *((method, {"momentum": 1.5}, "momentum") for method in ("sjepa", "slim", "dino")),
    ("slim", {"koleo": -1.0}, "koleo"),
    ("amr", {"query_frames": 0}, "query_frames"),
    ("amr", {"focal_k": -1.0}, "focal_k"),
    ("cmd", {"queue": 25}, "queue of 25 keys, which the 24 clips that this run sees never fill"),
    *(
        (method, {"queue": 25}, "queue of 25 keys, which the 24 clips that this run sees never fill")
        for method in ("actclr", "crosclr", "rvtclr")
    ),
    ("halp", {"queue": 9}, "queue of 9 keys, which the 24 clips that this run sees do not fill 3 times"),
    ("igm", {"queue": 25}, "queue of 25 keys, which the 24 clips that this run sees never fill"),
    ("gl-transformer", {"intervals": ()}, "intervals"),
    ("gl-transformer", {"intervals": (0, 5)}, "intervals"),
    ("skeletonclr", {"queue": 25}, "queue of 25 keys, which the 24 clips that this run sees never fill"),
    ("cpm", {"queue": 25}, "queue of 25 keys, which the 24 clips that this run sees never fill"),
    ("hysp", {"ramp": 0.0}, "ramp"),
]


@pytest.mark.parametrize(("method", "settings", "message"), REFUSED)
def test_refused(method, settings, message, resolved):
    with pytest.raises(SkelbenchError, match=message) as error:
        resolved(method, **settings)
    assert "\n" not in str(error.value)
