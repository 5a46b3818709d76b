"""Shared parts of tests of methods with several levels of one encoder (HiCo, SCD-Net): clips, copies, trained parts."""

import official
import torch

from skelbench.methods import Step
from skelbench.views import View

CLIPS, FRAMES = 4, 8


def views(seed=0):
    """``query`` and ``key``: other coordinates of the same bodies; the second body of some clips is absent."""
    made = {}
    for name, phase in (("query", seed), ("key", seed + 9)):
        wave_BMTJC = torch.from_numpy(official.wave((CLIPS, 2, FRAMES, 25, 3), phase)).float()
        x_BMTJC = official.clip(CLIPS, FRAMES) * (1 + 0.3 * wave_BMTJC)
        made[name] = View.of(x_BMTJC, x_BMTJC.flatten(2).any(2))
    return made


def at(index):
    return Step(index, 9, 0.0, torch.Generator(), lambda *_: None)


def filled(method):
    """``method`` with numbers that are sines; key encoder and heads are copies."""
    official.fill(method)
    for keys, queries in ((method.key_encoder, method.encoder), (method.key_heads, method.heads)):
        keys.load_state_dict(queries.state_dict())
    return method


def embedded(method, batch):
    """float64 embeddings by level: of queries and of keys."""
    ways = {"query": (method.encoder, method.heads), "key": (method.key_encoder, method.key_heads)}
    for name, parts in ways.items():
        yield {level: x.double() for level, x in method._embeddings(*parts, batch[name]).items()}


def check_what_follows_and_what_learns(method):
    """All that gets a gradient is trained; of momentum 0.75, key heads go a quarter of the way of the heads."""
    step = at(2)
    before = {name: x.clone() for name, x in method.key_heads.state_dict().items()}
    method(views(), step)["loss"].backward()
    trained = {id(p) for group in method.optim_groups() for p in group["params"]}
    assert trained == {id(p) for p in method.parameters() if p.grad is not None}
    with torch.no_grad():
        for p in method.heads.parameters():
            p.add_(1.0)
    method.after_step(step)
    for name, x in method.heads.state_dict().items():
        torch.testing.assert_close(method.key_heads.state_dict()[name], 0.75 * before[name] + 0.25 * x)
