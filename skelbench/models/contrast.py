"""Contrast with a queue of keys (MoCo): InfoNCE with one or several positives, distributions over keys, the queue.

B clips, E width of an embedding, n keys. Embeddings are L2-normalized, so products are cosines.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from skelbench.core import distributed
from skelbench.models.precision import no_autocast


def cosines(x_BE: Tensor, keys_nE: Tensor) -> Tensor:
    """Products with every key, float32 [B, n], also within autocast.

    >>> cosines(torch.eye(2), torch.eye(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    with no_autocast(x_BE):
        return x_BE.float() @ keys_nE.float().T


def similarities(query_BE: Tensor, key_BE: Tensor, keys_nE: Tensor, temperature: float) -> Tensor:
    """float32 [B, 1 + n]: cosines over ``temperature``; column 0 with the clip's own key, then with each of the n.

    >>> similarities(torch.eye(2), torch.eye(2), torch.eye(2), temperature=0.5)
    tensor([[2., 2., 0.],
            [2., 0., 2.]])
    """
    own_B1 = (query_BE.float() * key_BE.float()).sum(1, keepdim=True)
    return torch.cat([own_B1, cosines(query_BE, keys_nE)], 1) / temperature


def info_nce(logits_Bn: Tensor, positive_Bn: Tensor | None = None, several: Literal["mean", "sum"] = "mean") -> Tensor:
    """InfoNCE in nats, float32 [B]: minus the log of the softmax at column 0, or at the positives.

    ``positive_Bn``: bool, at least one per row. Several positives: "mean" averages their logs (CrosSCLR and AimCLR
    after mining; SupCon's L_out), "sum" takes the log of their summed probability (HiCo; MIL-NCE). van den Oord et
    al., arXiv 1807.03748.

    >>> info_nce(torch.zeros(1, 4))  # log 4
    tensor([1.3863])
    >>> info_nce(torch.zeros(1, 4), torch.tensor([[True, True, False, False]]), "sum")  # log 2
    tensor([0.6931])
    """
    log_Bn = torch.log_softmax(logits_Bn, 1)
    if positive_Bn is None:
        return -log_Bn[:, 0]
    if several == "sum":
        return -log_Bn.masked_fill(~positive_Bn, float("-inf")).logsumexp(1)
    return -(log_Bn * positive_Bn).sum(1) / positive_Bn.sum(1)


def cross_entropy(student_Bn: Tensor, teacher_Bn: Tensor) -> Tensor:
    """float32 [B], nats: -sum P_teacher log P_student of the softmaxes of two sets of logits over the same keys.

    No gradient reaches the teacher. AimCLR's D3M loss; it has the gradient of :func:`divergence`.

    >>> cross_entropy(torch.zeros(1, 4), torch.zeros(1, 4))  # log 4
    tensor([1.3863])
    """
    return -(teacher_Bn.detach().softmax(1) * student_Bn.log_softmax(1)).sum(1)


def divergence(student_Bn: Tensor, teacher_Bn: Tensor) -> Tensor:
    """float32 [B], nats: KL(P_teacher || P_student); CMD's loss. No gradient reaches the teacher.

    >>> divergence(torch.zeros(1, 4), torch.zeros(1, 4))
    tensor([0.])
    """
    teacher = teacher_Bn.detach().log_softmax(1)
    return (teacher.exp() * (teacher - student_Bn.log_softmax(1))).sum(1)


@torch.no_grad()
def nearest(logits_Bn: Tensor, k: int) -> Tensor:
    """Mask of the ``k`` keys (or all, if there are fewer) with the largest logits of each row, bool [B, n].

    >>> nearest(torch.tensor([[0.1, 0.9, 0.5]]), k=2)
    tensor([[False,  True,  True]])
    """
    chosen_Bk = logits_Bn.topk(min(k, logits_Bn.shape[1]), dim=1).indices
    return torch.zeros_like(logits_Bn, dtype=torch.bool).scatter_(1, chosen_Bk, True)


class KeyQueue(nn.Module):
    """Queue of the last ``size`` keys of all processes, the same in each; part of the state to resume from.

    Only written keys are returned; the public codes start with random keys. Their number follows from the step and
    its number of clips, so nothing waits for the device. All queues of a method are aligned: position i of two
    queues is the same clip. Call :meth:`push` in ``after_step``, once per step.

    >>> queue = KeyQueue(size=4, width=2)
    >>> queue.push(0, torch.ones(3, 2))
    >>> queue.written(step=1, clips=3).shape  # three of four places
    torch.Size([3, 2])
    >>> queue.push(1, torch.full((3, 2), 2.0))
    >>> queue.written(step=2, clips=3)[:, 0]  # the oldest two were overwritten
    tensor([2., 2., 1., 2.])
    >>> queue.newest(step=2, clips=3, n=4)[:, 0]
    tensor([1., 2., 2., 2.])
    """

    keys_KE: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("keys_KE", torch.zeros(size, width))

    def written(self, step: int, clips: int) -> Tensor:
        """float32 [n, E]: keys pushed in the steps up to ``step``, each of ``clips`` clips in all processes
        (``step.clips(view)``); n is ``size`` once it is full."""
        return self.keys_KE[: step * clips]

    def newest(self, step: int, clips: int, n: int) -> Tensor:
        """Return the ``n`` newest keys of :meth:`written`, or all if there are fewer, float32 [n, E]; oldest first."""
        end = step * clips
        return self.keys_KE.roll(-(end % self.size), 0)[self.size - min(n, end, self.size) :]

    @torch.no_grad()
    def push(self, step: int, keys_BE: Tensor) -> None:
        """Overwrite the oldest keys with the keys of ``step`` from all processes, in the order of ranks."""
        keys_nE = distributed.gather(keys_BE).to(self.keys_KE.dtype)
        place_n = torch.arange(len(keys_nE), device=keys_nE.device) + step * len(keys_nE)
        last = slice(-self.size, None)  # if a step has more keys than the queue, the last ones are kept
        self.keys_KE[place_n[last] % self.size] = keys_nE[last]
