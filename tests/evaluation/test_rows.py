"""Counts in the cost tables, for the installed methods."""

import logging
from dataclasses import replace

import pytest

from skelbench.core.spec import GridSpec
from skelbench.evaluation.cost.report import flops_rows

DENSE, COMPACT = GridSpec(frames=120, patch=4), GridSpec(frames=64, patch=8)


def gflops(macs):
    return round(4e-9 * macs, 2)


@pytest.mark.parametrize("method", ["skeletonmae", "mamp"])
def test_masked_autoencoding_at_its_native_grid(host, method):
    """28.10, 1.96 and 17.59 (published: 28.32, 1.97, 17.70), wherever the method draws its mask."""
    (row,) = flops_rows(host, [(host.get("methods", method), DENSE)])
    assert (row.tokens, row.native, row.class_token, row.visible) == ("30x25", True, False, 74)
    assert [gflops(macs) for macs in (row.encoder.macs, row.visible_macs, row.decoder_macs)] == [28.10, 1.96, 17.59]
    assert row.target_macs is None and row.head_macs is None and not row.one_body


def test_an_ema_teacher_counts_once_per_view(host):
    (row,) = flops_rows(host, [(host.get("methods", "sjepa"), COMPACT)])
    assert (row.tokens, row.native, row.visible) == ("8x25", False, 19)
    assert row.target_macs == row.encoder.macs


def test_slim_has_two_global_views_and_heads(host):
    (row,) = flops_rows(host, [(host.get("methods", "slim"), COMPACT)])
    assert row.native and row.class_token and row.visible is None and row.decoder_macs is None
    assert row.visible_macs == row.encoder.macs and gflops(row.visible_macs) == 5.73
    assert row.target_macs == 2 * row.encoder.macs
    assert row.head_macs > 10 * row.encoder.macs
    assert row.step_flops > 4 * row.head_macs


def test_an_uncountable_method_is_skipped_and_named(host, caplog):
    broken = replace(host.get("methods", "skeletonmae"), name="broken", native={"method.no_such": 1})
    cells = [(broken, COMPACT), (host.get("methods", "skeletonmae"), COMPACT)]
    with caplog.at_level(logging.WARNING):
        rows = list(flops_rows(host, cells))
    assert [row.method for row in rows] == ["skeletonmae"]
    assert "broken at 8 tokens is skipped" in caplog.text
