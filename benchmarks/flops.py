"""Count the costs that ``skelbench compare --table flops`` shows, and write or check the file that ships with them.

``python -m benchmarks.flops`` writes it (about five minutes); ``--check`` counts and compares, exit code 1 for a
difference.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

from skelbench.evaluation.cost.cache import SHIPPED, key_of
from skelbench.evaluation.cost.count import MacCount, flops_grids
from skelbench.evaluation.cost.report import flops_rows
from skelbench.plugin.host import get_host


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    host, encoders, rows = get_host(), dict[Any, MacCount](), dict[str, Any]()
    pairs = [pair for pair in flops_grids(host) if host.origin(pair[0]).source_hash is None]
    for place, (method, grid) in enumerate(pairs, 1):
        (row,) = flops_rows(host, [(method, grid)], encoders)
        rows[key_of(method, grid)] = asdict(row)
        print(f"{place}/{len(pairs)} {method.name} {row.tokens}", flush=True)
    if not check:
        SHIPPED.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(rows[key])}" for key in rows) + "\n}\n")
        return
    shipped = json.loads(SHIPPED.read_text())
    for row in (*shipped.values(), *rows.values()):
        row["encoder"]["versions"] = {}  # of the counters
    other = [key for key in {**shipped, **rows} if shipped.get(key) != json.loads(json.dumps(rows.get(key)))]
    print("\n".join(other) or f"{len(rows)} counts are as they ship")
    raise SystemExit(bool(other))


if __name__ == "__main__":
    main()
