"""ISC against numbers of the public code and against its formula; its second encoder from settings to readout."""

import re

import official
import pytest
import torch
import torch.nn.functional as F
from skelbench_plugins.agcn import AGCN, AGCNConfig
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.hcn import HCN, HCNConfig
from skelbench_plugins.isc import ISC, ISCConfig
from skelbench_plugins.isc.files import GRAPH, IMAGE

import skelbench
from skelbench.methods import Context, Step
from skelbench.pipeline.checkpoint_file import fit, read_checkpoint
from skelbench.pipeline.evaluate import eval_spec, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.training.build import build_method
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, H, B, E, K = 6, 8, 4, 6, 8
KINDS = {
    "bigru": lambda grid: BiGRU(BiGRUConfig(hidden=H, input_norm=False), NTU25, grid),
    "agcn": lambda grid: AGCN(AGCNConfig(base=4), NTU25, grid),
    "hcn": lambda grid: HCN(HCNConfig(channels=4, image=16, dropout=0), NTU25, grid),
}


def make(first="bigru", partner="agcn", frames=T, **settings):
    """A tiny ISC whose numbers are sines."""
    grid = Grid(frames, 1, 25)

    def encoder(name=first, settings=None):
        return KINDS[name](grid)

    method = ISC(
        ISCConfig(**{"queue": K, "embedding": E, "partner": partner} | settings), Context(NTU25, grid, encoder)
    )
    state = method.state_dict()
    for k, (name, x) in enumerate(sorted(state.items())):
        gain = "norm.weight" in name or "running_var" in name or re.search(r"(time|residual)\.1\.weight", name)
        if x.dim():
            state[name] = bool(gain) + torch.from_numpy(0.3 * official.wave(x.shape, 0.2 * k)).float()
    keys_KE = state["queue.keys_KE"]
    state["queue.keys_KE"] = torch.cat([F.normalize(x_KE, dim=1) for x_KE in keys_KE.chunk(2, 1)], 1)
    method.load_state_dict(state)
    return method.train()


def clips(seed=0, frames=T):
    x_BMTJC = official.clip(B, frames)
    return x_BMTJC * (1 + 0.3 * torch.from_numpy(official.wave((B, 1, frames, 25, 3), seed))).float()


def views(query_BMTJC, key_BMTJC):
    pair = {"query": query_BMTJC, "key": key_BMTJC}
    return {name: View.of(x_BMTJC, x_BMTJC.flatten(2).any(2)) for name, x_BMTJC in pair.items()}


def at(index):
    return Step(index, 9, 0.0, torch.Generator(), lambda *_: None)


GOLDEN = {
    "first": 3.1981034,
    "second": 0.1169485,
    "encoder.first.0.weight_ih_l0": [0.000608623, 0.00275914, 0.00427482],
    "partner.blocks.4.graph.query.0.weight": [0.00057223, 0.000276128, -0.000118935],
    "head.1.2.weight": [-0.353176, -0.26829, -0.37639],
}


