"""Every part that ships passes the checks of its kind."""

from functools import partial

import pytest

from skelbench.data.synthetic import dataset
from skelbench.plugin.host import Host
from skelbench.testing import run_checks
from skelbench.testing.kinds import KITS, kit

HOST = Host()
KINDS = [kind for kind in KITS if kind not in ("methods", "datasets")]
SHORT = {"val_share": 0.0, "epochs": 4}
TUNED = {"val_share": 0.0, "epochs": 12, "min_steps": 12, "lr": 3e-3}
SETTINGS = {
    ("protocols", "linear"): SHORT | {"min_steps": 60, "tolerance": None},
    **{("protocols", f"linear@{name}"): SHORT for name in ("mamp", "macdiff", "cmd")},
    **{("protocols", f"linear@{name}"): SHORT | {"epochs": 10} for name in ("aimclr", "umurl")},
    **{("protocols", name): TUNED for name in ("finetune", "supervised", "transfer@finetune", "finetune@mamp")},
    **{("protocols", f"semi@{name}"): TUNED | {"draws": 2} for name in ("1", "10")},
    **{
        ("protocols", f"semi@{share}@{source}"): TUNED | {"draws": 2, "label_share": 0.5}
        for share in ("1", "10")
        for source in ("mamp", "cmd", "aimclr")
    },
    ("encoders", "bigru"): {"hidden": 8, "depth": 1},
    ("encoders", "dste"): {"dim": 8},
    ("encoders", "stgcn"): {"base": 2, "out": 8},
}
"""What makes the slow ones fast."""
VARIANTS = [
    ("encoders", "vit", {"cls": False, "temporal": "learned"}),
    ("encoders", "two-branch", {"fused": True}),
    ("masks", "tube", {"spans": "ordered", "stop": "printed"}),
    ("masks", "random-tokens", {"lo": 0.2, "hi": 0.6}),
]
"""Other settings of what takes other paths with them."""
SHIPPED = [(kind, name, SETTINGS.get((kind, name), {})) for kind in KINDS for name in HOST.names(kind)] + VARIANTS


def bad(subject, checks):
    return [
        f"{result.name}: {result.sentence}\n{result.traceback}"
        for result in run_checks(checks, subject, {})
        if result.bad
    ]


@pytest.mark.parametrize(("kind", "name", "settings"), SHIPPED, ids=[f"{kind}-{name}" for kind, name, _ in SHIPPED])
def test_a_shipped_part_passes_the_checks_of_its_kind(kind, name, settings):
    subject, checks = kit(kind, HOST, HOST.get(kind, name))
    if settings:
        subject.settings = settings
    assert not bad(subject, checks)


def test_the_shipped_data_set_passes(tmp_path, monkeypatch):
    small = partial(dataset.generate, subjects=(1, 2), repetitions=1)
    monkeypatch.setattr(dataset, "generate", small)
    subject, checks = kit("datasets", HOST, HOST.get("datasets", "synthetic"))
    subject.root = tmp_path
    assert not bad(subject, checks)
