"""Every shipped part passes the checks of its kind."""

from functools import partial

import pytest

from skelbench.data.synthetic import dataset
from skelbench.plugin.host import Host
from skelbench.testing import run_checks
from skelbench.testing.thing import KITS, kit

HOST = Host()
KINDS = [kind for kind in KITS if kind not in ("methods", "datasets")]
BRIEF = {"val_share": 0.0, "epochs": 4, "min_steps": 60, "tolerance": None}
PROTOCOLS = {
    "knn": {},
    "linear": BRIEF,
    "transfer": BRIEF,
    "robustness": BRIEF | {"missing": [0.2], "noise": [0.05], "draws": [0]},
    "linear-swept": {"lrs": [1e-3, 1e-2], "weight_decays": [0.1], "epochs": 4, "min_steps": 60},
    "linear@mamp": {"val_share": 0.0, "epochs": 4},
}
"""Protocols of each kind and short settings for them; other protocols are checked for their form, fine-tuning in
tests/evaluation/test_finetune.py."""
ENCODERS = {
    "bigru": {"hidden": 8, "depth": 1},
    "dste": {"dim": 8},
    "glt": {"dim": 4, "heads": 2},
    "hico": {"dim": 8, "heads": 2},
    "scd-net": {"dim": 8, "channels": 8},
    "agcn": {"base": 4},
    "hcn": {"channels": 4, "image": 16},
    "stgcn": {"base": 2, "out": 8},
}
"""Sizes that make slow encoders fast."""
VARIANTS = [
    ("encoders", "vit", {"cls": False, "temporal": "learned"}),
    ("encoders", "two-branch", {"fused": True}),
    ("masks", "tube", {"spans": "ordered", "stop": "printed"}),
    ("masks", "random-tokens", {"lo": 0.2, "hi": 0.6}),
]
"""Settings with which parts take other paths."""
SHIPPED = [(kind, name, (PROTOCOLS | ENCODERS).get(name, {})) for kind in KINDS for name in HOST.names(kind)] + VARIANTS


def bad(subject, checks, only=()):
    results = run_checks(checks, subject, only=only)
    return [f"{result.name}: {result.message}\n{result.traceback}" for result in results if result.bad]


@pytest.mark.parametrize(("kind", "name", "settings"), SHIPPED, ids=[f"{kind}-{name}" for kind, name, _ in SHIPPED])
def test_a_shipped_part_passes_the_checks_of_its_kind(kind, name, settings):
    subject, checks = kit(kind, HOST, HOST.get(kind, name))
    if settings:
        subject.settings = settings
    assert not bad(subject, checks, ["form"] if kind == "protocols" and name not in PROTOCOLS else [])


def test_the_shipped_dataset_passes(tmp_path, monkeypatch):
    small = partial(dataset.generate, subjects=(1, 2), repetitions=1)
    monkeypatch.setattr(dataset, "generate", small)
    subject, checks = kit("datasets", HOST, HOST.get("datasets", "synthetic"))
    subject.root = tmp_path
    assert not bad(subject, checks)
