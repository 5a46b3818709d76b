import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from skelbench.evaluation.cost.count import CostRow, MacCount
from skelbench.plugin.host import Host
from skelbench.reporting import flops


@cache
def shipped():
    return Host()


def build(costs):
    return flops.build(costs, shipped())


def build_detail(costs):
    return flops.build_detail(costs, shipped())


def macs(tokens, depth=8, embedded=0):
    """Blocks of width 256 on ``tokens`` tokens, and the embedding of ``embedded`` patches of 4 frames."""
    return depth * (12 * 256**2 * tokens + 2 * 256 * tokens**2) + embedded * 12 * 256


def count(tokens, embedded=0):
    whole, versions = macs(tokens, embedded=embedded), {"fvcore": "1", "torch": "2"}
    return MacCount(whole, {}, whole, whole, whole, tokens, uncounted_ops={"layer_norm": 17}, versions=versions)


COSTS = [
    CostRow("skeletonmae", "30x25", count(750), False, macs(74), macs(750, depth=5), 123.4e9),
    CostRow("skeletonmae", "15x25", count(375)),
    CostRow("skeletonmae", "8x25", count(200)),
    CostRow("slim", "8x25", count(201), True, count(201).macs, None, 55e9),
    CostRow("slim", "30x25", count(751), True),
]


def column(table, key):
    return [row[key].value for row in table.rows]


def test_costs_follow_one_convention():
    table = build(COSTS)
    assert column(table, "method") == ["SkeletonMAE"] * 3 + ["SLiM"] * 2 + ["MAMP", "S-JEPA", "GFP"]
    assert column(table, "tokens")[:4] == ["30x25", "15x25", "8x25", "8x25+1"]
    assert [round(x, 3) for x in column(table, "gmacs_body")[:4]] == [7.023, 2.935, 1.422, 1.430]
    assert [round(x, 2) for x in column(table, "gflops_1")[:4]] == [14.05, 5.87, 2.84, 2.86]
    assert [round(x, 2) for x in column(table, "gflops_2")[:4]] == [28.09, 11.74, 5.69, 5.72]
    assert [round(x, 2) for x in column(table, "ratio")[:5]] == [1.0, 2.39, 4.94, 4.91, 1.0]
    first, compact = table.rows[0], table.rows[3]
    assert round(first["pretrain_encoder"].value, 2) == 1.95 and round(first["pretrain_decoder"].value, 2) == 17.56
    assert first["step"].value == 123.4 and compact["step"].value == 55
    assert compact["pretrain_decoder"].value is None


def test_notes_state_the_convention_and_explain_published_costs():
    assert list(build_detail(DETAIL).footnotes) == ["published", "one-body"]
    notes = " ".join(build(COSTS).notes)
    assert "FLOPs = 2 x MACs x bodies" in notes and "Operators not counted: layer_norm" in notes
    assert "fvcore 1" in notes and "torch 2" in notes
    assert "30x25 without class token costs 4.91 times 8x25 with class token, not 7.89 times" in notes


@pytest.mark.parametrize("build", [build, build_detail])
def test_an_empty_table_names_the_next_command(build):
    table = build([])
    assert "skelbench plugins list" in table.notes[0] and len(table.rows) == 5


# ------------------------------------------------------------------------------------------------ by module
def row(method, tokens="30x25", total=750, **fields):
    fields = {"visible": 74, "visible_macs": macs(74, embedded=750), "decoder_macs": macs(750, 5)} | fields
    return CostRow(method, tokens, count(total, total), **fields)


SLIM = row("slim", "8x25", 201, class_token=True, visible=None, visible_macs=macs(201), decoder_macs=None, native=True,
           target_macs=macs(201), head_macs=36_742_500_000, step_flops=295.9e9)  # fmt: skip
DETAIL = [
    row("skeletonmae", native=True, step_flops=58.6e9),
    row("skeletonmae", "8x25", 200, visible=19),
    row("sjepa", native=True, target_macs=macs(750)),
    row("macdiff", native=True, one_body=True),
    SLIM,
    replace(SLIM, tokens="30x25", native=False),
]


def test_costs_by_module():
    table = build_detail(DETAIL)
    mae, sjepa, _, slim = table.rows[:4]
    assert [round(mae[key].value, 2) for key in ("inference", "student", "decoder")] == [28.10, 1.96, 17.56]
    assert mae["visible"].value == 74 and mae["target"].value is None and mae["heads"].value is None
    assert sjepa["target"].value == 4e-9 * macs(750)
    assert slim["visible"].value == 201 and slim["decoder"].value is None and slim["target"].value == 4e-9 * macs(201)
    assert round(slim["heads"].value, 2) == 146.97 and slim["step"].value == 295.9


def test_published_costs_of_modules_have_their_own_columns():
    table = build_detail(DETAIL)
    keys = ("published_inference", "published_encoder", "published_decoder", "published_target")
    assert {column.key for column in table.columns if column.published} == set(keys)
    assert [table.rows[0][key].value for key in keys] == [28.32, 1.97, 17.70, None]
    assert [table.rows[1][key].value for key in keys] == [28.32, 1.97, 17.70, 28.32]
    assert [table.rows[3][key].value for key in keys] == [3.59, 3.59, None, 3.59]
    assert [table.rows[7][key].value for key in keys] == [28.32, 1.97, 1.57, 0.64]
    for uncounted in table.rows[6:]:
        assert uncounted["method"].footnotes == ("published",) and uncounted["inference"].value is None


MODULES = (
    "efficiency", "filters", "flops", "inputs", "linear", "published", "render", "study_rows",
    "table", "target_control", "token_budget",
)  # fmt: skip


def test_tables_import_neither_torch_nor_pandas():
    code = (
        "import sys, importlib\n"
        f"for module in {MODULES}:\n"
        "    importlib.import_module(f'skelbench.reporting.{module}')\n"
        "    heavy = {'torch', 'pandas', 'rich'} & set(sys.modules)\n"
        "    assert not heavy, (module, heavy)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
