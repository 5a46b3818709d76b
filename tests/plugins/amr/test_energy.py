import pytest
import torch
from skelbench_plugins.amr.energy import energy_weights


def energies(x_TC, window):
    """One joint, by the definition: a list with the energy of each window."""
    out = []
    for start in range(0, len(x_TC), window):
        points = x_TC[start : start + window].tolist()
        centre = [sum(p[c] for p in points) / len(points) for c in range(3)]
        out.append(sum(sum((p[c] - centre[c]) ** 2 for c in range(3)) for p in points) / len(points))
    return out


@pytest.mark.parametrize("frames", [24, 22])  # 22: windows of 4, 8 and 12 all end short
@pytest.mark.parametrize("mean_over", ["body", "joint"])
@pytest.mark.parametrize("fuse", ["mean", "max", "product"])
def test_weights_by_loops(frames, mean_over, fuse):
    x = torch.randn(2, frames, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[:, :, 1] *= 0.1
    windows, k, eps = (4, 8, 12), 0.7, 1e-3
    weights = energy_weights(x.float(), windows, k, fuse, mean_over, eps)
    assert weights.shape == (2, frames, 3)
    for r in range(2):
        found = {(n, j): energies(x[r, :, j], n) for n in windows for j in range(3)}
        for j in range(3):
            for t in range(frames):
                each = []
                for n in windows:
                    pool = [e for i in (range(3) if mean_over == "body" else [j]) for e in found[n, i]]
                    mean = sum(pool) / len(pool)
                    each.append(1 / (1 + k * mean / (found[n, j][t // n] + eps)))
                expected = {"mean": sum(each) / 3, "max": max(each), "product": each[0] * each[1] * each[2]}[fuse]
                assert weights[r, t, j].item() == pytest.approx(expected, rel=1e-4)