def test_loss_and_gradient_of_the_public_code():
    """Made by running fmthoker/skeleton-contrast, ``moco.builder_inter.MoCo("seq-based_and_graph-based")`` with these
    weights, clips and queues, its graph encoder 16 times narrower than published and without the first momentum update,
    which changes nothing: its encoders begin alike."""
    method = make()
    out = method(views(clips(0), clips(1)), at(K // B))
    assert out["first"].item() == pytest.approx(GOLDEN["first"], rel=1e-5)
    assert out["second"].item() == pytest.approx(GOLDEN["second"], rel=1e-5)
    out["loss"].backward()
    for name in ("encoder.first.0.weight_ih_l0", "partner.blocks.4.graph.query.0.weight", "head.1.2.weight"):
        found = method.get_parameter(name).grad.flatten()[:3].tolist()
        assert found == pytest.approx(GOLDEN[name], rel=2e-3, abs=1e-7)


@pytest.mark.parametrize("partner", ["agcn", ""])
def test_the_loss_is_the_formula_from_the_first_step_on(partner, resolved, host):
    """Clip by clip and key by key, of two encoders and of two readouts of one: a side's query finds the other's key."""
    if partner:
        method, frames = make(partner=partner), T
    else:
        made = resolved("isc")
        method, frames = build_method(made.spec, host, made.store.topology).train(), 32
    written = ([], [])

    def features(view, encoders):
        if len(encoders) == 2:
            return [encoder(view).pooled_RD for encoder in encoders]
        tokens_RPJD = encoders[0](view).tokens_RND.unflatten(1, (-1, 25))
        by_row = tokens_RPJD.mean(2).max(1).values, tokens_RPJD.mean(1).max(1).values
        owner_R = view.rows_R // view.bodies
        return [torch.stack([x_RD[owner_R == b].mean(0) for b in range(B)]) for x_RD in by_row]

    for index in range(4):
        batch, step = views(clips(index, frames), clips(index + 9, frames)), at(index)
        with torch.no_grad():
            out = method(batch, step)
            sides = (batch["query"], method.encoders, method.head), (batch["key"], method.key_encoder, method.key_head)
            query, key = (
                [F.normalize(head(x), dim=1).double() for head, x in zip(heads, features(view, list(encoders)))]
                for view, encoders, heads in sides
            )
        size = method.config.queue
        for side, name in enumerate(("first", "second")):
            loss, other = 0.0, 1 - side
            for b in range(B):
                scores = torch.stack([query[side][b] @ k for k in (key[other][b], *written[other][-size:])])
                scores = scores / method.config.temperature
                loss += float(torch.logsumexp(scores, 0) - scores[0]) / B
            assert out[name].item() == pytest.approx(loss, rel=1e-4, abs=1e-5)
        assert out["loss"].item() == pytest.approx(out["first"].item() + out["second"].item())
        method.after_step(step)
        for side in range(2):
            written[side].extend(key[side])


def test_the_second_encoder_is_part_of_the_id_of_a_run(resolved):
    first, same, other = (
        resolved("isc", native=True, partner_settings=settings).spec
        for settings in ({"base": 4}, {"base": 4, "kernel": 9}, {"base": 8})
    )
    assert first.method_config["partner_settings"] == {"base": 4, "kernel": 9, "bodies": 2}
    assert first.components["encoders agcn"] == "1" and first.id == same.id != other.id
    shared = resolved("isc").spec
    assert shared.method_config["partner"] == "" and not any("encoders" in name for name in shared.components)


def test_a_native_run_is_probed_by_either_encoder(session, resolved):
    """One row per clip all the way; the second encoder is a readout of the run, also of its snapshots."""
    made = resolved("isc", native=True, epochs=1, clip_length=16)
    run = pretrain(session, made)
    spec = eval_spec(session.host, run, "knn")
    assert (spec.align, spec.resize, spec.readout) == ("first-frame-as-released", "half-pixel", "pooled")
    other = eval_spec(session.host, run, "knn", readout="partner")
    assert spec.id != other.id
    first, second = (feature_sets(session, run, each)["joint"].train_x for each in (spec, other))
    assert first.shape == (12, 16) and second.shape == (12, 16)
    state = torch.load(run.checkpoint, weights_only=True)["method"]
    frozen = skelbench.load_encoder(run.path, readout="partner", data=session.data_root, device="cpu")
    assert isinstance(frozen.module, AGCN) and frozen.embed(clips()).shape == (B, 16)
    for name, x in frozen.module.state_dict().items():
        assert torch.equal(x, state[f"partner.{name}"])


def public(method):
    """Encoders of ``method`` under the names of the public code, and what else its files hold."""
    state = {"Queue_S1": torch.zeros(E, K), "queue_ptr_S1": torch.zeros(1, dtype=torch.int64)}
    for side, twin, encoder in (("encoder_q", "encoder_k", method.encoder), ("encoder_r", "encoder_l", method.partner)):
        state |= {f"{side}.fc.0.weight": torch.zeros(2, 2), f"{twin}.fc.2.bias": torch.zeros(2)}
        for name, x in encoder.state_dict().items():
            state[f"{side}.{theirs(name)}"] = x.clone()
    return state


def theirs(name):
    if match := re.fullmatch(r"(first|second)\.(\d)\.(\w+)_l0", name):
        return f"encoder.gru.{match[3]}_l{match[2]}" + ("_reverse" if match[1] == "second" else "")
    if name.startswith("norm."):
        return f"data_bn.{name[5:]}"
    if match := re.fullmatch(r"blocks\.(\d+)\.(.*)", name):
        old, new = next((old, new) for old, new in GRAPH.items() if match[2].startswith(new))
        return f"l{int(match[1]) + 1}.{old}{match[2].removeprefix(new)}"
    branch, _, rest = name.partition(".")
    inner = name if branch == "joined" else rest
    old, new = next((old, new) for old, new in IMAGE.items() if inner.startswith(new))
    number, _, place = old.partition(".")
    motion = "m" if branch == "motion" else ""
    return f"{number}{motion}{'.' if place else ''}{place}{inner.removeprefix(new)}"


PAIRS = [("bigru", "agcn"), ("bigru", "hcn"), ("agcn", "hcn")]


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_imported_encoders_swap_axes(pair, tmp_path, host):
    """A file of the authors' layout gives the features that its weights have of the same clips with z up."""
    from_file, ours = make(*pair, frames=16), make(*pair, frames=16)
    for parameter in ours.parameters():
        parameter.data.zero_()
    content = {f"module.{name}": x for name, x in public(from_file).items()}
    torch.save({"state_dict": content, "optimizer": {}, "epoch": 451}, tmp_path / "isc.pth.tar")
    checkpoint = read_checkpoint(tmp_path / "isc.pth.tar")
    found = host.load(host.get("methods", "isc"), "imports")(checkpoint.state, checkpoint.options)
    sizes = {
        "bigru": {"hidden": H, "depth": 3, "input_norm": False},
        "agcn": {"base": 4, "kernel": 9},
        "hcn": {"channels": 4, "image": 16},
    }
    assert found.settings == {
        "encoder": pair[0],
        **{f"encoder.{name}": size for name, size in sizes[pair[0]].items()},
        "method.partner": pair[1],
        "method.partner_settings": sizes[pair[1]],
    }
    assert checkpoint.epoch == 451 and not fit(ours, found.weights, "isc.pth.tar"), "encoders alone"
    x, y, z = clips(frames=16).unbind(-1)
    up, stored = (views(each, each)["query"] for each in (torch.stack([x, -z, y], -1), clips(frames=16)))
    for known, read in zip(from_file.encoders, ours.encoders):
        with torch.no_grad():
            expected, features = known.eval()(up).pooled_RD, read.eval()(stored).pooled_RD
        torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-4)
