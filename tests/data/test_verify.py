"""Every check can fail, and fails for its own reason only."""

import numpy as np
import pytest
from made.clips import open_writer
from made.people import person
from small import write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.data import verify as verification
from skelbench.data.anatomy import handedness, measure
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import FieldRule
from skelbench.data.verify import Known, on_both_sides, recognize, verify
from skelbench.testing.stick7 import STICK7
from skelbench.testing.thing import STICK7 as STICK7_FILE
from skelbench.views.skeleton.topology import NTU25, topologies

every_topology = pytest.mark.parametrize("topology", topologies().values(), ids=topologies())


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """``command(*arguments)``: the exit code of `skelbench data` and what it prints."""
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        return main(["data", *arguments]), *capsys.readouterr()

    return command


def make(path, change=lambda x_MTJC: x_MTJC, topology=NTU25, names=None, labels=(0, 1, 2), **settings):
    """Six clips of people, centered; ``change`` is done to each before it is stored."""
    settings = {"splits": {"cross-subject": FieldRule(field="subject", train="odd")}} | settings
    with open_writer(path, topology=topology, **{"default_split": "cross-subject"} | settings) as writer:
        for i in range(6):
            x_MTJC = person(topology, label=4 * i, subject=1 + i, camera=1 + i % 3, frames=40)
            x_MTJC = change(x_MTJC - x_MTJC[0, 0, topology.center])
            name = names[i] if names else ""
            writer.add(x_MTJC, labels[i % len(labels)], subject=i, camera=1 + i % 3, name=name)
    return ClipStore.open(path)


def checks(store, kind=None):
    """Check by name; every line that is not ok says what to do."""
    found = list(verify(store, kind, measure(store)))
    assert all(check.advice for check in found if check.state != "ok")
    assert all(not check.advice for check in found if check.state == "ok")
    return {check.name: check for check in found}


def not_ok(found):
    return {name: check.state for name, check in found.items() if check.state != "ok"}


# ------------------------------------------------------------------------------------------------ anatomy
def test_a_skeleton_with_other_names_skips_only_the_anatomy_checks(tmp_path, monkeypatch):
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", STICK7_FILE)
    store = ClipStore.open(write_small_store(tmp_path, "seven", topology=STICK7))
    found = checks(store)
    assert not_ok(found) == {"anatomy": "look"} and {"clips", "checksums", "classes"} < set(found)
    assert "skeleton stick7 has no joint called 'left hip'" in found["anatomy"].advice


@every_topology
def test_people_on_every_topology_pass(tmp_path, topology):
    store = make(tmp_path / "made", topology=topology)
    assert not_ok(checks(store)) == {}


def rotated(seed):
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    return q * np.sign(np.linalg.det(q))


@every_topology
def test_left_and_right_are_recognized_in_any_rotation(topology):
    for label in range(0, 28, 4):
        x_TJC = person(topology, label=label, subject=1 + label % 16)[0].astype(np.float64)
        turned = x_TJC @ rotated(label).T
        for x in (x_TJC, turned):
            assert handedness(x, topology) > 0
            assert handedness(x * (-1, 1, 1), topology) < 0, "mirrored"
            assert handedness(x[:, list(topology.swap)], topology) < 0, "swapped"
            assert handedness(x[:, list(topology.swap)] * (1, 1, -1), topology) > 0, "both"


def mirrored(x_MTJC):
    return x_MTJC * np.float32([-1, 1, 1])


def loose_knees(x_MTJC):
    x_MTJC[:, ::2, [13, 17], 1] -= 0.25
    return x_MTJC


WRONG = {
    "mirrored": (mirrored, {"left and right": "wrong"}, "swapped"),
    "z up": (lambda x: x[..., [0, 2, 1]] * np.float32([1, -1, 1]), {"up": "wrong"}, "axis"),
    "millimeters": (lambda x: 1000 * x, {"bone lengths": "wrong"}, "in meters"),
    "not centered": (lambda x: x + np.float32([0, 0, 3]), {"origin": "look"}, "train.center=body"),
    "knees that jump": (loose_knees, {"bones are rigid": "wrong"}, "left knee"),
}


@pytest.mark.parametrize("change,expected,advice", WRONG.values(), ids=WRONG)
def test_problems_of_bodies_are_named(tmp_path, change, expected, advice):
    found = checks(make(tmp_path / "made", change))
    assert not_ok(found) == expected
    assert advice in found[next(iter(expected))].advice


