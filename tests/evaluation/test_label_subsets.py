"""Lists of clips that keep their labels: the same everywhere, every class in them, one inside the other."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.label_subsets import DRAWS, label_subset


def store(labels, names=None, fingerprint="f" * 64):
    return SimpleNamespace(labels=np.array(labels), names=names, fingerprint=fingerprint)


def lists(of, share, **how):
    ids = np.arange(len(of.labels))
    return [label_subset(of, "xsub", ids, share, draw, **how) for draw in range(DRAWS)]


EVEN = store(np.arange(1000) % 10)
GOLDEN = ["3eab9e58bbd0749f", "932e117b57a8fe36", "38458cf5275751e1", "95bf78fc0eea22b1", "e429e5fc4382a5a0"]
FIRST = [39, 133, 198, 250, 261, 725, 836, 847, 902, 954]


def test_the_lists_equal_the_published_lists():
    assert [each.sha256[:16] for each in lists(EVEN, 0.01)] == GOLDEN
    assert lists(EVEN, 0.01)[0].ids.tolist() == FIRST


def test_five_lists_differ_and_depend_on_data_split_and_number():
    first = lists(EVEN, 0.1)
    assert len({each.sha256 for each in first}) == DRAWS
    assert first[0].sha256 == lists(EVEN, 0.1)[0].sha256
    others = [
        label_subset(store(EVEN.labels, fingerprint="0" * 64), "xsub", np.arange(1000), 0.1, 0),
        label_subset(EVEN, "xview", np.arange(1000), 0.1, 0),
        label_subset(EVEN, "xsub", np.arange(1000), 0.1, 0, stratified=False),
    ]
    assert first[0].sha256 not in {each.sha256 for each in others}


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    share=st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0]),
    draw=st.integers(0, 9),
)
@settings(max_examples=40)
def test_every_class_has_its_fraction_of_labels(counts, share, draw):
    labels = np.repeat(np.arange(len(counts)), counts)
    ids = np.flatnonzero(np.ones(len(labels)))
    found = label_subset(store(labels), "s", ids, share, draw)
    assert (np.diff(found.ids) > 0).all() and len(found.names) == len(found.ids)
    assert np.bincount(labels[found.ids]).tolist() == [max(1, round(share * count)) for count in counts]
    larger = label_subset(store(labels), "s", ids, min(1.0, 2 * share), draw)
    assert set(found.ids) <= set(larger.ids)


def test_unstratified_lists_take_a_fraction_of_all_clips():
    found = lists(EVEN, 0.0119, stratified=False)
    assert {len(each.ids) for each in found} == {11}
    with pytest.raises(SkelbenchError, match="less than one clip; take a larger share"):
        lists(EVEN, 0.0005, stratified=False)


def test_the_command_writes_them_with_their_hashes(data_root, tmp_path, capsys):
    words = ["data", "labels", "small", "--share", "50", "-o", str(tmp_path / "out"), "--data-root", str(data_root)]
    assert main(words) == 0
    printed, files = capsys.readouterr().out, sorted((tmp_path / "out").glob("small-half-50percent-stratified-*.txt"))
    assert len(files) == DRAWS
    for file in files:
        assert hashlib.sha256(file.read_bytes()).hexdigest()[:12] in printed
