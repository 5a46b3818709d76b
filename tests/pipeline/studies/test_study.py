"""Trials of a study, and its file."""

import itertools
import tomllib

import pytest
from skelbench_plugins.slim import studies as library

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import parse_sets
from skelbench.pipeline.studies.files import literal, read_study, write_study
from skelbench.pipeline.studies.runner import typed
from skelbench.pipeline.studies.study import TRIAL, Study, merged, same

BUILT_IN = [value for value in vars(library).values() if isinstance(value, Study)]
GRID = Study(
    name="any",
    seeds=(0, 4),
    set={"method": "slim", "encoder.dim": 24},
    grid={"tokens": (8, 15), "train.lr": (0.1, 0.2)},
    trials=({"method": "gfp", "momentum": 0.5},),
    preset="small",
)


def said(request):
    """Content of a request: settings and other fields."""
    own = {key: getattr(request, key) for key in TRIAL if getattr(request, key) is not None}
    return own | dict(request.sets) | {"seed": request.seed}


def test_trials_are_the_product_of_the_axes_in_their_order_for_each_seed():
    grid = [(8, 0.1), (8, 0.2), (15, 0.1), (15, 0.2)]
    base = {"preset": "small", "encoder.dim": 24}
    expected = []
    for seed in (0, 4):
        expected += [{"method": "slim", **base, "tokens": n, "train.lr": lr, "seed": seed} for n, lr in grid]
        expected.append({"method": "gfp", **base, "momentum": 0.5, "seed": seed})
    assert list(map(said, GRID.requests())) == expected


@pytest.mark.parametrize("study", BUILT_IN, ids=lambda study: study.name)
def test_a_saved_built_in_study_has_the_same_trials(study, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(write_study(study))
    assert read_study(path).model_dump() == study.model_dump()
    for gpu in (False, True):
        assert list(read_study(path).requests(gpu)) == list(study.requests(gpu))


def test_built_in_studies_have_the_comparisons_of_the_paper(host):
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
def test_options_override_the_study_in_every_trial():
    replaced = GRID.replaced("tokens", [30, 8])
    assert [one.tokens for one in replaced.requests()] == 2 * [30, 30, 8, 8, 30, 8]
    learning = GRID.replaced("lr", [3.0])
    assert {(one.sets["lr"], one.sets.get("train.lr")) for one in learning.requests()} == {(3.0, None)}
    assert {one.preset for one in GRID.replaced("preset", ["paper"]).requests(gpu=True)} == {"paper"}
    assert {one.dataset for one in GRID.replaced("dataset", ["d"]).requests()} == {"d"}


def test_the_most_specific_setting_wins():
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


def test_one_setting_with_two_names():
    assert same("lr", "train.lr") and same("train.lr", "lr") and same("lr", "lr")
    assert not same("train.lr", "method.lr") and not same("tokens", "method.tokens") and not same("lr", "min_lr")
    assert list(merged({"lr": 1, "a": 2}, {"train.lr": 3})) == ["a", "train.lr"]


# ---------------------------------------------------------------------------------------------------- text
@pytest.mark.parametrize("value", [True, 7, -1e-05, "0.1", " 'a\\\x7f\n\"", "true", [1.5, ["a", False]], []])
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
        (GOOD + "[trials]\ntokens = 8\n", "trials"),
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


def test_a_study_file_gives_its_name_and_nests_settings(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("probe = 'knn'\n[set]\ntrain.lr = 1e-3\nencoder = 'vit'\n[set.method]\nmomentum = 0.9\n" + GOOD)
    study = read_study(path)
    assert study.name == "mine" and study.probe == ("knn",)
    assert study.sets == {"train.lr": 1e-3, "encoder": "vit", "method.momentum": 0.9}
    path.write_text(write_study(study.replaced("target_settings", [{"beta": 0.5}])))
    assert read_study(path).sets["target_settings"] == {"beta": 0.5}
    with pytest.raises(SkelbenchError, match="does not exist"):
        read_study(tmp_path / "other.toml")
