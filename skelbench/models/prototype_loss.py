"""Cross-entropy between teacher and student prototype distributions that never holds the logits.

At 4,000 tokens and 65,536 prototypes one float32 logit matrix is a gigabyte, and the plain loss keeps several. Here the
gradients are formed together with the loss, a few rows at a time, so that only a few [c, K] tiles exist; backward
merely scales them. Centering needs no logits either: whatever the mode, the teacher's distribution is
``softmax_k(z_i . W_k / temp + offset_k)`` with one offset per prototype, and :class:`Sinkhorn` only has to find it.

On a GPU in bf16 autocast the factors of every matrix product are rounded to bfloat16 and products summed in float32, as
tensor cores do it; sums, softmax and loss stay in float32. That moves the loss by at most 5e-5 of it and gradients by
at most 6e-3 of their norm (``python -m benchmarks.prototype_loss --rounded``). There :func:`use_kernel` replaces tiles
by Triton kernels.

Shapes: n samples (masked tokens, or class tokens), V student views per sample, D bottleneck width, K prototypes,
c rows of a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from skelbench.core.distributed import all_reduce_sum
from skelbench.models import ahead
from skelbench.models.precision import no_autocast, rounds_products

TILE = 2**24
"""Elements of one tile (64 MiB in float32), on a GPU four times as many: full speed, far below the logits."""
RESIDUALS = 2**29
"""Elements of softmax minus target, in bfloat16, that the kernels write before they are used (1 GiB)."""
_kernel: ModuleType | None = None
""":mod:`~skelbench.models.prototype_kernel`, or None to use tiles."""


def use_kernel(on: bool, *prototypes_KD: Tensor) -> None:
    """Switch to Triton kernels for factors in bfloat16, tried with ``prototypes_KD``, or back to tiles.

    >>> use_kernel(False)
    """
    global _kernel
    _kernel = None
    if on:
        from skelbench.models import prototype_kernel as kernel  # Triton is not everywhere

        for W_KD in prototypes_KD:
            factor_KD = W_KD.detach()[:16].bfloat16()
            log_K = kernel.logsumexp(factor_KD, factor_KD, factor_KD[:, 0].float())
            kernel.residuals(factor_KD, factor_KD, log_K, log_K, factor_KD[:, None], factor_KD, log_K[:, None])
        _kernel = kernel


def _fused(W_KD: Tensor) -> ModuleType | None:
    """Kernels if they are to be used for factors such as ``W_KD``."""
    return _kernel if W_KD.dtype == torch.bfloat16 else None


@dataclass(frozen=True)
class Sinkhorn:
    """Balanced assignments as in DINOv2: Q = exp(logits / temp), total mass 1, then ``iterations`` times prototypes
    scaled to mass 1/K and samples to 1/B, then times B; B counts the samples of all ranks.

    In factored form Q_ik = u_k v_i exp(logits_ik / temp). K and B only multiply all of Q and drop out when the last
    step normalizes each sample, so log u is all there is to find: one pass over the logits per iteration.

    >>> Sinkhorn(iterations=3).offsets(torch.randn(6, 3), torch.randn(4, 3), temp=0.07).shape
    torch.Size([4])
    """

    iterations: int = 3

    @torch.no_grad()
    def offsets(self, teacher_z_nD: Tensor, teacher_W_KD: Tensor, temp: float) -> Tensor:
        """Return log u [K], so that softmax_k(logits / temp + log u) is the balanced assignment of every sample.

        float32 samples are rounded to the dtype of ``teacher_W_KD`` before products.
        """
        z_nD, W_KD = teacher_z_nD / temp, teacher_W_KD
        tiny = torch.finfo(z_nD.dtype).tiny
        if kernel := _fused(W_KD):
            factor_nD, log_n, offset_K = z_nD.to(W_KD.dtype), z_nD.new_zeros(len(z_nD)), z_nD.new_zeros(len(W_KD))
            for iteration in range(self.iterations):
                if iteration:  # in the first iteration samples carry no weight
                    log_n = kernel.logsumexp(factor_nD, W_KD, offset_K)
                mass_K = (kernel.logsumexp(W_KD, factor_nD, -log_n) + offset_K).double().exp()
                offset_K = offset_K - all_reduce_sum(mass_K).clamp_min(tiny).log().to(z_nD.dtype)
            return offset_K
        parts = z_nD.split(_rows(z_nD, W_KD))
        # Samples carry no weight yet, so nothing bounds the exponentials of one prototype but their maximum.
        largest_K = z_nD.new_full((len(W_KD),), torch.finfo(z_nD.dtype).min)
        sum_K = torch.zeros_like(largest_K)
        for z_cD in parts if len(z_nD) else ():
            logits_cK = _logits(z_cD, W_KD)
            larger_K = torch.maximum(largest_K, logits_cK.amax(0))
            sum_K = sum_K * (largest_K - larger_K).exp() + (logits_cK - larger_K).exp().sum(0)
            largest_K = larger_K
        # Float64 spans what ranks with different maxima can add up to.
        mass_K = all_reduce_sum((largest_K + sum_K.clamp_min(tiny).log()).double().exp())
        offset_K = -mass_K.clamp_min(tiny).log().to(z_nD.dtype)
        for _ in range(self.iterations - 1):
            mass_K = torch.zeros_like(offset_K)
            for z_cD in parts:
                mass_K += _softmax(_logits(z_cD, W_KD), offset_K).sum(0)
            offset_K = offset_K - all_reduce_sum(mass_K.double()).clamp_min(tiny).log().to(offset_K.dtype)
        return offset_K


class RunningCenter(nn.Module):
    """Running mean of the teacher's logits, subtracted before its softmax (DINO): the cheaper guard against collapse.

    The batch mean of the logits is the mean bottleneck vector times the prototypes, so no logits are formed.

    >>> center = RunningCenter(prototypes=2, momentum=0.5)
    >>> center.update(torch.tensor([[2.0, 4.0]]))
    >>> center.center
    tensor([1., 2.])
    """

    center: Tensor

    def __init__(self, prototypes: int, momentum: float = 0.9) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("center", torch.zeros(prototypes))

    @torch.no_grad()
    def update(self, teacher_z_nD: Tensor, teacher_W_KD: Tensor | None = None) -> None:
        """center <- momentum * center + (1 - momentum) * mean over all ranks' samples; no samples, no change.

        Without ``teacher_W_KD`` the samples are the logits themselves (S-JEPA's channels, D = K). DINO and iBOT update
        the center after the loss of the same step has used it.
        """
        with no_autocast(teacher_z_nD):
            z_nD = teacher_z_nD.to(self.center.dtype)
            total = all_reduce_sum(torch.cat([z_nD.sum(0), z_nD.new_full((1,), z_nD.shape[0])]))
            mean_K = total[:-1] / total[-1].clamp_min(1.0)
            if teacher_W_KD is not None:
                mean_K = teacher_W_KD.to(self.center.dtype) @ mean_K
            step = (1.0 - self.momentum) * (total[-1] > 0).to(mean_K.dtype)
            self.center.lerp_(mean_K, step)


@torch.no_grad()
def teacher_offset(
    centering: Sinkhorn | Tensor | None, teacher_z: Tensor, teacher_W: Tensor, temp: float
) -> Tensor | None:
    """[K], so that the centered teacher's distribution is softmax_k(z . W_k / temp + offset_k); None = no centering.

    ``centering``: :class:`Sinkhorn`, which takes part in the all-reduces; a center [K] that is subtracted from the
    teacher's logits; or None.

    >>> teacher_offset(torch.tensor([1.0, 2.0]), torch.zeros(3, 2), torch.eye(2), temp=0.5)
    tensor([-2., -4.])
    """
    if centering is None:
        return None
    dtype = torch.promote_types(teacher_z.dtype, torch.float32)
    if not isinstance(centering, Sinkhorn):
        return centering.to(dtype) / -temp
    factors = _factors(teacher_z, dtype)
    with no_autocast(teacher_z):
        return centering.offsets(teacher_z.to(dtype), teacher_W.to(factors), temp)


def prototype_cross_entropy(
    student_z: Tensor,
    student_W: Tensor,
    teacher_z: Tensor,
    teacher_W: Tensor,
    weights: Tensor,
    *,
    teacher_temp: float,
    student_temp: float = 0.1,
    offset_K: Tensor | None = None,
) -> Tensor:
    """Sum over samples i and student views v of w_iv * CE(teacher_i, softmax(z_iv . W / student_temp)), a scalar.

    Args:
        student_z: [n, V, D] or [n, D]; receives a gradient. V > 1: several student views share a teacher sample.
        student_W: [K, D] prototypes of the student; receives a gradient.
        teacher_z: [n, D], constant.
        teacher_W: [K, D], constant.
        weights: [n, V] or [n], constant (1 / number of terms for a mean).
        teacher_temp, student_temp: tau_t and tau_s.
        offset_K: :func:`teacher_offset` of the same teacher.

    Computed in float32 (float64 for float64 inputs) whatever else autocast says; in bf16 autocast on a GPU factors of
    matrix products are rounded to bfloat16. Memory beyond the inputs: a few tiles and the gradients. n = 0 gives zero
    and zero gradients. Sources: SLiM, section "Decoder-Free Masked Feature Prediction"; iBOT and DINOv2 for the
    centering.

    >>> zero_nD, W_KD, weights_n = torch.zeros(2, 3), torch.zeros(4, 3), torch.full((2,), 0.5)
    >>> prototype_cross_entropy(zero_nD, W_KD, zero_nD, W_KD, weights_n, teacher_temp=0.07)  # log 4
    tensor(1.3863)
    """
    dtype = torch.promote_types(student_z.dtype, torch.float32)
    teacher_W = teacher_W.detach().to(_factors(student_z, dtype))
    student_W, teacher_z = student_W.to(dtype), teacher_z.detach().to(dtype)
    student_z_nVD = student_z.to(dtype) if student_z.dim() == 3 else student_z.to(dtype).unsqueeze(1)
    weights_nV = weights.detach().to(dtype).reshape(student_z_nVD.shape[:2])
    with no_autocast(student_z):
        return _PrototypeCrossEntropy.apply(
            student_z_nVD, student_W, teacher_z, teacher_W, weights_nV, offset_K, student_temp, teacher_temp
        )


class _PrototypeCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, student_z_nVD: Tensor, student_W_KD: Tensor, teacher_z_nD: Tensor, teacher_W_KD: Tensor,
        weights_nV: Tensor, offset_K: Tensor | None, student_temp: float, teacher_temp: float,
    ) -> Tensor:  # fmt: skip
        dz_nVD = torch.zeros_like(student_z_nVD) if ctx.needs_input_grad[0] else None
        dW_KD = torch.zeros_like(student_W_KD) if ctx.needs_input_grad[1] else None
        loss_nV, factor_KD = torch.zeros_like(weights_nV), student_W_KD.to(teacher_W_KD.dtype)
        student_z_nVD, teacher_z_nD = student_z_nVD / student_temp, teacher_z_nD / teacher_temp
        for rows, loss, residual in _residuals(student_z_nVD, factor_KD, teacher_z_nD, teacher_W_KD, offset_K):
            z_cD, weight_c1 = student_z_nVD[rows], weights_nV[rows].unsqueeze(-1)
            loss_nV[rows] = loss
            with ahead.gradients():
                residual_cK = residual.flatten(0, -2)
                if dz_nVD is not None:
                    dz_cD = _product(residual_cK, factor_KD, dz_nVD.dtype).view_as(z_cD)
                    dz_nVD[rows] = dz_cD * (weight_c1 / student_temp)
                if dW_KD is not None:
                    weighted_cD = (z_cD * weight_c1).to(residual_cK.dtype).flatten(0, -2)
                    _add_product(dW_KD, residual_cK.t(), weighted_cD)
            del residual, residual_cK  # before the next ones are made
        ctx.save_for_backward(dz_nVD, dW_KD)
        return (weights_nV * loss_nV).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if x is None else x * grad for x in ctx.saved_tensors), *(None,) * 6


def _residuals(
    student_z_nVD: Tensor, student_W_KD: Tensor, teacher_z_nD: Tensor, teacher_W_KD: Tensor, offset_K: Tensor | None
) -> Iterator[tuple[Any, Tensor, Tensor]]:
    """Cross-entropy, and softmax minus target in the dtype of ``student_W_KD``, of parts [n, V] of the batch."""
    (n, V, D), dtype = student_z_nVD.shape, student_W_KD.dtype
    if kernel := _fused(student_W_KD):
        student_nVD, teacher_nD = student_z_nVD.to(dtype), teacher_z_nD.to(dtype)
        teacher_log_n = kernel.logsumexp(teacher_nD, teacher_W_KD, offset_K)
        student_log_nV = kernel.logsumexp(student_nVD.reshape(-1, D), student_W_KD).view(n, V)
        size = max(1, RESIDUALS // (V * len(student_W_KD)))
        for rows in (slice(start, start + size) for start in range(0, n, size)):
            teacher = teacher_nD[rows], teacher_W_KD, teacher_log_n[rows], offset_K
            yield rows, *kernel.residuals(*teacher, student_nVD[rows], student_W_KD, student_log_nV[rows])
        return
    size = _rows(teacher_z_nD, teacher_W_KD)
    for rows in (slice(start, start + size) for start in range(0, n, size)):
        target_cK = _softmax(_logits(teacher_z_nD[rows], teacher_W_KD), offset_K)
        for v in range(V):
            log_cK = torch.log_softmax(_logits(student_z_nVD[rows, v], student_W_KD), 1)
            loss_c = -(target_cK * log_cK).sum(1)
            yield (rows, v), loss_c, log_cK.exp_().sub_(target_cK).to(dtype)


def _softmax(logits_cK: Tensor, offset_K: Tensor | None) -> Tensor:
    return torch.softmax(logits_cK if offset_K is None else logits_cK + offset_K, 1)


def _factors(z: Tensor, dtype: torch.dtype) -> torch.dtype:
    """Precision to which factors are rounded."""
    return torch.bfloat16 if dtype == torch.float32 and rounds_products(z) else dtype


def _rows(z_nD: Tensor, W_KD: Tensor) -> int:
    """Rows of a tile."""
    return max(1, TILE * (1 if z_nD.device.type == "cpu" else 4) // len(W_KD))


def _logits(z_cD: Tensor, W_KD: Tensor) -> Tensor:
    return _product(z_cD.to(W_KD.dtype), W_KD.t(), z_cD.dtype)


def _product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """a @ b, summed in ``dtype``."""
    if a.dtype == dtype:
        return a @ b
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=dtype)
    return a.to(dtype) @ b.to(dtype)  # the same products: two bfloat16 numbers multiply exactly in float32


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    if a.dtype == total.dtype:
        torch.addmm(total, a, b, out=total)  # like addmm_, in operators that FLOP counters know
    else:
        total.add_(_product(a, b, total.dtype))
