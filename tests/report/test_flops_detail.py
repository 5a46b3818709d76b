from dataclasses import replace
from functools import cache

from skelbench.cost.macs import MacCount
from skelbench.plugin.host import Host
from skelbench.report import flops_detail
from skelbench.report.render import render


@cache
def shipped():
    return Host()


def build(costs):
    return flops_detail.build(costs, shipped())


def macs(tokens, depth=8, embedded=0):
    """Blocks of width 256 on ``tokens`` tokens, and the embedding of ``embedded`` patches of 4 frames."""
    return depth * (12 * 256**2 * tokens + 2 * 256 * tokens**2) + embedded * 12 * 256


def row(method, tokens="30x25", total=750, **fields):
    from skelbench.cost.rows import CostRow

    whole = macs(total, embedded=total)
    count = MacCount(whole, {}, whole, whole, whole, total, {"gelu": 8}, {"fvcore": "1", "torch": "2"})
    fields = {"visible": 74, "visible_macs": macs(74, embedded=750), "decoder_macs": macs(750, 5)} | fields
    return CostRow(method, tokens, count, **fields)


SLIM = row("slim", "8x25", 201, class_token=True, visible=None, visible_macs=macs(201), decoder_macs=None, native=True,
           target_macs=macs(201), head_macs=36_742_500_000, step_flops=295.9e9)  # fmt: skip
COSTS = [
    row("skeletonmae", native=True, step_flops=58.6e9),
    row("skeletonmae", "8x25", 200, visible=19),
    row("sjepa", native=True, target_macs=macs(750)),
    row("macdiff", native=True, one_body=True),
    SLIM,
    replace(SLIM, tokens="30x25", native=False),
]


def column(table, key):
    return [row[key].value for row in table.rows]


def test_native_grids_come_first_then_budgets_then_what_only_papers_have():
    table = build(COSTS)
    assert column(table, "method") == [
        "SkeletonMAE", "S-JEPA", "MacDiff", "SLiM", "SkeletonMAE", "SLiM", "MAMP", "GFP",
    ]  # fmt: skip
    assert column(table, "grid")[:6] == ["native"] * 4 + ["budget"] * 2
    assert column(table, "tokens")[3:6] == ["8×25+1", "8×25", "30×25+1"]


def test_figures_by_module():
    table = build(COSTS)
    mae, sjepa, _, slim = table.rows[:4]
    assert [round(mae[key].value, 2) for key in ("inference", "student", "decoder")] == [28.10, 1.96, 17.56]
    assert mae["visible"].value == 74 and mae["target"].value is None and mae["heads"].value is None
    assert sjepa["target"].value == 4e-9 * macs(750)
    assert slim["visible"].value == 201 and slim["decoder"].value is None and slim["target"].value == 4e-9 * macs(201)
    assert round(slim["heads"].value, 2) == 146.97 and slim["step"].value == 295.9


def test_published_figures_stand_apart():
    table = build(COSTS)
    keys = ("published_inference", "published_encoder", "published_decoder", "published_target")
    assert {column.key for column in table.columns if column.published} == set(keys)
    assert [table.rows[0][key].value for key in keys] == [28.32, 1.97, 17.70, None]
    assert [table.rows[1][key].value for key in keys] == [28.32, 1.97, 17.70, 28.32]
    assert [table.rows[3][key].value for key in keys] == [3.59, 3.59, None, 3.59]
    assert [table.rows[7][key].value for key in keys] == [28.32, 1.97, 1.57, 0.64]
    for uncounted in table.rows[6:]:
        assert uncounted["method"].footnotes == ("published",) and uncounted["inference"].value is None


def test_what_a_reader_must_know_is_said():
    notes = " ".join(build(COSTS).notes)
    assert "matrix products alone make 28.10, 1.96 and 17.56" in notes
    assert "74, because 750 × (1 − 0.9) is cut off below 75" in notes and "75 tokens cost 1.99" in notes
    assert "No one convention gives 3.59 and 8.36 as well: that of 28.32 makes 5.76" in notes
    assert "no classification head" in notes
    assert "GFLOPs of a clip with 2 bodies" in notes and "FLOPs = 2 x MACs x bodies" in notes
    assert "one body of a clip" in build(COSTS).footnotes["one-body"]
    assert list(build(COSTS[:2]).footnotes) == ["published"]


def test_nothing_counted_says_where_to_look():
    table = build([])
    assert "skelbench plugins list" in table.notes[0] and len(table.rows) == 5


def test_golden_markdown_rows():
    lines = render(build(COSTS), "md").splitlines()
    assert lines[4] == (
        "| SkeletonMAE | 30×25 | native | 74 | 28.10 | 1.96 | 17.56 | – | – | 58.6 | *28.32* | *1.97* | *17.70* | – |"
    )
    assert lines[7] == (
        "| SLiM | 8×25+1 | native | 201 | 5.72 | 5.72 | – | 5.72 | 146.97 | 295.9 | *3.59* | *3.59* | – | *3.59* |"
    )
