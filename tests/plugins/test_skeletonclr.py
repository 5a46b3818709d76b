import official_graph
import pytest
import torch
from official import in_float64
from skelbench_plugins.skeletonclr import SkeletonCLR
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.core.errors import SkelbenchError
from skelbench.methods import MomentumContrastConfig, Step
from skelbench.methods.contract import Context
from skelbench.methods.momentum_contrast import imported
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GOLDEN = 0.7587819, 0.0943177, 0.4446295
"""Loss, and gradient norms of the first temporal convolution and of the head's last layer, of LinguoLi/CrosSCLR (commit
792b70c), net/skeletonclr.py, in training mode without dropout at temperature 0.5 on clips 1 (query) and 2 (key)."""


def test_the_step_equals_the_public_code():
    state = official_graph.state()
    read, grid = imported(state, {}), Grid(16, 1, 25)
    sizes = {name.split(".")[1]: value for name, value in read.settings.items() if name.startswith("encoder.")}
    config = MomentumContrastConfig(queue=8, embedding=6, temperature=0.5)
    encoder = STGCNConfig(**sizes, dropout=0.0)
    method = SkeletonCLR(config, Context(NTU25, grid, lambda: STGCN(encoder, NTU25, grid), 12, 12))
    assert fit(method, read.weights, "official_graph.state")
    views = {name: View.of(official_graph.clips(k).double()) for name, k in (("query", 1), ("key", 2))}
    with in_float64():
        loss = method.double()(views, Step(2, 9, 0.0, torch.Generator(), lambda *_: None))["loss"]
    loss.backward()
    gradients = method.encoder.blocks[0].time[2].weight.grad, method.head[2].weight.grad
    assert [float(loss.detach()), *(float(g.norm()) for g in gradients)] == pytest.approx(GOLDEN, rel=2e-4)


def test_checkpoints_are_read_by_name_and_shape():
    state = official_graph.state()
    read = imported(state, {})
    assert read.settings == {
        "encoder.base": 4, "encoder.out": 12, "encoder.kernel": 9, "method.embedding": 6, "method.queue": 8
    }  # fmt: skip
    assert len(read.weights) == len(state) - 3 and not read.leftover  # two adjacencies, the queue's pointer
    classifier = {name: x for name, x in state.items() if name.startswith("encoder_q") and ".fc." not in name}
    classifier |= {"encoder_q.fc.weight": torch.zeros(60, 12), "encoder_q.fc.bias": torch.zeros(60)}
    read = imported(classifier, {})
    assert all(name.startswith("encoder.") for name in read.weights)
    assert read.leftover == ("encoder_q.fc.weight", "encoder_q.fc.bias")
    with pytest.raises(SkelbenchError, match="belongs to another model"):
        imported(state | {"encoder_q_motion.data_bn.weight": torch.zeros(75)}, {})


@pytest.fixture
def training(resolved, host):
    from skelbench.training.build import build_method

    made = resolved("skeletonclr", queue=24)
    return made, build_method(made.spec, host, made.store.topology)


def batch(topology, seed, clips=4):
    x = torch.randn(clips, 2, 64, topology.num_joints, 3, generator=torch.Generator().manual_seed(seed))
    valid = torch.tensor([[True, True], [True, False], [True, False], [True, True]])
    return View.of(x, valid)


def test_loss_is_info_nce_over_clips_and_the_keys_written_so_far(training):
    made, method = training
    topology = made.store.topology
    written = []
    for index in range(9):  # 36 keys: the queue of 24 wraps around
        step = Step(index, 10, 0.0, torch.Generator(), lambda *_: None)
        views = {"query": batch(topology, 2 * index), "key": batch(topology, 2 * index + 1)}
        with torch.no_grad():
            out = method(views, step)["loss"]
            embeddings = {}
            for name, encoder, head in (
                ("query", method.encoder, method.head),
                ("key", method.key_encoder, method.key_head),
            ):
                view, each = views[name], []
                feature_RD = encoder(view).summary_RD
                for clip in range(4):
                    own = [feature_RD[r] for r in range(view.rows) if view.clip_R[r] == clip]
                    each.append(torch.nn.functional.normalize(head(sum(own) / len(own)), dim=0))
                embeddings[name] = each
            losses = []
            for query, key in zip(embeddings["query"], embeddings["key"]):
                scores = torch.stack([query @ other for other in (key, *written[-24:])]) / 0.07
                losses.append(torch.logsumexp(scores, 0) - scores[0])
            assert out == pytest.approx(float(sum(losses) / 4), rel=1e-4, abs=1e-5)
            method.after_step(step)
            written += embeddings["key"]
