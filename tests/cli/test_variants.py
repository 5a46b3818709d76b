"""Named variants of a method, and targets of one's own, from the name that is typed to what is recorded."""

import json
import re
from pathlib import Path

import pytest
from small import TINY, TINY_METHOD, write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.controls import control
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.training.loop import total_steps

pytestmark = pytest.mark.usefixtures("shipped_plugins")

DOCS = Path(__file__).parents[2] / "docs"
SIMCLR, SMOOTH = (
    re.search(r"```python\n(# \w+.py\n.*?)```", (DOCS / page).read_text(), re.S).group(1)
    for page in ("writing_a_method.md", "writing_a_target.md")
)
TARGET = "targets smooth-features"
SMALL = TINY | {f"method.{key}": value for key, value in TINY_METHOD["slim"].items()}

BEE = """
from skelbench.plugin import MethodSpec, hookimpl

@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="bee",
            target="skelbench_plugins.slim.method:Slim",
            config="skelbench_plugins.slim.method:SlimConfig",
            requires=("replace-tokens", "tokens", "short-views"),
            variants={
                "typo": {"method.prototype": 3},
                "grid": {"grid.patch": 4},
                "deep": {"encoder.depth": "x2"},
            },
        )
    ]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data root whose ``small`` has 16 training clips: the batches of the small presets."""
    root = tmp_path_factory.mktemp("data")
    write_small_store(root, clips=32)
    return root


@pytest.fixture
def made(data, host):
    """``made("slim:glcl-only", "small", epochs=3, sets={...})``: the complete run, resolved on ``small``."""

    def make(method, preset="quick", at=host, **fields):
        return resolve(Request(method=method, dataset="small", preset=preset, **fields), at, data, "cpu")

    return make


@pytest.fixture
def bee(tmp_path):
    """A host that also knows the method ``bee``."""
    path = tmp_path / "bee.py"
    path.write_text(BEE)
    return Host([path])


OWN = """
from skelbench.methods import Config
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.methods.momentum_contrast import MomentumContrastConfig
from skelbench.views.spec import ViewSpec
from skelbench_plugins.untrained import Untrained

class Own(Config):
    bottleneck: int = 32
    momentum: float = 0.1
    mask_ratio: float = 0.75
    queue: int = 5

class Heir(MomentumContrastConfig):
    momentum: float = 0.5

class Method(Untrained):
    Config = Own

    @classmethod
    def views(cls, config, grid):
        return {"view": ViewSpec(frames=grid.frames)}

class Second(Method):
    Config = Heir

@hookimpl
def skelbench_methods():
    presets = {"small": {"method.bottleneck": 8}, "mine": {"method.bottleneck": 9}, "quick": {"train.epochs": 3.0}}
    return [
        MethodSpec(name="own", target=":Method", config=":Own", presets=presets),
        MethodSpec(name="heir", target=":Second", config=":Heir"),
    ]
"""


def test_a_preset_changes_no_setting_that_a_plugin_declares_itself(made, tmp_path):
    """Its name says nothing of what it means there; what the plugin inherits from the harness is scaled."""
    path = tmp_path / "own.py"
    path.write_text(OWN)
    own = {preset: made("own", preset, at=Host([path])).spec for preset in ("paper", "quick", "small", "mine")}
    found = {preset: spec.method_config["bottleneck"] for preset, spec in own.items()}
    assert found == {"paper": 32, "quick": 32, "small": 8, "mine": 9}
    assert {spec.method_config["momentum"] for spec in own.values()} == {0.1}
    assert own["small"].train.lr == own["quick"].train.lr == made("mamp").spec.train.lr > own["paper"].train.lr
    assert own["quick"].train.epochs == 3 and own["small"].train.epochs == made("mamp", "small").spec.train.epochs
    heir, shipped = made("heir", at=Host([path])).spec.method_config, made("skeletonclr").spec.method_config
    assert heir["queue"] == shipped["queue"] != made("heir", "paper", at=Host([path])).spec.method_config["queue"]
    assert heir["momentum"] == 0.5


def length(made):
    """Steps and clips of the schedule."""
    steps = total_steps(made.spec, 16)
    return steps, steps * made.spec.train.batch_size


# ---------------------------------------------------------------------------------------------------- settings
@pytest.mark.parametrize(
    ("preset", "steps", "clips"), [("paper", 150, 150 * 16), ("small", 2500, 40_000), ("quick", 625, 10_000)]
)
def test_a_half_batch_keeps_clips_or_steps(preset, steps, clips, made):
    assert length(made("slim", preset)) == (steps, clips)
    half, short = made("slim:half-batch", preset), made("slim:half-batch-equal-steps", preset)
    assert half.spec.train.batch_size == short.spec.train.batch_size == 8
    assert length(half) == (2 * steps, clips)
    assert length(short) == (steps, clips / 2)


def test_what_the_user_sets_wins_over_the_variant(made, tmp_path):
    for preset in ("paper", "small"):
        typed = made("slim:half-batch-equal-steps", preset, epochs=3)
        assert (typed.spec.train.epochs, typed.spec.train.batch_size) == (3, 8)
        assert set(typed.modified) == {"train.epochs"}
    assert made("slim:half-batch", batch_size=4).spec.train.batch_size == 4
    weight = made("slim").spec.method_config["mfp_weight"]
    back = made("slim:glcl-only", sets={"mfp_weight": weight})
    assert back.spec.id == made("slim").spec.id and back.modified == {"method.mfp_weight": weight}
    path = tmp_path / "run.toml"
    path.write_text("[method]\nmfp_weight = 0.5\n")
    assert made("slim:glcl-only", config=path).spec.method_config["mfp_weight"] == 0.5


