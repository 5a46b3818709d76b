"""Information that prototypes carry about their samples: which token, which view, which body slot, which clip.

Shapes: n samples, K prototypes.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.models.rank import sample_rows
from skelbench.views.view import View

PER_PLACE = 64
"""Number of samples per position in the token grid: clips are compared only among tokens at the same position."""


def split_information(q_nK: Tensor, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Mutual information, in nats, between prototype and sample, part by part (chain rule).

    ``q_nK``: each sample's distribution. ``parts``: by name, an int64 [n] with the group of each sample; each value is
    the information in addition to the parts before it. ``clip`` is the rest: differences between samples of the same
    group in all parts. A finite sample overestimates the information, less so with fewer groups.

    >>> found = split_information(torch.eye(2).repeat(2, 1), {"slot": torch.tensor([0, 1, 0, 1])})
    >>> {name: round(float(value), 4) for name, value in found.items()}  # all of log 2 is about the slot
    {'slot': 0.6931, 'clip': 0.0}
    """
    group_n = torch.zeros(len(q_nK), dtype=torch.int64, device=q_nK.device)
    before = _mean_entropy(q_nK, group_n)
    information = {}
    for name, part_n in parts.items():
        group_n = torch.unique(torch.stack([group_n, part_n], 1), dim=0, return_inverse=True)[1]
        after = _mean_entropy(q_nK, group_n)
        information[name], before = before - after, after
    information["clip"] = before - torch.special.entr(q_nK).sum(1).mean()
    return information


def _mean_entropy(q_nK: Tensor, group_n: Tensor) -> Tensor:
    """Entropy of a group's mean distribution, averaged over samples."""
    groups = int(group_n.max()) + 1
    count_G = torch.bincount(group_n, minlength=groups)
    mean_GK = q_nK.new_zeros(groups, q_nK.shape[1]).index_add(0, group_n, q_nK) / count_G[:, None]
    return (torch.special.entr(mean_GK).sum(1) * count_G).sum() / len(q_nK)


def samples_of(view: View, n: int, most: int) -> tuple[Tensor, dict[str, Tensor]]:
    """Return at most ``most`` of n samples (a row of ``view``, masked token or clip) and their parts: ``place`` in
    the grid (masked tokens), ``view`` (if a clip has several) and body ``slot`` (not for clips).

    >>> chosen_n, parts = samples_of(View.of(torch.zeros(3, 2, 16, 25, 3)), n=6, most=6)
    >>> parts["slot"]
    tensor([0, 1, 0, 1, 0, 1])
    """
    parts = {}
    if n == view.count * view.clips != view.rows:
        chosen_n = sample_rows(torch.arange(n, device=view.rows_R.device), most)
        several = {"view": torch.div(chosen_n, view.clips, rounding_mode="floor")}
        return chosen_n, several if view.count > 1 else {}
    if n == view.rows:
        chosen_n = sample_rows(torch.arange(n, device=view.rows_R.device), most)
        row_n = chosen_n
    elif view.masked_I is not None and view.mask_RN is not None and n == len(view.masked_I):
        tokens = view.mask_RN.shape[1]
        places = sample_rows(torch.arange(tokens, device=view.rows_R.device), max(1, most // PER_PLACE))
        chosen_n = sample_rows(torch.isin(view.masked_I % tokens, places).nonzero()[:, 0], most)
        row_n = torch.div(view.masked_I[chosen_n], tokens, rounding_mode="floor")
        parts["place"] = view.masked_I[chosen_n] % tokens
    else:
        hidden = 0 if view.masked_I is None else len(view.masked_I)
        raise SkelbenchError(
            f"step.watch got {n} prototype samples and a view of {view.rows} rows with {hidden} masked tokens; "
            "give it the view whose rows, masked tokens or clips the samples are, or none"
        )
    entry_n = view.rows_R[row_n]
    if view.count > 1:
        parts["view"] = torch.div(entry_n, view.clips * view.bodies, rounding_mode="floor")
    return chosen_n, parts | {"slot": entry_n % view.bodies}
