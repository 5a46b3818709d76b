"""States and clips made of formulas for methods with the recurrent encoder, and the names of its public layout."""

import re

import torch
from official import clip, wave

ABOUT_1 = ("input_norm.weight", "running_var", "enter.1.weight")
"""Endings of names of tensors with numbers around 1."""


def sines(state):
    """Tensors with the same names and shapes: numbers around 0, for norms around 1."""
    made = {}
    for k, (name, x) in enumerate(sorted(state.items())):
        about = float(name.endswith(ABOUT_1))
        made[name] = torch.from_numpy(about + 0.3 * wave(x.shape, 0.2 * k)).float() if x.dim() else x
    return made


def clips(count, frames, seed=0):
    """float32 [B, 2, T, 25, 3]; the second body of every other clip is absent."""
    x_BMTJC = clip(count, frames)
    return x_BMTJC * (1 + 0.3 * torch.from_numpy(wave((count, 1, frames, 25, 3), seed))).float()


def public_encoder(encoder, front):
    """State of a ``bigru`` under the names of the public codes, which begin with ``front``."""
    state = {}
    for name, x in encoder.state_dict().items():
        match = re.fullmatch(r"(first|second)\.(\d)\.(\w+)_l0", name)
        end = "_reverse" if match and match[1] == "second" else ""
        new = f"encoder.gru.{match[3]}_l{match[2]}{end}" if match else name
        state[f"{front}.{new}"] = x.clone()
    return state
