"""Triton kernels of the prototype loss in bf16 on a GPU: logits exist in registers only.

Logits are computed again wherever they are needed, in tiles that are summed in float32. Only the gradient with respect
to logits reaches memory, in bfloat16 and for some samples at a time: cuBLAS is faster in the two products with it.
There are no atomic operations, so results are the same in every run.

Shapes: M, N rows of two factors, one divided by the temperature; D width; S parts of N; else as in ``prototype_loss``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2_E = tl.constexpr(1.4426950408889634)
TILES = 32
"""Tiles of logits that one program of :func:`logsumexp` goes through."""


@triton.jit(do_not_specialize=["M", "N"])
def _logsumexp(  # type: ignore[no-untyped-def]
    a_MD, b_ND, bias_N, out_SM, M, N, tiles,
    D: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, BLOCK_D)
    a = tl.load(a_MD + m.to(tl.int64)[:, None] * D + d[None, :], mask=(m < M)[:, None] & (d < D)[None, :], other=0.0)
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    begin = tl.program_id(1) * tiles * BLOCK
    for start in range(begin, min(begin + tiles * BLOCK, N), BLOCK):
        n = start + tl.arange(0, BLOCK)
        inside = (n < N)[:, None] & (d < D)[None, :]
        b = tl.load(b_ND + n.to(tl.int64)[:, None] * D + d[None, :], mask=inside, other=0.0)
        x = tl.dot(a, tl.trans(b), input_precision="ieee")
        if BIAS:
            x += tl.load(bias_N + n, mask=n < N, other=0.0)[None, :]
        x = tl.where((n < N)[None, :], x, float("-inf"))
        larger = tl.maximum(largest, tl.max(x, 1) * LOG2_E)
        total = total * tl.exp2(largest - larger) + tl.sum(tl.exp2(x * LOG2_E - larger[:, None]), 1)
        largest = larger
    tl.store(out_SM + tl.program_id(1) * M + m, (largest + tl.log2(total)) / LOG2_E, mask=m < M)


@triton.jit
def _logits(  # type: ignore[no-untyped-def]
    a_MD, b_ND, m, n, M, N, D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr
):
    x = tl.zeros([BLOCK, BLOCK], tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        columns = (d < D)[None, :]
        a = tl.load(a_MD + m.to(tl.int64)[:, None] * D + d[None, :], mask=(m < M)[:, None] & columns, other=0.0)
        b = tl.load(b_ND + n.to(tl.int64)[:, None] * D + d[None, :], mask=(n < N)[:, None] & columns, other=0.0)
        x = tl.dot(a, tl.trans(b), x, input_precision="ieee")
    return x


@triton.jit(do_not_specialize=["C"])
def _residuals(  # type: ignore[no-untyped-def]
    teacher_cD, teacher_KD, teacher_log_c, offset_K, student_cVD, student_KD, student_log_cV, residual_cVK, loss_ScV,
    C, K, V, D: tl.constexpr, OFFSET: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (c < C)[:, None] & (k < K)[None, :]
    x = _logits(teacher_cD, teacher_KD, c, k, C, K, D, BLOCK, BLOCK_D)
    x -= tl.load(teacher_log_c + c, mask=c < C, other=0.0)[:, None]
    if OFFSET:
        x += tl.load(offset_K + k, mask=k < K, other=0.0)[None, :]
    target = tl.where(inside, tl.exp2(x * LOG2_E), 0.0)
    for v in range(V):
        row = c * V + v
        x = _logits(student_cVD, student_KD, row, k, C * V, K, D, BLOCK, BLOCK_D)
        x -= tl.load(student_log_cV + row, mask=c < C, other=0.0)[:, None]
        residual = tl.exp2(x * LOG2_E) - target
        place = residual_cVK + row.to(tl.int64)[:, None] * K + k[None, :]
        tl.store(place, residual.to(residual_cVK.dtype.element_ty), mask=inside)
        tl.store(loss_ScV + tl.program_id(1) * C * V + row, -tl.sum(target * x, 1), mask=c < C)


def logsumexp(a_MD: Tensor, b_ND: Tensor, bias_N: Tensor | None = None) -> Tensor:
    """Return log sum_n exp(a_m . b_n + bias_n) [M] in float32; -inf for no n."""
    (M, D), N = a_MD.shape, len(b_ND)
    if not M or not N:
        return torch.full((M,), -torch.inf, device=a_MD.device)
    sizes = _sizes(a_MD)
    sizes |= {"num_warps": max(1, sizes["BLOCK"] // 32)}
    grid = triton.cdiv(M, sizes["BLOCK"]), triton.cdiv(N, TILES * sizes["BLOCK"])
    out_SM = torch.empty(grid[1], M, device=a_MD.device)
    _logsumexp[grid](
        a_MD.contiguous(), b_ND.contiguous(), bias_N, out_SM, M, N, TILES, D=D, BIAS=bias_N is not None,
        BLOCK_D=max(16, triton.next_power_of_2(D)), num_stages=2, **sizes,
    )  # fmt: skip
    return out_SM.logsumexp(0)


def residuals(
    teacher_cD: Tensor, teacher_KD: Tensor, teacher_log_c: Tensor, offset_K: Tensor | None,
    student_cVD: Tensor, student_KD: Tensor, student_log_cV: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the cross-entropy [c, V], and softmax minus target [c, V, K]; ``log``: :func:`logsumexp` of logits."""
    (C, V, D), K = student_cVD.shape, len(student_KD)
    sizes = _sizes(student_cVD)
    grid = triton.cdiv(C, sizes["BLOCK"]), triton.cdiv(K, sizes["BLOCK"])
    residual_cVK = student_cVD.new_empty(C, V, K)
    loss_ScV = torch.empty(grid[1], C, V, device=residual_cVK.device)
    _residuals[grid](
        teacher_cD.contiguous(), teacher_KD.contiguous(), teacher_log_c, offset_K, student_cVD.contiguous(),
        student_KD.contiguous(), student_log_cV, residual_cVK, loss_ScV, C, K, V,
        D=D, OFFSET=offset_K is not None, BLOCK_D=64 if D > 32 else 32, num_stages=3, **sizes,
    )  # fmt: skip
    return loss_ScV.sum(0), residual_cVK


def _sizes(like: Tensor) -> dict[str, Any]:
    """Rows and columns of a tile and warps of a program: the largest that fit into the shared memory of the GPU."""
    width, memory = triton.next_power_of_2(like.shape[-1]), 0
    if like.is_cuda:
        memory = torch.cuda.get_device_properties(like.device).shared_memory_per_block_optin
    block = next((block for block in (128, 64, 32) if 3 * block * width * like.element_size() <= memory), 16)
    return {"BLOCK": block, "num_warps": max(1, block // 16)}
