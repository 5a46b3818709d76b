"""Every shipped part passes the checks of its kind."""

from functools import partial

import pytest

from skelbench.data.synthetic import dataset
from skelbench.plugin.host import Host
from skelbench.testing import run_checks
from skelbench.testing.thing import KITS, kit

HOST = Host()
KINDS = [kind for kind in KITS if kind not in ("methods", "datasets")]
SHORT = {"val_share": 0.0, "epochs": 4}
BRIEF = SHORT | {"min_steps": 60, "tolerance": None}
TUNED = {"val_share": 0.0, "epochs": 10, "min_steps": 0, "batch_size": 12, "lr": 1e-2}
FEW = TUNED | {"epochs": 12, "draws": 2}
NATIVE = TUNED | {"epochs": 8, "lr": 5e-3, "head_hidden": 64}
MOST = NATIVE | {"draws": 1, "label_share": 0.9, "optimizer": "adamw"}
HALF = MOST | {"label_share": 0.5, "lr": 2e-3, "epochs": 16}
SETTINGS = {
    **{("protocols", name): BRIEF for name in ("linear", "transfer")},
    ("protocols", "robustness"): BRIEF | {"missing": [0.2], "noise": [0.05], "draws": [0]},
    ("protocols", "missing-representation"): BRIEF | {"missing": [0.2], "draws": [0]},
    ("protocols", "linear-swept"): {"lrs": [1e-3, 1e-2], "weight_decays": [0.1], "epochs": 4, "min_steps": 60},
    **{
        ("protocols", f"linear@{name}"): SHORT | {"epochs": 10}
        for name in ("aimclr", "gl-transformer", "hico", "hysp", "umurl")
    },
    **{("protocols", f"linear@{name}"): SHORT for name in ("mamp", "macdiff", "cmd", "isc")},
    **{("protocols", name): TUNED for name in ("finetune", "supervised", "transfer@finetune")},
    ("protocols", "finetune@mamp"): NATIVE,
    **{("protocols", f"semi@{share}"): FEW for share in (1, 10)},
    **{("protocols", f"semi@{share}@{source}"): MOST for share in (1, 10) for source in ("mamp", "cmd")},
    **{("protocols", f"semi@{share}@aimclr"): HALF for share in (1, 10)},
    **{("protocols", f"semi@{share}@hysp"): HALF | {"head_lr": 10.0, "head_hidden": 0} for share in (1, 10)},
    ("encoders", "bigru"): {"hidden": 8, "depth": 1},
    ("encoders", "dste"): {"dim": 8},
    ("encoders", "glt"): {"dim": 4, "heads": 2},
    ("encoders", "hico"): {"dim": 8, "heads": 2},
    ("encoders", "scd-net"): {"dim": 8, "channels": 8},
    ("encoders", "agcn"): {"base": 4},
    ("encoders", "hcn"): {"channels": 4, "image": 16},
    ("encoders", "stgcn"): {"base": 2, "out": 8},
}
"""Settings that make slow parts fast."""
VARIANTS = [
    ("encoders", "vit", {"cls": False, "temporal": "learned"}),
    ("encoders", "two-branch", {"fused": True}),
    ("masks", "tube", {"spans": "ordered", "stop": "printed"}),
    ("masks", "random-tokens", {"lo": 0.2, "hi": 0.6}),
]
"""Settings with which parts take other paths."""
SHIPPED = [(kind, name, SETTINGS.get((kind, name), {})) for kind in KINDS for name in HOST.names(kind)] + VARIANTS


def bad(subject, checks):
    return [
        f"{result.name}: {result.sentence}\n{result.traceback}" for result in run_checks(checks, subject) if result.bad
    ]


@pytest.mark.parametrize(("kind", "name", "settings"), SHIPPED, ids=[f"{kind}-{name}" for kind, name, _ in SHIPPED])
def test_a_shipped_part_passes_the_checks_of_its_kind(kind, name, settings):
    subject, checks = kit(kind, HOST, HOST.get(kind, name))
    if settings:
        subject.settings = settings
    if "semi@1" in (name, name.rpartition("@")[0]):  # with one fraction of labels it is semi@10
        checks = [check for check in checks if check.name in ("form", "result")]
    assert not bad(subject, checks)


def test_the_shipped_data_set_passes(tmp_path, monkeypatch):
    small = partial(dataset.generate, subjects=(1, 2), repetitions=1)
    monkeypatch.setattr(dataset, "generate", small)
    subject, checks = kit("datasets", HOST, HOST.get("datasets", "synthetic"))
    subject.root = tmp_path
    assert not bad(subject, checks)
