import pytest
import torch
import torch.nn.functional as F
from official import noise
from official_recurrent import clips, public_encoder, sines
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.halp import POINTS, HaLP, HaLPConfig
from skelbench_plugins.halp.sphere import prototypes

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Context, Step
from skelbench.methods.recurrent_contrast import imported
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, H, B, E, K, G = 6, 8, 4, 6, 8, 5


def make(**settings):
    """A tiny HaLP of the recurrent encoder whose numbers are sines; keys and prototypes are unit vectors."""

    def encoder():
        return BiGRU(BiGRUConfig(hidden=H), NTU25, Grid(T, 1, 25))

    sizes = {"queue": K, "embedding": E, "clusters": 5, "newest": 6, "positives": G}
    method = HaLP(HaLPConfig(**sizes | settings), Context(NTU25, Grid(T, 1, 25), encoder))
    method.load_state_dict(sines(method.state_dict()))
    for x in (method.queue.keys_KE, method.prototype_KE):
        x.copy_(F.normalize(x, dim=1))
    return method.train()


def views(index=0):
    keys_R = torch.arange(2 * B)
    return {name: View.of(clips(B, T, index + 9 * (name == "key")), keys_R=keys_R) for name in ("query", "key")}


def at(index, total=99):
    return Step(index, total, index / total, torch.Generator(), lambda keys, n, op=0: noise(len(keys), n))


def test_loss_and_gradient_of_the_public_code():
    """Made by running anshulbshah/HaLP (commit ae460b4), ``moco.builder_single_modality_halp.MoCo`` with these weights,
    clips, queue, prototypes and draws, and mu = 2."""
    method = make()
    out = method(views(), at(6))
    assert out["contrast"].item() == pytest.approx(GOLDEN["contrast"], rel=1e-5)
    assert -2 * out["attraction"].item() == pytest.approx(GOLDEN["attraction"], rel=1e-5)
    assert out["kept"].item() == pytest.approx(GOLDEN["kept"])
    out["loss"].backward()
    found = method.encoder.first[0].weight_ih_l0.grad[0, :3].tolist()
    assert found == pytest.approx(GOLDEN["gradient"], rel=1e-3, abs=1e-7)


GOLDEN = {
    "contrast": 0.140281,
    "attraction": -26.022451,
    "kept": 0.7,
    "gradient": [-0.00032376, 0.00066097, 0.00025112],
}


def boundary(key, own, other):
    """The point of the great circle from ``key`` to ``other`` as near to ``other`` as to ``own``, by bisection."""
    angle = torch.acos(key @ other)
    low, high = 0.0, 1.0
    for _ in range(60):
        t = (low + high) / 2
        point = (torch.sin((1 - t) * angle) * key + torch.sin(t * angle) * other) / torch.sin(angle)
        low, high = (t, high) if point @ own > point @ other else (low, t)
    return low, angle


def test_points_have_the_documented_positions():
    """One by one; the loss is momentum contrast minus the mean cosine with the points that are kept."""
    method, step = make(reach=0.5), at(6)
    method.prototype_KE.copy_(F.normalize(torch.eye(E)[:5] + 0.3, dim=1))  # no right angle on the way
    with torch.no_grad():
        query_BE, key_BE = (
            F.normalize(head(encoder(views()[name]).pooled_RD), dim=1).double()
            for name, encoder, head in (
                ("query", method.encoder, method.head),
                ("key", method.key_encoder, method.key_head),
            )
        )
        key_BE = F.normalize(key_BE + 2 * method.prototype_KE[[0, 1, 2, 0]].double(), dim=1)
        method.keys = lambda view, step: (key_BE.float(), method.queue.keys_KE)
        out = method(views(), step)
    center = method.prototype_KE.double()
    u_BG2 = step.uniform(views()["key"].keys_B, 2 * G, op=POINTS).unflatten(1, (G, 2)).double()
    like = []
    for b in range(B):
        order = (center @ key_BE[b]).argsort(descending=True).tolist()
        for which, u in u_BG2[b]:
            other = center[order[1 + int(which * 4)]]
            most, angle = boundary(key_BE[b], center[order[0]], other)
            t = (1 - 0.5 * u) * most
            point = (torch.sin((1 - t) * angle) * key_BE[b] + torch.sin(t * angle) * other) / torch.sin(angle)
            assert point.norm() == pytest.approx(1)
            if (center @ point).argmax() == order[0]:
                like.append(float(point @ query_BE[b]) / 0.07)
    assert out["attraction"].item() == pytest.approx(sum(like) / len(like), rel=1e-4)
    assert out["kept"].item() == pytest.approx(len(like) / (B * G))
    assert out["loss"].item() == pytest.approx(out["contrast"].item() - 2 * out["attraction"].item(), rel=1e-5)


def test_prototypes_are_means_of_their_keys_along_great_circles():
    generator = torch.Generator().manual_seed(0)
    center_5E = F.normalize(torch.randn(5, 16, generator=generator), dim=1)
    x_nE = F.normalize(center_5E[torch.arange(60) % 5] + 0.08 * torch.randn(60, 16, generator=generator), dim=1)
    u_5 = torch.rand(5, generator=generator)
    found = prototypes(x_nE, u_5).double()
    nearest = (x_nE.double() @ found.T).argmax(1)
    used = nearest.unique().tolist()
    for k in used:
        members = x_nE[nearest == k].double()
        cosine = members @ found[k]
        ways = (torch.acos(cosine) / torch.sqrt(1 - cosine**2))[:, None] * (members - cosine[:, None] * found[k])
        assert ways.mean(0).norm() < 1e-6
    assert found.norm(dim=1).tolist() == pytest.approx([1.0] * 5)
    assert len(used) >= 4


def test_a_file_of_the_public_layout_is_read():
    theirs, ours = make(), make()
    state = public_encoder(theirs.encoder, "encoder_q") | {"queue": torch.zeros(E, K), "prototypes": torch.zeros(5, E)}
    state |= {"encoder_k.fc.0.bias": torch.zeros(2), "recons_decoder.decoder.weight_hh_l0": torch.zeros(6, 2)}
    read = imported(state | {"mp_prompt": torch.zeros(1, 256)}, {})
    assert read.settings == {"encoder.hidden": H, "encoder.depth": 3}
    assert len(read.leftover) == 5 and not fit(ours, read.weights, "halp.pth.tar")
    x, y, z = clips(B, T).unbind(-1)
    with torch.no_grad():
        expected = theirs.encoder.eval()(View.of(torch.stack([x, -z, y], -1))).pooled_RD
        torch.testing.assert_close(ours.encoder.eval()(View.of(clips(B, T))).pooled_RD, expected, atol=1e-5, rtol=1e-4)
    with pytest.raises(SkelbenchError, match="'encoder_q_motion.fc.0.bias' is of another model"):
        imported(state | {"encoder_q_motion.fc.0.bias": torch.zeros(2)}, {})
