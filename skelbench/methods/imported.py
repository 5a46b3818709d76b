"""Public checkpoints of the masked-autoencoder family, with names translated to ours.

MAMP, SkeletonMAE as compared there, and MacDiff share one encoder and most of a decoder, under the same names in
their code; only these names are known here. Shapes: P temporal tokens, P_T frames each, J joints, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from skelbench.core.errors import SkelbenchError


@dataclass(frozen=True)
class Imported:
    """Contents of a checkpoint for a method: returned by the function that ``MethodSpec.imports`` names.

    That function gets the file's tensors by name and the options that its author's command recorded (may be empty), and
    raises :class:`SkelbenchError` for a file of another method.

    >>> Imported({"encoder.dim": 2}, {"encoder.norm.bias": torch.zeros(2)}, leftover=("head.bias",)).settings
    {'encoder.dim': 2}
    """

    settings: Mapping[str, Any]
    """Dotted keys read from shapes and options, ``{"encoder.depth": 8, "grid.patch": 4, "method.tau": 0.8}``."""
    weights: Mapping[str, Tensor]
    """Tensors under the method's own names; without decoder tensors, only the encoder is loaded."""
    leftover: tuple[str, ...] = ()
    """Names in the file that are skipped on purpose, for example of a classifier or a queue."""


ENCODER = {
    "joints_embed.proj": "tokenizer.project",
    "pos_embed": "tokenizer.joint_embed",
    "temp_embed": "tokenizer.time_embed",
    "blocks": "blocks",
    "norm": "norm",
}
"""Names of the family's encoder and, after the arrow, ours; names inside a block are equal."""
DECODER = {
    "decoder_embed": "embed",
    "mask_token": "mask_token",
    "decoder_pos_embed": "joint_embed",
    "decoder_temp_embed": "time_embed",
    "decoder_blocks": "blocks",
    "decoder_norm": "norm",
    "decoder_pred": "predict",
}
MACDIFF = ("input_mean", "input_var", "self_shift")
"""Options that only MacDiff's code records: its encoder's input is standardized. Otherwise its files equal MAMP's."""
HEAD = "head."
"""Tensors of the classifier of a linear probe or a fine-tuned model."""


def masked_autoencoder(
    state: Mapping[str, Tensor], options: Mapping[str, Any], model: str, method_options: Mapping[str, str]
) -> Imported:
    """Return the content of a checkpoint of MAMP's repository: of pre-training, or downstream with a classifier.

    ``model``: package of the model class in that repository (``model_mamp``), checked against the file's own record.
    ``method_options``: option of the command -> field of the method's config.
    """
    check_record(options, model)
    if foreign := [name for name in MACDIFF if name in model_arguments(options)]:
        raise SkelbenchError(
            f"its own record has {foreign[0]}, a setting of MacDiff; import it as the method that uses it"
        )
    settings, weights = encoder_of(state, options)
    if any(renamed(name, DECODER) for name in state):
        more, decoder = decoder_of(state, options)
        settings, weights = settings | more, weights | decoder
    recognized = {option: name for option, name in method_options.items() if option in options}
    settings |= {f"method.{name}": options[option] for option, name in recognized.items()}
    return Imported(settings, weights, leftovers(state, ENCODER, DECODER))


def check_record(options: Mapping[str, Any], model: str = "") -> None:
    """Raise for a file whose command names another package of MAMP's repository than ``model``; empty: any of them."""
    model_name = str(options.get("model", "")).split(".")[0]
    if model_name.startswith("model_") and model_name != model:
        note = f", not {model}" if model else ""
        raise SkelbenchError(
            f"its own record says that it holds {model_name}{note}; import it as the method that uses it"
        )