def test_every_variant_of_slim_is_another_run_of_the_exact_preset(made, host):
    method = host.get("methods", "slim")
    slim = made("slim")
    ids, baseline = {slim.spec.id}, control(slim, host).spec.id
    for name, changes in method.variants.items():
        variant = made(f"slim:{name}")
        assert (variant.variant, variant.title, variant.modified) == (name, f"slim:{name}", {})
        assert set(variant.from_preset) == {"train.epochs" if key == "clips_seen" else key for key in changes}
        own = control(variant, host)
        changed = {key: value for key, value in changes.items() if key.startswith("encoder.")}
        assert variant.spec.method == "slim" and own.modified == changed
        assert (own.spec.id == baseline) == (not changed)  # another untrained encoder is another baseline
        ids.add(variant.spec.id)
    assert len(ids) == len(method.variants) + 1


def test_a_variant_is_compared_with_the_untrained_baseline(made, bee):
    assert set(made("slim:glcl-only", sets={"koleo": 0.1}).modified) == {"method.koleo"}
    deep = made("bee:deep", at=bee)
    assert deep.modified == {} and deep.spec.encoder_config["depth"] == 4
    assert control(deep, bee).modified == {"encoder.depth": 4}  # no exact twin of the preset


# ---------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("slim:glcl-onl", r"unknown variant of slim 'glcl-onl'; did you mean 'glcl-only'\? .*plugins info slim"),
        ("mamp:small", "unknown variant of mamp"),
        ("bee:typo", r"bee\.py.*did you mean 'prototypes'"),
        ("bee:grid", "it sets 'grid.patch'"),
    ],
)
def test_an_impossible_variant_is_one_error(name, said, made, bee):
    with pytest.raises(SkelbenchError, match=said) as caught:
        made(name, at=bee)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------------- records
def test_typed_settings_of_a_variant_name_the_same_run(made, tmp_path):
    typed, named = made("slim", sets={"mfp_weight": 0.0}), made("slim:glcl-only")
    assert typed.spec.id == named.spec.id and typed.modified
    facts = {"environment": {}}

    def opened(store, run):
        return store.open(run.spec, run.preset, run.modified, facts, run.setting, run.variant)

    store = ResultStore(tmp_path / "typed first")
    assert opened(store, typed).title == "slim"
    run = opened(store, named)
    assert (run.title, run.info["variant"], run.info["modified"]) == ("slim:glcl-only", "glcl-only", {})
    store = ResultStore(tmp_path / "named first")
    assert opened(store, named).name.startswith("slim.glcl-only-small-half-8t-quick-s0-")
    run = opened(store, typed)
    assert (run.title, run.info["modified"]) == ("slim:glcl-only", {}) and len(list(store.runs())) == 1


def command(method, *more, epochs=1):
    sets = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    shape = ["--dataset", "small", "--clip-length", "32", "--patch", "8", "--batch-size", "4", "--epochs", str(epochs)]
    return ["run", method, *shape, *sets, *more]


def test_the_variants_of_the_documentation(made, tmp_path):
    """Word for word, put into the example method."""
    variants = re.search(
        r"```python\n(VARIANTS = \{.*?\n\}\n)```", (DOCS / "writing_a_method.md").read_text(), re.S
    ).group(1)
    place = '            name="simclr",\n'
    assert SIMCLR.count(place) == 1
    code = SIMCLR.replace(place, place + "            variants=VARIANTS,\n")
    (tmp_path / "simclr.py").write_text(code + "\n" + variants)
    host = Host([tmp_path / "simclr.py"])
    settings = {name: made(f"simclr:{name}", at=host).spec for name in host.get("methods", "simclr").variants}
    assert len(settings) == 4
    assert settings["cold"].method_config == {"temperature": 0.1, "projection": 128}
    assert settings["wide-head"].method_config == {"temperature": 0.2, "projection": 512}


# ---------------------------------------------------------------------------------------------------- targets
@pytest.fixture
def smooth(tmp_path):
    """The documentation's target, word for word, in a file."""
    path = tmp_path / "smooth_features.py"
    path.write_text(SMOOTH)
    return path


def aimed(made, host, **settings):
    return made("slim", at=host, sets=SMALL | {"target": "smooth-features", "target_settings": settings})


def test_a_target_in_one_file_is_run_by_slim(smooth, small, capsys):
    target = ["--plugin", str(smooth), "--set", "target=smooth-features", "--set", "target_settings={beta=0.5}"]
    assert main([*command("slim", *target), "--probe", "knn"]) == 0
    (path,) = (small / "results").glob("slim-*/run.json")
    spec = json.loads(path.read_text())["spec"]
    assert spec["method_config"]["target"] == "smooth-features" and spec["components"][TARGET] > "1 "
    lines = [json.loads(line) for line in (path.parent / "metrics.jsonl").read_text().splitlines()]
    assert all(line["mfp"] > 0 for line in lines)
    capsys.readouterr()
    assert main(["plugins", "info", "smooth-features", "--plugin", str(smooth)]) == 0
    assert re.search(r"beta +float, > 0 +1 +error at which", capsys.readouterr().out)


def test_the_source_of_a_target_is_part_of_the_identity(made, smooth):
    first = aimed(made, Host([smooth])).spec
    assert first.method_source is None and TARGET in first.components
    smooth.write_text(SMOOTH + "\nCHANGED = True\n")
    changed = aimed(made, Host([smooth])).spec
    assert changed.components[TARGET] != first.components[TARGET] and changed.id != first.id


def test_a_wrong_target_is_one_error(made, smooth):
    smooth.write_text(SMOOTH.replace("(MaskedTarget)", "(dict)"))
    with pytest.raises(SkelbenchError, match="target 'smooth-features'.* is not a subclass of MaskedTarget"):
        made("slim", at=Host([smooth]), sets=SMALL | {"target": "smooth-features"})