def test_flat_poses_skip_checks_of_sides_and_lengths(tmp_path):
    flat = checks(make(tmp_path / "made", lambda x: x * np.float32([1, 1, 0]), topologies()["coco17"]))
    assert not_ok(flat) == {} and not {"bone lengths", "left and right"} & set(flat)


# ------------------------------------------------------------------------------------------------ copies
def copied(path, numbers):
    """Clips that are equal where ``numbers`` are; odd ones train."""
    splits = {"odd": FieldRule(field="subject", train="odd"), "late": FieldRule(field="trial", train=(9,))}
    with open_writer(path, splits=splits, default_split="odd") as writer:
        for i, number in enumerate(numbers):
            x = np.random.default_rng(number).standard_normal((1, 5, 25, 3))
            writer.add(x, i % 3, subject=i, trial=9 * (i > 5), name=f"n{i}")
    return ClipStore.open(path)


def test_copies_are_found_and_counted_by_split(tmp_path):
    store = copied(tmp_path / "made", [0, 1, 2, 1, 1, 5, 0, 7, 2])
    odd, late = on_both_sides(store)
    assert odd == ("odd", 1, 5, "clip 4 (n4) is clip 1 (n1)")
    assert late == ("late", 2, 6, "clip 0 (n0) is clip 6 (n6)")
    check = checks(store)["on both sides of a split"]
    assert (check.state, check.value) == ("look", "odd: 1 of 5 test clips; late: 2 of 6 test clips")
    other = copied(tmp_path / "other", range(7))
    other.index["crc32"][:] = 1
    assert on_both_sides(other) == [], "equal checksums alone are no copies"


# ------------------------------------------------------------------------------------------------ known datasets
NTU_NAMES = [f"S001C00{1 + i % 3}P00{1 + i}R001A00{1 + i % 3}" for i in range(6)]


@pytest.mark.parametrize("names,kind", [
    (NTU_NAMES, "ntu60"), ([*NTU_NAMES[:5], "S018C001P001R001A061"], "ntu120"), (None, None),
    ([f"A0{i}N01-L_{i}" for i in range(6)], "pku2"), ([f"take {i}" for i in range(6)], None),
])  # fmt: skip
def test_a_known_dataset_is_recognized_by_its_names(tmp_path, names, kind):
    store = make(tmp_path / "made", names=names)
    assert recognize(store) == kind
    assert recognize(store, "other") is None and recognize(store, "ntu120") == "ntu120"
    with pytest.raises(SkelbenchError, match="did you mean 'ntu60'"):
        recognize(store, "ntu6")


def test_a_part_of_ntu60_fails_where_it_differs(tmp_path):
    found = checks(make(tmp_path / "made", names=NTU_NAMES, details={"frames_raw": 240}), "ntu60")
    wrong = ("clips", "cross-subject, train", "cross-subject, test", "frames raw")
    assert not_ok(found) == dict.fromkeys(wrong, "wrong")
    assert "56,572 samples are not there" in found["clips"].advice


def test_the_complete_dataset_passes_and_unconfirmed_counts_are_never_wrong(tmp_path, monkeypatch):
    details = {"frames_raw": 250, "frames_denoised": 240, "files_with_missing_frames": 2}
    store = make(tmp_path / "made", names=NTU_NAMES, details=details)
    exact = Known(6, {"cross-subject": (3, 3)}, details)
    monkeypatch.setitem(verification.KNOWN, "ntu60", exact)
    assert not_ok(checks(store, "ntu60")) == {}
    quoted = Known(7, {"cross-subject": (4, 3)}, sure=False)
    monkeypatch.setitem(verification.KNOWN, "pku2", quoted)
    assert not_ok(checks(store, "pku2")) == {
        "clips": "look", "cross-subject, train": "look"
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ the command
def test_the_command_gives_advice_and_exit_code_3(tmp_path, command):
    make(tmp_path / "good")
    code, printed, _ = command("verify", "good")
    assert code == 0 and "nothing is wrong" in printed and "wrong " not in printed.replace("nothing is wrong", "")
    make(tmp_path / "bad", mirrored)
    code, printed, _ = command("verify", "bad")
    assert code == 3
    assert "wrong left and right: coordinates are mirrored" in printed and "1 of 12 checks failed" in printed
    assert command("verify", "bad", "--as", "nut60")[0] == 2
