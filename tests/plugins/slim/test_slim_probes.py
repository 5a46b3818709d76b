"""``linear@slim-release``: a grid of probes, by literal loops, and the worth of selection on test, by simulation."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from skelbench_plugins.slim.probes import SlimReleaseLinear, selection_gain

from skelbench.evaluation.protocol import Features
from skelbench.views.keyed import Keyed


def test_the_grid_is_literal_sgd_and_chooses_on_held_out_clips(make_features):
    features = make_features(n_train=60, n_test=40, width=10, classes=3, separation=0.7)
    subjects = np.arange(60) % 6
    features = Features(**{**vars(features), "train_subjects": subjects})
    protocol = SlimReleaseLinear(rates=(0.01, 0.3), steps=8, batch_size=16, fixed_rate=0.3)
    result = protocol.evaluate(features, 3, "cpu")

    generator = torch.Generator().manual_seed(3)
    weights = []
    for first, last in ((3, 4), (3, 5), (0, 4), (0, 5)):
        weights.append((slice(2 * first, 2 * last), 0.01 * torch.randn(2, 2 * (last - first), 3, generator=generator)))
    x_test, on_test = torch.from_numpy(features.test_x).double(), []
    orders, passes = [], 2
    for _ in range(passes):
        orders.append(torch.randperm(60, generator=generator))
    for columns, weight_GDC in weights:
        for g, peak in enumerate((0.01, 0.3)):
            weight = weight_GDC[g].double().requires_grad_(True)
            bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
            optimizer = torch.optim.SGD([weight, bias], lr=peak, momentum=0.9)
            step = 0
            for number, order in enumerate(orders):
                x = torch.from_numpy(features.again(Keyed(3, number), None, ())).double()[:, columns]
                for chosen in order.split(16):
                    optimizer.param_groups[0]["lr"] = peak * 16 / 256 * 0.5 * (1 + math.cos(math.pi * step / 8))
                    loss = F.cross_entropy(x[chosen] @ weight + bias, torch.from_numpy(features.train_y)[chosen])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    step += 1
            predicted = (x_test[:, columns] @ weight + bias).argmax(1)
            on_test.append(float((predicted == torch.from_numpy(features.test_y)).double().mean()))
    assert [row["test_accuracy"] for row in result.curve] == pytest.approx(on_test, abs=1 / 40 + 1e-9)
    assert result.metrics["accuracy_best_on_test"] == max(row["test_accuracy"] for row in result.curve)
    (chosen,) = (row for row in result.curve if row["chosen"])
    assert result.metrics["accuracy"] == chosen["test_accuracy"]
    assert chosen["val_accuracy"] == max(row["val_accuracy"] for row in result.curve)
    assert result.metrics["accuracy_fixed"] == result.curve[3]["test_accuracy"]
    gain = result.metrics["accuracy_best_on_test"] - result.metrics["accuracy"]
    assert result.metrics["selection_gain"] == pytest.approx(gain)


def test_gain_by_selection_agrees_with_a_simulation():
    """The best of eight probes that are equally good and disagree on 4 % of the clips."""
    rng, clips, disagreement = np.random.default_rng(0), 4000, 0.04
    # Each probe flips its own 1 - sqrt(1 - 2 d) over 2 of the clips of a common pattern: two disagree on a fraction d.
    flip = (1 - math.sqrt(1 - 2 * disagreement)) / 2
    gains = []
    for _ in range(400):
        right = rng.random(clips) < 0.5
        scores = [(right ^ (rng.random(clips) < flip)).mean() for _ in range(8)]
        gains.append(max(scores) - np.mean(scores))
    error = 5 * np.std(gains) / math.sqrt(len(gains))
    assert abs(np.mean(gains) - selection_gain(disagreement, clips)) < error