def model_arguments(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments of the model class that the command recorded; empty when there are none."""
    arguments = options.get("model_args")
    return arguments if isinstance(arguments, Mapping) else {}


def encoder_of(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and weights of the family's encoder."""
    form = "D x 3 x P_T x 1"
    patches = tensor_of(state, "joints_embed.proj.weight", form, lambda s: len(s) == 4 and s[1::2] == (3, 1))
    times = tensor_of(state, "temp_embed", "1 x P x 1 x D", lambda s: len(s) == 4)
    hidden = tensor_of(state, "blocks.0.mlp.fc1.weight", "hidden x D", lambda s: len(s) == 2)
    dim, patch = patches.shape[0], patches.shape[2]
    settings = {
        "encoder.dim": dim,
        "encoder.depth": _depth(state, "blocks"),
        "encoder.mlp_ratio": hidden.shape[0] / dim,
        "encoder.qkv_bias": "blocks.0.attn.qkv.bias" in state,
        "grid.frames": times.shape[1] * patch,
        "grid.patch": patch,
    }
    if heads := model_arguments(options).get("num_heads"):  # shapes do not show the number of heads
        settings["encoder.heads"] = heads
    return settings, _taken(state, ENCODER, "encoder")


def decoder_of(
    state: Mapping[str, Tensor],
    options: Mapping[str, Any],
    names: Mapping[str, str] = DECODER,
    embed: str = "decoder_embed.weight",
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Settings and weights of :class:`~skelbench.models.decoder.MaskedDecoder`, or of a decoder with other ``names``.

    ``embed``: the decoder's first weight, whose first dimension is its width.
    """
    first = tensor_of(state, embed, "D x ...", lambda s: len(s) > 1)
    settings = {"method.decoder_dim": first.shape[0], "method.decoder_depth": _depth(state, "decoder_blocks")}
    if heads := model_arguments(options).get("num_heads"):
        settings["method.decoder_heads"] = heads
    return settings, _taken(state, names, "decoder")


def leftovers(state: Mapping[str, Tensor], *families: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the classifier; another name that none of ``families`` knows means another kind of model.

    Raises:
        SkelbenchError: there are such names.
    """
    unknown = [name for name in state if not any(renamed(name, names) for names in families)]
    if strange := [name for name in unknown if not name.startswith(HEAD)]:
        count = f"{len(strange)} of its {len(state)} tensors"
        raise SkelbenchError(f"{count} belong to another model, first {strange[0]!r}")
    return tuple(unknown)


def _taken(state: Mapping[str, Tensor], names: Mapping[str, str], prefix: str) -> dict[str, Tensor]:
    """Return the tensors in ``names``, renamed and with our shapes."""
    ours = {renamed(name, names): tensor for name, tensor in state.items()}
    return {f"{prefix}.{name}": _as_matrix(tensor) for name, tensor in ours.items() if name}


def renamed(name: str, names: Mapping[str, str]) -> str:
    """Our name for ``name``; empty when it is none of ``names``."""
    for released, ours in names.items():
        if name == released or name.startswith(released + "."):
            return ours + name.removeprefix(released)
    return ""


def _as_matrix(x: Tensor) -> Tensor:
    """Patch convolution [D, 3, P_T, 1] -> [D, P_T * 3]; embeddings [1, P, 1, D] and the like -> [P, D]."""
    if x.ndim == 4 and x.shape[0] > 1:
        return x.permute(0, 2, 3, 1).flatten(1)
    return x.reshape(-1, x.shape[-1]) if x.ndim > 2 else x


def tensor_of(state: Mapping[str, Tensor], name: str, form: str, fits: Callable[[tuple], bool]) -> Tensor:
    """The tensor ``name`` if ``fits(shape)`` is true; else :class:`SkelbenchError` with the expected ``form``."""
    tensor = state.get(name)
    if tensor is None or not tensor.numel() or not fits(tuple(tensor.shape)):
        has = "is not there" if tensor is None else f"is {' x '.join(map(str, tensor.shape)) or 'a number'}"
        raise SkelbenchError(f"its tensor {name!r} {has}; a checkpoint of this family has one of the form {form}")
    return tensor


def _depth(state: Mapping[str, Tensor], blocks: str) -> int:
    return len({name.split(".")[1] for name in state if name.startswith(blocks + ".")})
