"""The shared setting in which methods are compared, and the native one of each."""

from functools import cache

import pytest
from small import METHODS, tiny, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.controls import control
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host

pytestmark = pytest.mark.usefixtures("shipped_plugins")  # which also announce parts of views

FAMILY = [name for name in METHODS if name != "slim"]
WITHOUT = ("slim", "dino", "ibot")
"""Methods without a setting of their own on skeletons: native is the shared one."""

GRAPH = "stgcn", 50, 300, "all-slots", "frames-as-released", "sgd", "step", 0.1, 1e-4
RECURRENT = "bigru", 50, 15, "first", "first-frame-hips", "adam", "step", 1e-4, 0.0
PUBLISHED = {
    "skeletonclr": GRAPH,
    "aimclr": GRAPH,
    "cmd": ("bigru", 64, 451, "valid", "first-frame-as-released", "sgd", "step", 0.01, 1e-4),
    "pstl": ("stgcn", 50, 150, "all-slots", "frames-as-released", "adam", "cosine", 5e-3, 1e-5),
    "skeattnclr": ("stgcn", 64, *GRAPH[2:]),
    "actclr": ("stgcn", 50, 350, *GRAPH[3:]),
    "crosclr": GRAPH,
    "rvtclr": (GRAPH[0], 100, *GRAPH[2:]),
    "hysp": ("stgcn", 50, 400, "all-slots", "frames-as-released", "sgd", "step", 0.2, 1e-4),
    "cpm": GRAPH,
    "gl-transformer": ("glt", 300, 120, "valid", "frames-with-path", "adamw", "exponential", 5e-5, 0.1),
    "hico": ("hico", 64, 451, "valid", "first-frame-as-released", "sgd", "step", 0.01, 1e-4),
    "scd-net": ("scd-net", 64, 451, "valid", "first-frame-as-released", "sgd", "step", 0.01, 1e-4),
    "isc": ("bigru", 64, 451, "valid", "first-frame-as-released", "sgd", "step", 0.01, 1e-4),
    "moco": ("bigru", 64, 200, "valid", "first-frame-as-released", "sgd", "step", 0.01, 1e-4),
    "halp": ("bigru", 64, 251, "valid", "first-frame-as-released", "sgd", "step", 0.01, 1e-4),
    "pcm3": ("bigru", 64, 451, "all-slots", "first-frame-as-released", "sgd", "step", 0.02, 1e-4),
    "usdrl": ("dste", 64, 451, "valid", "first-frame-shoulders", "adam", "step", 5e-4, 1e-5),
    "hsp": ("dste", 64, 451, "valid", "first-frame-shoulders", "adam", "step", 5e-4, 1e-5),
    "pclust": RECURRENT,
    "longt-gan": RECURRENT,
    "umurl": ("two-branch", 64, 451, "valid", "first-frame-shoulders", "adam", "step", 5e-4, 1e-5),
}
"""Settings of methods outside the masked family."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_small_store(root)
    host = Host()

    def make(method, preset="paper", **fields):
        encoder = host.get("methods", method).native.get("encoder", "vit") if fields.get("native") else "vit"
        sets = tiny(method, encoder) | fields.pop("sets", {})
        request = Request(method=method, dataset="small", preset=preset, sets=sets, **fields)
        return resolve(request, host, root, "cpu")

    def shared():
        """The run of slim, its untrained baseline, and the run of ``untrained``."""
        slim = make("slim", "quick")
        return slim, control(slim, host).spec, make("untrained", "quick").spec

    make.host, make.shared = host, cache(shared)
    return make


@pytest.mark.parametrize("name", FAMILY)
def test_the_shared_setting_is_equal_for_all_methods(name, made):
    """Same encoder, grid, bodies, data and budget; even the untrained control is one and the same run."""
    ours, (slim, baseline, untrained) = made(name, "quick"), made.shared()
    assert ours.setting == slim.setting == "shared"
    same = ("encoder", "grid", "data", "seed")
    assert {key: getattr(ours.spec, key) for key in same} == {key: getattr(slim.spec, key) for key in same}
    assert ours.spec.encoder_config == slim.spec.encoder_config
    for key in ("bodies", "center", "precision"):
        assert getattr(ours.spec.train, key) == getattr(slim.spec.train, key)
    seen = [made.spec.train.epochs * 12 for made in (ours, slim)]
    assert seen[0] == seen[1]
    assert {view["resize"] for view in ours.spec.views.values()} == {"ends"}
    assert control(ours, made.host).spec == baseline == untrained


@pytest.mark.parametrize("name", [name for name in METHODS if name not in {*WITHOUT, *PUBLISHED}])
def test_native_is_the_published_setting(name, made):
    native = made(name, native=True)
    assert native.setting == "native" and control(native, made.host).setting == "native"
    assert native.spec.encoder_config["temporal"] == "learned" and not native.spec.encoder_config["cls"]
    assert (native.spec.grid.frames, native.spec.grid.patch) == (120, 4)
    assert native.spec.train.bodies in ("all-slots", "first")
    assert {view["resize"] for view in native.spec.views.values()} == {"half-pixel"}
    assert native.spec.id != made(name).spec.id
    small = made(name, tokens=8, native=True)  # the method's own encoder on another grid
    assert small.setting == "native" and small.spec.grid.patch == 8
    assert not small.spec.encoder_config["cls"]


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_native_is_the_published_setting_of_other_families(name, made):
    spec = made(name, native=True).spec
    train, how = spec.train, (spec.optimizer, spec.schedule)
    found = spec.encoder, spec.grid.frames, train.epochs, train.bodies, train.align, *how, train.lr, train.weight_decay
    assert found == PUBLISHED[name] and train.precision == "fp32"


@pytest.mark.parametrize("name", WITHOUT)
def test_a_note_says_if_native_equals_shared(name, made):
    native = made(name, native=True)
    assert native.setting == "shared" and native.spec.id == made(name).spec.id
    assert any("native" in note for note in native.notes)


def test_a_toml_file_can_ask_for_native(made, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("native = true\n")
    assert made("skeletonmae", config=path).setting == "native"
    path.write_text('native = "false"\n')
    with pytest.raises(SkelbenchError, match="native = true or native = false"):
        made("skeletonmae", config=path)


def test_a_run_with_typed_native_settings_becomes_native(made, tmp_path):
    """The setting is no part of a run's identity, so it must not stay what it was called first."""
    from skelbench.records.store import ResultStore

    store, native = ResultStore(tmp_path), made("mamp", native=True)
    store.prepare()
    run = store.open(native.spec, "paper", {"encoder.cls": False}, {})
    assert run.info["setting"] == "shared"
    assert store.open(native.spec, "paper", {}, {}, "native").info["setting"] == "native"
    assert store.open(native.spec, "paper", {"encoder.cls": False}, {}).info["setting"] == "native"
