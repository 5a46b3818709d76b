"""A method is held against its untrained twin by paired tests, and what is no better is told with its figures."""

import pytest
from small import tiny_run, write_small_store

from skelbench.evaluation.stats.paired import PairedTest
from skelbench.pipeline.session import open_session
from skelbench.plugin.host import get_host
from skelbench.records.store import ResultStore
from skelbench.testing import Failed
from skelbench.testing.twin import compared, judge


def made(difference, p_value):
    return PairedTest(clips=100, accuracy_a=0.5 + difference, accuracy_b=0.5, difference=difference, p_value=p_value)


def test_one_probe_that_finds_it_better_is_enough():
    judge({"linear": made(0.1, 0.01), "knn": made(-0.2, 0.001)})


@pytest.mark.parametrize("difference,p_value", [(0.1, 0.03), (-0.1, 0.001), (0.0, 1.0)])
def test_what_is_no_better_is_told_with_its_figures(difference, p_value):
    """One in twenty for both probes together."""
    with pytest.raises(Failed, match=r"linear \d\d\.0 % against 50\.0 % untrained, p = .*; knn 50\.0 %") as failed:
        judge({"linear": made(difference, p_value), "knn": made(0.0, 1.0)})
    assert failed.value.expected.endswith("p < 0.025")


def test_a_run_that_learns_nothing_equals_its_twin(tmp_path):
    write_small_store(tmp_path / "data")
    session = open_session(tmp_path / "results", tmp_path / "data", "cpu")
    still = tiny_run(tmp_path / "data", get_host(), "dino", sets={"train.lr": 1e-12})
    tests = compared(session, still)
    assert {name: (test.n, test.difference) for name, test in tests.items()} == {"linear": (12, 0.0), "knn": (12, 0.0)}
    assert len(list(ResultStore(tmp_path / "results").runs())) == 2
