"""The probe of HYSP's code."""

import math

import numpy as np
import pytest
import torch
from skelbench_plugins.hysp.probe import HYSPLinear

EDGE = 1 - 1e-5


def add(x, y):
    """Möbius addition of [..., D]."""
    xy, xx, yy = ((a * b).sum(-1, keepdims=True) for a, b in ((x, y), (x, x), (y, y)))
    return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy)


def norm(x):
    return np.sqrt((x * x).sum(-1, keepdims=True))


def kept(x, edge=EDGE):
    return x * np.minimum(1, edge / norm(x))


def layer(x, weight, bias):
    """src/net/utils/hyperbolic.py in float64: features into the ball, ``mobius_matvec``, the bias."""
    x = kept(np.tanh(norm(x)) * x / norm(x))
    mx = x @ weight.T
    return kept(add(np.tanh(norm(mx) / norm(x) * np.arctanh(norm(x))) * mx / norm(mx), bias))


def loss(x, y, weight, bias):
    logits = layer(x, weight, bias)
    return np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(y)), y])


def slopes(x, y, *at, h=1e-6):
    """Gradients of :func:`loss` by weight and bias, as central differences."""
    out = [np.zeros_like(each) for each in at]
    for which, each in enumerate(at):
        for i in np.ndindex(each.shape):
            there, back = ([np.array(one) for one in at] for _ in range(2))
            there[which][i] += h
            back[which][i] -= h
            out[which][i] = (loss(x, y, *there) - loss(x, y, *back)) / (2 * h)
    return out


def reference(config, features, seed):
    """Weight and bias after the last epoch, by SGD with momentum: gradients by differences, one number at a time."""
    D, C, n = features.train_x.shape[1], features.num_classes, len(features.train_y)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(C, D, generator=generator).double().numpy() * 0.01 / math.sqrt(2 * C * D)
    bias = torch.randn(C, generator=generator).double().numpy() / 400
    bias = np.tanh(norm(bias)) * bias / norm(bias)
    momenta = None
    for epoch in range(config.epochs):
        order = torch.randperm(n, generator=generator).numpy()
        for start in range(0, n - config.batch_size + 1, config.batch_size):
            chosen = order[start : start + config.batch_size]
            x, y = features.train_x[chosen].astype(np.float64), features.train_y[chosen]
            of_weight, plain = slopes(x, y, weight, bias)
            of_bias = plain
            if config.optimizer == "riemannian":
                of_bias = of_bias * ((1 - bias @ bias) / 2) ** 2
                momenta = (of_weight, plain) if momenta is None else momenta
            momenta = (0.0, 0.0) if momenta is None else momenta
            momenta = 0.9 * momenta[0] + of_weight, 0.9 * momenta[1] + of_bias
            lr = config.rate(epoch)
            weight, before, bias = weight - lr * momenta[0], bias, bias - lr * momenta[1]
            if config.optimizer == "riemannian":
                bias = kept(bias, 1 - 4e-3)
                size = 1e-4 / norm(momenta[1])  # gyration is linear, and by its definition only for points of the ball
                inner = add(bias, add(-before, size * momenta[1]))
                turned = add(-add(bias, -before), inner) / size
                momenta = momenta[0], turned * (1 - bias @ bias) / (1 - before @ before)
    return weight, bias


@pytest.mark.parametrize("optimizer", ["sgd", "riemannian"])
def test_the_probe_equals_the_codes_layer_and_sgd(make_features, optimizer):
    features = make_features(n_train=60, n_test=20, classes=3, width=4, separation=1.0)
    config = HYSPLinear(epochs=4, batch_size=16, lr=1.0, optimizer=optimizer, val_share=0)
    result = config.evaluate(features, 3, "cpu")
    weight, bias = reference(config, features, 3)
    assert norm(bias) > 0.05
    expected = layer(features.test_x.astype(np.float64), weight, bias)
    np.testing.assert_allclose(result.logits, expected, rtol=2e-3, atol=1e-5)
    assert (norm(expected) < 1).all()
