"""Summary of ``skelbench run --seeds``: means over pre-training seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

import pandas

from skelbench.cli.summary import print_basis
from skelbench.core.console import make_table, out
from skelbench.evaluation.outcomes import paired_over_seeds
from skelbench.evaluation.stats.paired import SeedsTest, t_half_width
from skelbench.pipeline.controls import Conclusion
from skelbench.records.store import ResultStore


def print_seeds(found: Sequence[Conclusion], store: ResultStore) -> None:
    """Print the mean over pre-training seeds with its t interval, and the differences to the baselines."""

    def frame(place: int, protocol: str) -> pandas.DataFrame:
        rows = [
            {"run": run.name, "method": run.spec.method, "seed": run.spec.seed, "evaluation": records[protocol]["id"]}
            | {"predictions": records[protocol]["predictions"], "accuracy": records[protocol]["metrics"]["accuracy"]}
            for run, records in (seed_results.pairs[place] for seed_results in found)
        ]
        return pandas.DataFrame(rows).drop_duplicates("run")

    def mean(shares: Sequence[float], scale: float = 100) -> str:
        half = t_half_width(stdev(shares), len(shares))
        return f"{scale * fmean(shares):.1f} ± {scale * half:.1f}"

    run, records = found[0].pairs[0]
    columns, rows, tests = ["probe", f"{run.title}, %"], [], list[SeedsTest]()
    columns += ["control", "difference, points", "95 % interval", "paired p"] if len(found[0].pairs) > 1 else []
    for protocol in records:
        own = frame(0, protocol)
        start = [protocol, mean(list(own["accuracy"]))]
        for place, (control, _) in enumerate(found[0].pairs[1:], 1):
            test = paired_over_seeds(store, own, frame(place, protocol))
            if test is None or test.half_width is None:
                continue
            tests.append(test)
            low, high = test.interval
            difference = f"{100 * test.difference:+.1f} ± {100 * test.half_width:.1f}"
            p = f"{test.p_value:.2g}" if test.p_value >= 1e-4 else "< 0.0001"
            rows.append([*start, control.title, difference, f"[{100 * low:+.1f}, {100 * high:+.1f}] {test.over}", p])
            start = ["", ""]
        if start[0]:
            rows.append(start)
    seeds = ", ".join(str(seed_results.pairs[0][0].spec.seed) for seed_results in found)
    title = f"\nMean over {len(found)} pre-training seeds ({seeds}); ±: 95 % t interval over seeds"
    out.print(make_table(columns, rows, title=title))
    print_basis(tests)
