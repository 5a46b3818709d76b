"""Checkpoints of GL-Transformer's code (Boeun-Kim/GL-Transformer) in our names. D width of a joint, T frames."""

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Imported
from skelbench.methods.imported import renamed, tensor_of

_PARTS = {
    "positional_emb": "positions",
    "norm1_sp": "norm_space",
    "norm1_tm": "norm_time",
    "norm2": "norm",
    "attention_sp": "space",
    "attention_tm": "time",
    "feedforward.fc1": "mlp.0",
    "feedforward.fc2": "mlp.3",
}
_LEFT_OUT = ("pred_token_emb", "linear.")
"""A token that no forward pass uses, and the classifier of a linear probe."""


def imported(state, options):
    """The encoder of a checkpoint of the authors' code, with or without their classifier; heads are not in it."""
    state = {name.removeprefix("transformer."): x for name, x in state.items()}
    tables = "tm_pos_encoder.pe", "sp_pos_encoder.pe"  # sine tables of an ablation
    state = {name: x for name, x in state.items() if not name.endswith(tables)}
    form = "1 x T x 2 J x D"
    positions = tensor_of(state, "encoder_blocks.0.positional_emb", form, lambda s: len(s) == 4 and s[2] % 25 == 0)
    hidden = tensor_of(state, "encoder_blocks.0.feedforward.fc1.weight", "hidden x 2 J D", lambda s: len(s) == 2)
    frames, places, dim = positions.shape[1:]
    depth = len({name.split(".")[1] for name in state if name.startswith("encoder_blocks.")})
    names = {"emb": "embed", "emb_global": "embed_path", "norm": "norm", "mlp": "head"}
    for block in range(depth):
        names |= {f"encoder_blocks.{block}.{old}": f"blocks.{block}.{new}" for old, new in _PARTS.items()}
    skipped = tuple(name for name in state if name.startswith(_LEFT_OUT))
    weights = {}
    for name in state.keys() - {*skipped}:
        if not (ours := renamed(name, names)):
            raise SkelbenchError(f"its tensor {name!r} is not of GL-Transformer's code")
        weights[f"encoder.{ours}"] = state[name][0] if ours.endswith("positions") else state[name]
    settings = {
        "encoder.dim": dim,
        "encoder.depth": depth,
        "encoder.expand": hidden.shape[0] / hidden.shape[1],
        "encoder.bodies": places // 25,
        "grid.frames": frames,
    }
    return Imported(settings, weights, skipped)
