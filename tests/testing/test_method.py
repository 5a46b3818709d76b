"""Every check of methods passes what is right and finds what is wrong, in words that say where to look."""

import re
from pathlib import Path

import pytest
from small import MIXED_DEVICES

from skelbench.testing import find
from skelbench.testing.method import CHECKS

BROKEN = Path(__file__).with_name("broken.py")

FOUND = {
    "announcement": "expected: a citation, .*; seen: citation is empty; look at the MethodSpec of announcement",
    "settings": "no_such_setting=1 was taken",
    "settings-described": "seen: none of speed; look at Undescribed",
    "builds": "seen: .*Misspelt: roles names 'haed', which is no module of Misspelt; correct roles",
    "variants": "variant 'deep'.*unknown setting of .* 'deep'",
    "bodies": r"seen: broken.py:\d+, error: RuntimeError: shape .*; look at .*broken.py, line \d+ \(error\)",
    "clip-lengths": r"seen: broken.py:\d+, error: RuntimeError: size mismatch.*broken.py, line \d+ \(error\)",
    "native": "unknown encoder 'vti'; did you mean 'vit'",
    "another-skeleton": r"broken.py:\d+, error: RuntimeError: .*size of tensor a \(75\).*broken.py, line \d+ \(error\)",
    "flat-poses": r"seen: .*(inf|nan)",
    "labels": "the same losses whatever the labels of the clips; seen: .* where every clip has another label",
    "gradients": "seen: none in spare.weight, spare.bias; look at what training_step does not use",
    "teacher": "teacher is after two steps what it was before; look at after_step",
    "bf16": r"RuntimeError: .*scalar type.*broken.py, line \d+ \(error\)",
    "learns": r"seen: lower by .* and 0.\d% after \d+ steps",
    "collapse": r"effective rank .*, \d\.\d% of their distances after 40 steps; look at what keeps features",
    "seed": "the same losses from the same seed; seen: .*, then ",
    "resume": "step 2 has loss .*, uninterrupted .*; look at what the method keeps besides parameters and buffers",
    "processes": "the loss is .*, not .*; look at means over the batch",
    "pieces": "the loss is .*, not .*; look at means over the batch .* or say in whole_batch",
    "recompute": "the gradient of .* is another; look at what blocks in an nn.ModuleList read",
    "repeatable-features": "they differ by up to .* noise that does not ask self.training",
    "probed": "the run's encoder with the weights .*; seen: they differ by up to .*; look at hooks",
    "clips-apart": "features of a clip alone in its batch differ",
    "devices": MIXED_DEVICES + r".*; make tensors with device=x.device.*broken.py, line \d+ \(error\)",
    "cost": "a module with the role 'student' that does the work; seen: none",
}


@pytest.fixture(scope="module")
def things():
    """The methods of the file, by name."""
    return {thing.name: thing for thing in find(BROKEN)}


def test_what_is_right_passes(things):
    states = {result.name: result for result in things["pose"].results()}
    assert {name for name, result in states.items() if result.state != "passed"} == {"native", "variants"}
    assert states["native"].reason == "the shared setting is its own"


def test_there_is_a_broken_method_for_every_check():
    """But for the one that takes minutes: test_twin.py."""
    assert {check.name for check in CHECKS if not check.thorough} == FOUND.keys()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unsaid", 'seen: PoseConfig is not; look at MethodSpec(..., config=":PoseConfig")'),
        ("preset", "unknown setting of preset quick of its MethodSpec 'momentun'; did you mean 'momentum'?"),
        ("space", "seen: method.momentun; look at space of its MethodSpec"),
    ],
)
def test_settings_that_are_announced_wrongly_are_found(name, said, things):
    (result,) = things[f"settings-{name}"].results(only=["settings"])
    assert result.state == "failed" and said in result.sentence


def test_where_to_look_is_found_by_a_relative_path(monkeypatch):
    monkeypatch.chdir(BROKEN.parent)
    (result,) = next(thing for thing in find(Path(BROKEN.name)) if thing.name == "asks").results(only=["devices"])
    assert re.search(r"broken.py, line \d+ \(error\)", result.look)


@pytest.mark.parametrize("name", FOUND)
def test_what_is_wrong_is_found(name, things):
    (result,) = things[name].results(only=[name])
    assert result.state == "failed"
    assert re.search(FOUND[name], result.sentence), result.sentence


def test_a_role_that_never_acts_is_found(things):
    (result,) = things["unhooked"].results(only=["cost"])
    assert "decoder has the cost of role 'decoder'; seen: decoder is never called" in result.sentence


def test_a_teacher_that_is_forgotten_beside_another_is_found(things):
    (result,) = things["half-follows"].results(only=["teacher"])
    assert "second is after two steps what it was before" in result.sentence


@pytest.mark.parametrize("check", ["gradients", "processes", "pieces", "recompute"])
@pytest.mark.parametrize("name,what", [("not-finite", "loss"), ("steep", "gradient of encoder.*")])
def test_what_is_not_finite_is_called_so_and_blamed_on_nothing_else(check, name, what, things):
    (result,) = things[name].results(only=[check])
    assert result.state == "failed" and re.fullmatch(
        f"{what} is not finite with the clips of a first step", result.seen
    )


@pytest.mark.parametrize(
    "name,seen",
    [
        ("asks", "the value of a tensor is asked for"),
        ("copies", "copied to the host"),
        ("sends", "copied from the host"),
        ("selects", "a mask is an index"),
    ],
)
def test_a_gpu_that_is_waited_for(name, seen, things):
    (result,) = things[name].results(only=["devices"])
    assert result.state == "failed" and seen in result.seen
    assert re.search(r"broken.py, line \d+ \(error\)", result.look)


def test_rounding_that_adds_up_is_found(things):
    (result,) = things["cancels"].results(only=["bf16"])
    assert result.state == "failed" and re.search(r"a loss within 5% or 0.01 of float32's; seen: ", result.sentence), (
        result
    )


def test_a_gpu_may_be_waited_for_where_that_is_said(things):
    (result,) = things["looks"].results(only=["devices"])
    assert result.state == "passed", result.sentence


def test_an_encoder_that_is_not_the_runs_is_found_before_it_is_trained(things):
    (result,) = things["wrapped"].results(only=["builds"])
    assert result.state == "failed"
    assert re.search(r"with more.bias, but what is probed is the run's encoder, vit; make it by", result.sentence)


@pytest.mark.parametrize("name", ["two-phases", "cools"])
def test_later_phases_and_extra_state_are_all_right(name, things):
    wanted = ["gradients", "resume", "processes", "seed"]
    assert {result.name: result.state for result in things[name].results(only=wanted)} == dict.fromkeys(
        wanted, "passed"
    )


@pytest.mark.parametrize(("name", "check", "seen"), [
    ("late-memory", "resume", r"step 1\d has loss .*, uninterrupted"),
    ("late-nan", "gradients", "loss is not finite with the clips of the first step of phase main"),
])  # fmt: skip
def test_what_a_later_phase_does_wrong_is_found(name, check, seen, things):
    (result,) = things[name].results(only=[check])
    assert result.state == "failed" and re.search(seen, result.seen), result.sentence
