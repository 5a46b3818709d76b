"""Counts are read back while nothing that decides them changed, and counted again else."""

import json
from dataclasses import replace

import pytest

from skelbench.core.spec import GridSpec
from skelbench.evaluation.cost import cache
from skelbench.evaluation.cost.cache import kept_rows
from skelbench.evaluation.cost.count import CostRow, MacCount, flops_grids
from skelbench.evaluation.cost.report import flops_rows
from skelbench.plugin.host import Host

GRID = GridSpec(frames=64, patch=8)
HOST = Host()
METHODS = [HOST.get("methods", name) for name in ("mamp", "slim")]


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """Names of the methods that were counted, in order; what is counted is made up."""
    names = []

    def rows(host, pairs, counts):
        for method, grid in pairs:
            names.append(method.name)
            macs = MacCount(len(names), {"mlp": 1}, None, 1, 1, 200, uncounted_ops={"softmax": 8})
            if method.name != "broken":
                yield CostRow(method.name, f"{grid.frames // grid.patch}x25", macs, visible_macs=0.5)

    monkeypatch.setattr("skelbench.evaluation.cost.report.flops_rows", rows)
    monkeypatch.setattr(cache, "SHIPPED", tmp_path / "nothing-ships.json")
    return names


def rows(folder, methods=METHODS, grid=GRID):
    return list(kept_rows(HOST, [(method, grid) for method in methods], folder=folder))


def test_a_count_is_made_once_and_read_back(counted, tmp_path):
    first = rows(tmp_path)
    assert counted == ["mamp", "slim"] and rows(tmp_path) == first and len(counted) == 2
    assert first[0].encoder.uncounted_ops == {"softmax": 8} and first[0].visible_macs == 0.5


def test_counts_of_a_killed_command_are_kept_and_reported(counted, tmp_path):
    pairs, reports = [(method, GRID) for method in METHODS], []
    killed = kept_rows(HOST, pairs, tmp_path)
    first = next(killed)  # the generator never comes to its end
    assert next(kept_rows(HOST, pairs, tmp_path)) == first and counted == ["mamp"]
    assert len(list(kept_rows(HOST, pairs, tmp_path, report=reports.append))) == 2
    assert counted == ["mamp", "slim"] and reports == [1, 1]
    list(kept_rows(HOST, pairs, tmp_path, again=True, report=reports.append))
    assert len(counted) == 4 and reports[2:] == [0, 1, 1]


def test_a_new_grid_or_version_is_counted_again(counted, tmp_path, monkeypatch):
    rows(tmp_path)
    rows(tmp_path, grid=GridSpec(frames=120, patch=8))
    assert len(counted) == 4
    monkeypatch.setattr(HOST, "identity", lambda descriptor: f"2 {descriptor.name}")
    rows(tmp_path)
    assert len(counted) == 6


def test_a_damaged_file_is_counted_again_and_replaced(counted, tmp_path):
    first = rows(tmp_path)
    (file,) = tmp_path.glob("costs-*.json")
    file.write_text("{")
    again = rows(tmp_path)
    assert [row.method for row in again] == [row.method for row in first] and len(counted) == 4
    assert rows(tmp_path) == again and len(counted) == 4


def test_shipped_counts_equal_the_counters(tmp_path):
    """Compare methods that take little time; ``python -m benchmarks.flops --check`` compares all."""
    methods = [HOST.get("methods", name) for name in ("skeletonmae", "gfp")]
    pairs = [(method, GridSpec(frames=64, patch=8)) for method in methods]
    shipped = list(kept_rows(HOST, pairs, folder=tmp_path))
    assert not list(tmp_path.iterdir())
    for ours, counted in zip(shipped, flops_rows(HOST, pairs), strict=True):
        assert replace(ours.encoder, versions={}) == replace(counted.encoder, versions={})
        assert replace(ours, encoder=counted.encoder) == counted


def test_every_shipped_method_has_its_counts():
    shipped = json.loads(cache.SHIPPED.read_text())
    assert {cache.key_of(*pair) for pair in flops_grids(HOST)} == shipped.keys()
