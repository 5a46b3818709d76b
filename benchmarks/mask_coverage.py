"""Coverage of Semantic Tube Masking compared with the paper's numbers: ``python -m benchmarks.mask_coverage``."""

from __future__ import annotations

import argparse
import time

import torch

from skelbench.views.keyed import Keyed
from skelbench.views.masks import MaskRows
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.tubes import Tube

PAPER = (0.695, 0.114, 0.485, 0.895)
"""Mean, standard deviation, smallest, largest over 11,520 masks of the 8 x 25 grid (paper, section C)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--masks", type=int, default=11_520)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    grid = Grid(64, 8, NTU25.num_joints)
    keys = torch.arange(arguments.masks)
    print(f"{arguments.masks:,} masks on the {grid.times} x {grid.joints} grid, seed {arguments.seed}, one thread")
    print(f"{'spans':<10} {'stop':<11} {'mean':>6} {'std':>6} {'min':>6} {'max':>6} {'seconds':>8}")
    for spans in ("connected", "ordered"):
        for stop in ("clip", "printed", "as-released"):
            request = MaskRows(Tube(stop=stop, spans=spans), grid, keys, torch.zeros_like(keys))
            begin = time.perf_counter()
            mask = Tube.draw_all([request], NTU25, Keyed(arguments.seed, 0))[0].mask_RN
            seconds = time.perf_counter() - begin
            share = mask.double().mean(1)
            row = " ".join(f"{float(value):6.3f}" for value in (share.mean(), share.std(), share.min(), share.max()))
            print(f"{spans:<10} {stop:<11} {row} {seconds:8.2f}")
    print(f"{'published':<22} " + " ".join(f"{value:6.3f}" for value in PAPER))


if __name__ == "__main__":
    main()
