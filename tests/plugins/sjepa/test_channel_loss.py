import math

import torch
from skelbench_plugins.sjepa.channel_loss import channel_cross_entropy

TEMPS = {"target_temp": 0.06, "predicted_temp": 0.1}


def softmax(values):
    largest = max(values)
    powers = [math.exp(value - largest) for value in values]
    return [power / sum(powers) for power in powers]


def slow(predicted, target, centre, target_temp, predicted_temp):
    shares = softmax([(t - c) / target_temp for t, c in zip(target, centre)])
    guesses = softmax([p / predicted_temp for p in predicted])
    return -sum(share * math.log(guess) for share, guess in zip(shares, guesses))


def test_it_is_the_formula_token_by_token():
    torch.manual_seed(0)
    predicted, target, centre = torch.randn(2, 5, 7), torch.randn(2, 5, 7), torch.randn(7)
    out = channel_cross_entropy(predicted.double(), target.double(), centre.double(), **TEMPS)
    expected = [
        [slow(p, t, centre.tolist(), 0.06, 0.1) for p, t in zip(*rows)]
        for rows in zip(predicted.tolist(), target.tolist())
    ]
    torch.testing.assert_close(out, torch.tensor(expected, dtype=torch.float64))


def test_the_gradient_is_the_difference_of_the_distributions_and_stops_at_the_target():
    predicted, target, centre = (torch.randn(3, 6, requires_grad=True) for _ in range(3))
    channel_cross_entropy(predicted, target, centre[0], **TEMPS).sum().backward()
    difference = (predicted / 0.1).softmax(-1) - ((target - centre[0]) / 0.06).softmax(-1)
    torch.testing.assert_close(predicted.grad, difference / 0.1)
    assert target.grad is None and centre.grad is None
