"""CrosSCLR against numbers of the public code, and its loss against a slow reference."""

from itertools import permutations

import official_graph
import pytest
import torch
import torch.nn.functional as F
from official import in_float64
from skelbench_plugins.crosclr import CrosSCLR, CrosSCLRConfig, imported
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.core.errors import SkelbenchError
from skelbench.methods import STREAMS, Context, Step
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.streams import as_stream

GOLDEN = {
    "alone": (0.7587819, 0.750266, 0.7608699, 0.0943177, 0.1024375, 0.0445035, 1.1853771),
    "mining": (2.4183898, 2.3884029, 2.3600321, 0.1837049, 0.1505513, 0.0189798, 1.1718975),
}
"""Losses of joints, motion and bones, and gradient norms of their first temporal convolutions and of the last layer of
the head, of LinguoLi/CrosSCLR (commit 792b70c), net/crossclr_3views.py, in training mode without dropout at temperature
0.5 on clips 1 (query) and 2 (key)."""
GRID, B, K = Grid(16, 1, 25), 4, 8


def made(**settings):
    torch.manual_seed(0)  # of some weights two keys are alike to seven digits, and either is the nearest
    encoder = STGCNConfig(base=4, out=12, dropout=0.0)
    config = CrosSCLRConfig(**{"queue": K, "embedding": 6, "temperature": 0.5} | settings)
    return CrosSCLR(config, Context(NTU25, GRID, lambda: STGCN(encoder, NTU25, GRID), 12, 12)).train()


def views(query, key):
    """Logits of ``official_graph.clips`` with these numbers."""
    both = {"query": official_graph.clips(query), "key": official_graph.clips(key)}
    return {f"{name}-{s}": View.of(as_stream(x, s, NTU25, 2, 3)) for name, x in both.items() for s in STREAMS}


def at(index, phase):
    return Step(index, 9, 0.0, torch.Generator(), lambda *_: None, phase=phase)


@pytest.mark.parametrize("phase", GOLDEN)
def test_the_step_equals_the_public_code(phase):
    method = made(head="nested-as-released")
    assert fit(method, imported(official_graph.three_streams(), {}).weights, "official_graph.three_streams")
    with in_float64():
        batch = {name: view.with_x(view.x_RTJC.double()) for name, view in views(1, 2).items()}
        out = method.double()(batch, at(2, phase))
    out["loss"].backward()
    weights = [encoder.blocks[0].time[2].weight for encoder in method.encoders.values()]
    norms = [float(weight.grad.norm()) for weight in (*weights, method.head["joint"][2].weight)]
    found = [float(out[f"contrast_{s}"].detach()) for s in STREAMS]
    assert found + norms == pytest.approx(GOLDEN[phase], rel=3e-4)
    assert float(out["loss"].detach()) == pytest.approx(sum(found), rel=1e-6)


@pytest.mark.parametrize("context", [True, False])
def test_the_loss_is_the_formula_from_the_first_step_on(context):
    """Clip by clip and key by key; one stream's positives are what another's queries are nearest to."""
    method, written = made(context=context, neighbors=2), {s: [] for s in STREAMS}
    for index, phase in enumerate(("mining", "mining", "alone", "mining")):
        batch, step = views(index, index + 9), at(index, phase)
        with torch.no_grad():
            out = method(batch, step)
            side = {"query": (method.encoders, method.head), "key": (method.key_encoder, method.key_head)}
            z = {
                (name, s): F.normalize(heads[s](encoders[s](batch[f"{name}-{s}"]).clip_summary(batch[f"{name}-{s}"])))
                for name, (encoders, heads) in side.items()
                for s in STREAMS
            }
        keys = {s: written[s][-K:] for s in STREAMS}
        expected = 0.0
        for b in range(B):
            own = {s: float(z["query", s][b] @ z["key", s][b]) for s in STREAMS}
            alike = {s: [float(z["query", s][b] @ key) for key in keys[s]] for s in STREAMS}
            if phase == "alone":
                for s in STREAMS:
                    scores = torch.tensor([own[s], *alike[s]]) / 0.5
                    expected += float(scores.logsumexp(0) - scores[0]) / B
                continue
            for s, other in permutations(STREAMS, 2):
                near = sorted(range(len(alike[other])), key=lambda i: -alike[other][i])[:2]
                scores, positives = [own[s], *alike[s]], [0, *(1 + i for i in near)]
                if context:
                    positives += [len(scores) + i for i in near]
                    scores += [x * y for x, y in zip(alike[s], alike[other])]
                log_p = (torch.tensor(scores) / 0.5).log_softmax(0)
                expected -= float(log_p[positives].mean()) / 2 / B
        assert float(out["loss"]) == pytest.approx(expected, rel=1e-4, abs=1e-5)
        method.after_step(step)
        for s in STREAMS:
            written[s] += list(z["key", s])


def test_public_checkpoints_are_read_by_name_and_shape():
    state = official_graph.three_streams()
    read = imported(state, {})
    sizes = {"encoder.base": 4, "encoder.out": 12, "encoder.kernel": 9, "method.embedding": 6, "method.queue": 8}
    assert read.settings == sizes | {"method.head": "nested-as-released"} and not read.leftover
    assert torch.equal(read.weights["queue.keys_KE"][:, 6:12], state["queue_motion"].T)
    with pytest.raises(SkelbenchError, match="encoder of bone"):
        imported(state | official_graph.encoder_state("encoder_q_bone", 0.0, out=16), {})
