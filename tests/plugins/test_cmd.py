from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from official_recurrent import clips, public_encoder, sines
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.cmd import CMD, CMDConfig

from skelbench.methods import STREAMS, Context, Step
from skelbench.pipeline.checkpoint_file import fit, read_checkpoint
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.streams import as_stream

T, H, B, E, K = 6, 8, 4, 6, 8


def make(**settings):
    """A tiny CMD of the recurrent encoder whose numbers are sines."""

    def encoder():
        return BiGRU(BiGRUConfig(hidden=H), NTU25, Grid(T, 1, 25))

    method = CMD(CMDConfig(**{"queue": K, "embedding": E} | settings), Context(NTU25, Grid(T, 1, 25), encoder))
    method.load_state_dict(sines(method.state_dict()))
    keys_KE = method.queue.keys_KE
    keys_KE.copy_(torch.cat([F.normalize(x_KE, dim=1) for x_KE in keys_KE.chunk(3, 1)], 1))
    return method.train()


def views(query_BMTJC, key_BMTJC):
    found = {}
    for name, x_BMTJC in (("query", query_BMTJC), ("key", key_BMTJC)):
        for stream in STREAMS:
            found[f"{name}-{stream}"] = View.of(as_stream(x_BMTJC, stream, NTU25, 2, 3), x_BMTJC.flatten(2).any(2))
    return found


def at(index):
    return Step(index, 9, 0.0, torch.Generator(), lambda *_: None)


def test_loss_and_gradient_of_the_public_code():
    """Made by running maoyunyao/CMD (commit 6e9a8ac), ``moco.builder_cmd.MoCo`` with these weights, clips and queues
    (K = 8, topk = 4) and without its first momentum update, which changes nothing: its encoders begin alike."""
    method = make()
    out = method(views(clips(B, T), clips(B, T, 1)), at(K // B))
    assert out["contrast"].item() == pytest.approx(GOLDEN["contrast"], rel=1e-5)
    assert out["distillation"].item() == pytest.approx(GOLDEN["distillation"], rel=1e-5)
    out["loss"].backward()
    for stream, encoder in method.encoders.items():
        found = encoder.first[0].weight_ih_l0.grad[0, :3].tolist()
        assert found == pytest.approx(GOLDEN[stream], rel=1e-3, abs=1e-7)


GOLDEN = {
    "contrast": 2.927794,
    "distillation": 20.117014,
    "joint": [0.00053651, -0.00082654, -0.00073672],
    "motion": [-0.0005911, 0.00142107, -0.00088017],
    "bone": [-0.00191364, 0.00060698, -0.00037871],
}


def test_the_loss_is_the_formula_from_the_first_step_on():
    """Clip by clip and key by key: nothing is taught before there are keys, and never more than were written."""
    method, written = make(nearest=0.75, distillation=0.5), {stream: [] for stream in STREAMS}
    for index in range(4):
        batch, step = views(clips(B, T, index), clips(B, T, index + 9)), at(index)
        with torch.no_grad():
            out = method(batch, step)
            side = {"query": (method.encoders, method.head), "key": (method.key_encoder, method.key_head)}
            z = {
                f"{name}-{s}": F.normalize(heads[s](encoders[s](batch[f"{name}-{s}"]).pooled_RD), dim=1).double()
                for name, (encoders, heads) in side.items()
                for s in STREAMS
            }
        contrast = taught = 0.0
        for b in range(B):
            for s in STREAMS:
                scores = torch.stack([z[f"query-{s}"][b] @ k for k in (z[f"key-{s}"][b], *written[s][-K:])]) / 0.07
                contrast += float(torch.logsumexp(scores, 0) - scores[0]) / B
            for u, v in permutations(STREAMS, 2):
                if not index:
                    continue
                teacher = [float(z[f"key-{u}"][b] @ k) for k in written[u][-K:]]
                near = sorted(range(len(teacher)), key=lambda i: -teacher[i])[:6]
                p = torch.tensor([teacher[i] / 0.05 for i in near]).softmax(0)
                q = torch.tensor([float(z[f"query-{v}"][b] @ written[v][-K:][i]) / 0.1 for i in near]).softmax(0)
                taught += float((p * (p / q).log()).sum()) / B
        assert out["contrast"].item() == pytest.approx(contrast, rel=1e-4, abs=1e-5)
        assert out["distillation"].item() == pytest.approx(taught, rel=1e-4, abs=1e-5)
        assert out["loss"].item() == pytest.approx(contrast + 0.5 * taught, rel=1e-4, abs=1e-5)
        method.after_step(step)
        for s in STREAMS:
            written[s] += list(z[f"key-{s}"])


def public(method):
    """Encoders of ``method`` under the names of the public code, and what else its files hold."""
    state = {"queue_ptr": torch.zeros(1, dtype=torch.int64), "queue": torch.zeros(E, K)}
    for stream, encoder in method.encoders.items():
        front = "encoder_q" if stream == "joint" else f"encoder_q_{stream}"
        state |= {f"{front}.fc.0.weight": torch.zeros(2 * H, 2 * H), f"encoder_k{front[9:]}.fc.0.bias": torch.zeros(2)}
        state |= public_encoder(encoder, front)
    return state


def test_an_imported_encoder_swaps_axes(tmp_path, host):
    """A file of the authors' layout gives the features that its weights have of the same clips with z up."""
    theirs, ours = make(), make()
    for parameter in ours.parameters():
        parameter.data.zero_()
    torch.save({"state_dict": public(theirs), "optimizer": {}, "epoch": 451}, tmp_path / "cmd.pth.tar")
    checkpoint = read_checkpoint(tmp_path / "cmd.pth.tar")
    found = host.load(host.get("methods", "cmd"), "imports")(checkpoint.state, checkpoint.options)
    assert checkpoint.epoch == 451 and found.settings == {"encoder.hidden": H, "encoder.depth": 3}
    assert not fit(ours, found.weights, "cmd.pth.tar"), "encoders alone"
    x, y, z = clips(B, T).unbind(-1)
    up, stored = views(torch.stack([x, -z, y], -1), clips(B, T)), views(clips(B, T), clips(B, T))
    for stream in STREAMS:
        with torch.no_grad():
            expected = theirs.encoders[stream].eval()(up[f"query-{stream}"]).pooled_RD
            features = ours.encoders[stream].eval()(stored[f"query-{stream}"]).pooled_RD
        torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-4)
