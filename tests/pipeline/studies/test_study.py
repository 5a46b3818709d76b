"""Which trials a study has, and its file."""

import itertools
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skelbench_plugins.slim import studies as library

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import parse_sets
from skelbench.pipeline.studies.files import literal, read_study, write_study
from skelbench.pipeline.studies.runner import typed
from skelbench.pipeline.studies.study import TRIAL, Study, merged, same

BUILT_IN = [value for value in vars(library).values() if isinstance(value, Study)]
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = SCALARS | st.lists(SCALARS | st.lists(SCALARS, max_size=2), max_size=3)
AXES = {
    "tokens": st.lists(st.sampled_from([8, 15, 30]), min_size=1, max_size=3, unique=True),
    "dataset": st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True),
    "train.lr": st.lists(st.floats(1e-5, 1), min_size=1, max_size=3, unique=True),
    "encoder.cls": st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
    "betas": st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=2, unique=True),
}


@st.composite
def studies(draw):
    axes = draw(st.permutations(["method", *AXES]))[: draw(st.integers(1, len(AXES)))]
    methods = st.lists(st.sampled_from(["slim", "mamp", "slim:glcl-only"]), min_size=1, max_size=3, unique=True)
    if draw(st.booleans()):
        axes = axes[:1]
    grid = {axis: draw(methods if axis == "method" else AXES[axis]) for axis in axes}
    trials = draw(st.lists(st.fixed_dictionaries({"method": st.just("gfp"), "momentum": st.floats(0, 1)}), max_size=2))
    return Study(
        name="any",
        seeds=draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)),
        set={"method": "slim", "encoder.dim": 24},
        grid=grid,
        trials=trials,
        preset=draw(st.sampled_from([None, "small"])),
    )


def said(request):
    """What a request asks for, settings and the rest alike."""
    own = {key: getattr(request, key) for key in TRIAL if getattr(request, key) is not None}
    return own | dict(request.sets) | {"seed": request.seed}


@settings(max_examples=40)
@given(studies())
def test_trials_are_the_product_of_the_axes_in_their_order_for_each_seed(study):
    expected = []
    for seed in study.seeds:
        for values in itertools.product(*study.grid.values()):
            expected.append({"method": "slim", "encoder.dim": 24, **dict(zip(study.grid, values)), "seed": seed})
        for trial in study.trials:
            expected.append({"method": "gfp", "encoder.dim": 24, "momentum": trial["momentum"], "seed": seed})
    if study.preset:
        expected = [{"preset": "small", **one} for one in expected]
    got = [said(request) for request in study.requests()]
    assert got == expected
    of_grid = [repr(one) for one in got if "momentum" not in one]
    assert len(set(of_grid)) == len(of_grid)


@settings(max_examples=40)
@given(studies())
def test_a_written_study_read_again_is_the_same(tmp_path_factory, study):
    path = tmp_path_factory.mktemp("toml") / "other.toml"
    path.write_text(write_study(study))
    again = read_study(path)
    assert again.name == "any" and write_study(again) == write_study(study)

    def plain(request):
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said(request).items()}

    assert list(map(plain, again.requests())) == list(map(plain, study.requests()))


