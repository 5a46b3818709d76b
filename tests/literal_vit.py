"""Appendix A of the paper written out token by token in float64: the slow reference for the encoder and decoder."""

import math

import torch


def randomized(module, scale=0.3):
    """With every parameter random, so that nothing hides behind a zero initial value."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return module


def linear(state, name, x):
    return x @ state[name + ".weight"].T + state[name + ".bias"]


def layer_norm(state, name, x, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * state[name + ".weight"] + state[name + ".bias"]


def rotate(vector, time, base):
    """Pairs (i, i + d/2) as complex numbers, turned by time * base^(-2i/d)."""
    half = len(vector) // 2
    out = vector.clone()
    for i in range(half):
        angle = time * base ** (-2 * i / len(vector))
        turned = complex(vector[i], vector[i + half]) * complex(math.cos(angle), math.sin(angle))
        out[i], out[i + half] = turned.real, turned.imag
    return out


def attention(state, name, x, heads, times, base):
    """One body [n, D]; ``times[i]`` None = unrotated."""
    n, dim = x.shape
    d = dim // heads
    qkv = linear(state, name + ".qkv", x)
    out = torch.zeros_like(x)
    for h in range(heads):
        q, k, v = (qkv[:, part * dim + h * d : part * dim + (h + 1) * d] for part in range(3))
        if times is not None:
            q, k = (
                torch.stack([row if t is None else rotate(row, t, base) for row, t in zip(rows, times)])
                for rows in (q, k)
            )
        out[:, h * d : (h + 1) * d] = torch.softmax(q @ k.T / math.sqrt(d), dim=-1) @ v
    return linear(state, name + ".proj", out)


def feed_forward(state, name, x, kind):
    if kind == "gelu":
        hidden = linear(state, name + ".fc1", x)
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / math.sqrt(2)))
    else:
        gate = linear(state, name + ".fc1_g", x)
        hidden = gate * torch.sigmoid(gate) * linear(state, name + ".fc1_x", x)
    return linear(state, name + ".fc2", hidden)


def run_blocks(state, config, z, times):
    return layer_norm(state, "norm", bare_blocks(state, config, z, times))


def bare_blocks(state, config, z, times):
    """The blocks without the norm that follows them."""
    for l in range(config.depth):
        block = f"blocks.{l}"
        z = z + attention(state, f"{block}.attn", layer_norm(state, f"{block}.norm1", z), config.heads, times,
                          config.rope_base)  # fmt: skip
        z = z + feed_forward(state, f"{block}.mlp", layer_norm(state, f"{block}.norm2", z), config.mlp)
    return z


def literal_vit(model, x_TJC, mask_N=None, keep_K=None):
    """Tokens and class token of one body."""
    config, patch = model.config, model.grid.patch
    state = {name: value.detach().double() for name, value in model.state_dict().items()}
    frames, joints, _ = x_TJC.shape
    tokens, times = [], []
    for p in range(frames // patch):
        for j in range(joints):
            vector = [x_TJC[p * patch + t, j, c].item() for t in range(patch) for c in range(3)]
            content = linear(state, "tokenizer.project", torch.tensor(vector, dtype=torch.float64))
            if mask_N is not None and mask_N[p * joints + j]:
                content = state["tokenizer.mask_token"]
            content = content + state["tokenizer.joint_embed"][j]
            if config.temporal == "learned":
                content = content + state["tokenizer.time_embed"][p]
            tokens.append(content)
            times.append(p)
    if keep_K is not None:
        tokens, times = [tokens[i] for i in keep_K], [times[i] for i in keep_K]
    prefix = []
    if config.cls:
        cls = state["cls_token"]
        prefix.append(cls + state["tokenizer.joint_embed"][joints] if config.cls_position else cls)
    prefix += [state["registers"][i] for i in range(config.registers)]
    times = [None] * len(prefix) + times if config.temporal == "rope" else None
    z = run_blocks(state, config, torch.stack(prefix + tokens), times)
    return z[len(prefix) :], z[0] if config.cls else None
