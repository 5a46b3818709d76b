"""Counts are read back while nothing that decides them changed, and counted again else."""

import pytest

from skelbench.core.spec import GridSpec
from skelbench.evaluation.cost.cache import kept_rows
from skelbench.evaluation.cost.count import CostRow, MacCount
from skelbench.plugin.host import Host

GRID = GridSpec(frames=64, patch=8)
HOST = Host()
METHODS = [HOST.get("methods", name) for name in ("mamp", "slim")]


@pytest.fixture
def counted(monkeypatch):
    """Names of the methods that were counted, in order; what is counted is made up."""
    names = []

    def rows(host, pairs, counts):
        for method, grid in pairs:
            names.append(method.name)
            macs = MacCount(len(names), {"mlp": 1}, None, 1, 1, 200, uncounted_ops={"softmax": 8})
            if method.name != "broken":
                yield CostRow(method.name, f"{grid.frames // grid.patch}x25", macs, visible_macs=0.5)

    monkeypatch.setattr("skelbench.evaluation.cost.report.flops_rows", rows)
    return names


def rows(folder, methods=METHODS, grid=GRID):
    return list(kept_rows(HOST, [(method, grid) for method in methods], folder=folder))


def test_a_count_is_made_once_and_read_back_whole(counted, tmp_path):
    first = rows(tmp_path)
    assert counted == ["mamp", "slim"] and rows(tmp_path) == first and len(counted) == 2
    assert first[0].encoder.uncounted_ops == {"softmax": 8} and first[0].visible_macs == 0.5


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