@pytest.mark.parametrize("study", BUILT_IN, ids=lambda study: study.name)
def test_a_built_in_study_shown_and_saved_gives_the_same_trials(study, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(write_study(study))
    assert read_study(path).model_dump() == study.model_dump()
    for gpu in (False, True):
        assert list(read_study(path).requests(gpu)) == list(study.requests(gpu))


def test_built_in_studies_ask_for_what_the_paper_compares(host):
    assert [host.load(descriptor) for descriptor in host.all("studies")] == sorted(BUILT_IN, key=lambda one: one.name)
    for study in BUILT_IN:
        for request in study.requests():
            host.method(request.method)
        assert {request.preset for request in study.requests()} == {"small" if study.name == "scaling" else "quick"}
    trials = {(request.method, request.tokens) for request in library.TOKEN_BUDGET.requests()}
    grid = set(itertools.product(("slim", "mamp", "skeletonmae"), (8, 15, 30)))
    assert trials == grid
    assert {request.preset for request in library.TOKEN_BUDGET.requests(gpu=True)} == {"paper"}
    assert {request.preset for request in library.TARGET_CONTROL.requests(gpu=True)} == {"ablation"}
    assert [request.seed for request in library.OBJECTIVE.requests()] == [0] * 5 + [1] * 5
    # Every ablation of SLiM that has a name belongs to a study.
    covered = {request.method.partition(":")[2] for study in BUILT_IN for request in study.requests()}
    assert covered - {""} == set(host.method("slim")[0].variants)


# ---------------------------------------------------------------------------------------------------- options
@settings(max_examples=40)
@given(studies(), st.lists(st.sampled_from([8, 15, 30]), min_size=1, max_size=3, unique=True))
def test_options_replace_what_the_study_says_in_every_trial(study, tokens):
    def others(study, *keys):
        """The trials but for ``keys``."""
        trials = [{key: value for key, value in said(one).items() if key not in keys} for one in study.requests()]
        return {repr(sorted(trial.items())) for trial in trials}

    replaced = study.replaced("tokens", tokens)
    assert {request.tokens for request in replaced.requests()} == set(tokens)
    assert others(replaced, "tokens") == others(study, "tokens")
    learning = study.replaced("lr", [3.0])
    assert {(request.sets["lr"], request.sets.get("train.lr")) for request in learning.requests()} == {(3.0, None)}
    assert others(learning, "lr") == others(study, "train.lr")
    assert {request.preset for request in study.replaced("preset", ["paper"]).requests(gpu=True)} == {"paper"}
    assert {one.dataset for one in study.replaced("dataset", ["d"]).requests()} == {"d"}


def test_what_is_said_nearest_to_a_trial_wins():
    study = Study(
        name="near",
        dataset="a",
        preset="quick",
        gpu_preset="paper",
        seeds=(0,),
        set={"method": "slim", "lr": 1.0, "split": "s"},
        grid={"train.lr": (2.0, 3.0)},
        trials=({"dataset": "b", "preset": "small"}, {"lr": 4.0}),
    )
    expected = [("a", 2.0), ("a", 3.0), ("b", 1.0), ("a", 4.0)]
    got = [(one.dataset, one.sets.get("train.lr", one.sets.get("lr"))) for one in study.requests()]
    assert got == expected and all(len(one.sets) == 1 and one.split == "s" for one in study.requests())
    assert [one.preset for one in study.requests(gpu=True)] == ["paper", "paper", "small", "paper"]
    assert study.varied() == ["dataset", "preset", "train.lr", "lr"]


def test_one_setting_by_two_names():
    assert same("lr", "train.lr") and same("train.lr", "lr") and same("lr", "lr")
    assert not same("train.lr", "method.lr") and not same("tokens", "method.tokens") and not same("lr", "min_lr")
    assert list(merged({"lr": 1, "a": 2}, {"train.lr": 3})) == ["a", "train.lr"]


# ---------------------------------------------------------------------------------------------------- text
@given(VALUES)
def test_values_survive_toml_and_the_command_line(value):
    assert repr(tomllib.loads(f"v = {literal(value)}")["v"]) == repr(value)
    assert repr(parse_sets([f"key={typed(value)}"])["key"]) == repr(value)


GOOD = '[grid]\nmethod = ["slim"]\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[gird]\nmethod = ['slim']\n", "'grid'"),
        ("[grid\n", "TOML"),
        ("[grid]\nmethod = 'slim'\n", "not a list"),
        ("[grid]\ntokens = [8]\n", "without a method"),
        (GOOD + "[trials]\ntokens = 8\n", "[[trials]]"),
        ("seeds = []\n" + GOOD, "seed"),
        (GOOD + "[set]\ntrian.lr = 1\n", "'train'"),
    ],
)
def test_a_bad_file_is_one_error(text, key, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(SkelbenchError) as caught:
        read_study(path)
    assert key in str(caught.value) and "\n" not in str(caught.value) and "grid.toml" in str(caught.value)


def test_a_file_is_named_after_itself_and_nests_settings_as_toml_does(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("probe = 'knn'\n[set]\ntrain.lr = 1e-3\nencoder = 'vit'\n[set.method]\nmomentum = 0.9\n" + GOOD)
    study = read_study(path)
    assert study.name == "mine" and study.probe == ("knn",)
    assert study.sets == {"train.lr": 1e-3, "encoder": "vit", "method.momentum": 0.9}
    path.write_text(write_study(study.replaced("target_settings", [{"beta": 0.5}])))
    assert read_study(path).sets["target_settings"] == {"beta": 0.5}
    with pytest.raises(SkelbenchError, match="does not exist"):
        read_study(tmp_path / "other.toml")
