"""Methods over many tasks: pooled where there are enough, refused where there are not."""

import pytest
from fabricated import correct
from scipy.stats import trim_mean

from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.pooled import table
from skelbench.reporting.render import render


def fill(made, title, base, tasks=5, seeds=3, **more):
    for task in range(tasks):
        for seed in range(seeds):
            share = base + 0.05 * task + 0.025 * seed
            made.run(
                title, correct(share), dataset=f"set{task // 2}", split=f"split{task % 2}", seed=seed, knn=None, **more
            )


def build(made, **asked):
    return table(TableInputs(Host(), made.store, **asked))


def test_methods_are_pooled_over_common_tasks(made):
    fill(made, "slim", 0.6, tasks=6)
    fill(made, "mamp", 0.5)
    fill(made, "untrained", 0.3)
    fill(made, "gfp", 0.9, tasks=4)
    built = build(made)
    rows = {row["title"].value: row for row in built.rows}
    assert list(rows) == ["slim", "mamp", "untrained"] and {row["tasks"].value for row in built.rows} == {5}
    scores = [correct(0.6 + 0.05 * task + 0.025 * seed).mean() for task in range(5) for seed in range(3)]
    assert rows["slim"]["iqm"].value == pytest.approx(100 * trim_mean(scores, 0.25))
    low, high = rows["slim"]["iqm"].interval
    assert low < rows["slim"]["iqm"].value < high and rows["slim"]["iqm"].interval_over == "seeds within tasks"
    assert rows["slim"]["over_next"].value == 1 and rows["slim"]["over_untrained"].value == 1
    assert rows["untrained"]["over_next"].value is None and rows["untrained"]["over_untrained"].value is None
    assert rows["slim"]["iqm"].mark == "best"
    assert any("skipped, with fewer than 5 tasks of 3 seeds: gfp" in note for note in built.notes)
    assert "set0" not in render(built)


def test_too_few_tasks_are_rejected_and_counted(made):
    fill(made, "slim", 0.6, tasks=4)
    built = build(made)
    assert not built.rows and any("and there are 4 at most" in note for note in built.notes)


def test_runs_that_differ_in_more_than_the_seed_are_not_pooled_as_seeds(made):
    for version in range(3):
        fill(made, "slim", 0.5 + 0.1 * version, version=version, seeds=1)
    assert not build(made).rows  # three versions are no three seeds
    fill(made, "slim", 0.6, version=3, finished=2.0)
    built = build(made)
    assert [row["title"].value for row in built.rows] == ["slim"] and built.rows[0]["seeds"].value == "3"
    assert any("skipped, because later runs" in note and "slim-set0" in note for note in built.notes)
