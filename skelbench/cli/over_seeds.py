"""Summary of ``skelbench run --seeds``: means over pre-training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

import pandas

from skelbench.cli.summary import accuracy_table, cells_of, print_basis
from skelbench.core.console import out
from skelbench.evaluation.outcomes import paired_over_seeds
from skelbench.evaluation.stats.bootstrap import SEEDS
from skelbench.evaluation.stats.paired import SeedsTest, t_half_width
from skelbench.pipeline.controls import Conclusion
from skelbench.records.store import ResultStore


def print_seeds(found: Sequence[Conclusion], store: ResultStore) -> None:
    """Print the mean over pre-training seeds, and the differences to the baselines."""

    def frame(place: int, protocol: str) -> pandas.DataFrame:
        rows = [
            {"run": run.name, "method": run.spec.method, "seed": run.spec.seed, "evaluation": records[protocol]["id"]}
            | {"predictions": records[protocol]["predictions"], "accuracy": records[protocol]["metrics"]["accuracy"]}
            for run, records in (seed_results.pairs[place] for seed_results in found)
        ]
        return pandas.DataFrame(rows).drop_duplicates("run")

    def mean(shares: Sequence[float]) -> str:
        if len(shares) < SEEDS:
            each = ", ".join(f"{100 * share:.1f}" for share in shares)
            return f"{fmean(shares):.1%}" + (f" ({each})" if len(shares) > 1 else "")
        return f"{fmean(shares):.1%} ± {100 * t_half_width(stdev(shares), len(shares)):.1f}"

    (run, records), *others = found[0].pairs
    rows, tests = [], list[SeedsTest]()
    for protocol in records:
        own = frame(0, protocol)
        rows.append([protocol, run.title, mean(list(own["accuracy"])), "", ""])
        for place, (control, _) in enumerate(others, 1):
            test = paired_over_seeds(store, own, their := frame(place, protocol))
            if test is None:
                continue
            tests.append(test)
            rows.append(["", control.title, mean(list(their["accuracy"])), *cells_of(test)])
    seeds = ", ".join(str(seed_results.pairs[0][0].spec.seed) for seed_results in found)
    how = "in parentheses: each seed" if len(found) < SEEDS else "±: 95 % t interval over seeds"
    title = f"\nMean over {len(found)} pre-training seeds ({seeds}); {how}"
    out.print(accuracy_table(run.title, rows, title))
    print_basis(tests)
