"""Every number of the paper's tables and of its results' text against the published results that ship, read out of its
LaTeX where that lies beside the checkout (``shared/paper/slim.tex`` in a folder above, or the file that
``SKELBENCH_PAPER`` names)."""

import os
import re
from functools import cache
from pathlib import Path

import pytest

from skelbench.plugin.host import Host
from skelbench.reporting import published


def paper():
    named = os.environ.get("SKELBENCH_PAPER")
    beside = [folder / "shared" / "paper" / "slim.tex" for folder in Path(__file__).resolve().parents]
    return next((path for path in [*([Path(named)] if named else []), *beside] if path.is_file()), None)


pytestmark = pytest.mark.skipif(paper() is None, reason="the paper's LaTeX is not there; SKELBENCH_PAPER may name it")


# ------------------------------------------------------------------------------------------------ reading LaTeX
@cache
def source():
    return re.sub(r"(?<!\\)%.*", "", paper().read_text(encoding="utf-8"))


@cache
def tabulars(label):
    """The tables of the float ``label``: of each the rows, lists of cells without mark-up.

    >>> tabulars("tab:flops")[0][0][0]
    'SkeletonMAE'
    """
    floats = re.findall(r"\\begin\{table\}.*?\\end\{table\}", source(), re.S)
    (text,) = [text for text in floats if f"\\label{{{label}}}" in text]
    if label in ("tab:flops", "tab:ablation_loss"):  # two floats share one environment
        text = next(part for part in text.split(r"\end{minipage}") if f"\\label{{{label}}}" in part)
    return [rows(body) for body in re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, re.S)]


def rows(body):
    """Rows that hold a figure; ``\\multirow`` and ``\\multicolumn`` are headings, which hold none."""
    body = re.sub(r"\\(?:cmidrule(?:\(\w+\))?|rowcolor)\{[^{}]*\}", "", body)
    lines = [[plain(cell) for cell in re.split(r"(?<!\\)&", line)] for line in body.split("\\\\")]
    return [cells for cells in lines if any(re.match(r"^[+-]?\d+\.\d+", cell) for cell in cells)]


def plain(cell):
    cell = re.sub(r"\\cite\{[^{}]*\}|\\(?:top|mid|bottom)rule|\\\(|\\\)|\$|\\!", "", cell)
    cell = re.sub(r"\\sigma=", "", cell).replace(r"\ding{51}", "yes").replace(r"\ding{55}", "no")
    cell = re.sub(r"\s*\\times\s*", "x", cell).replace(r"\pm", "±").replace(r"\%", "%").replace(r"\&", "&")
    while (inner := re.sub(r"\\(?:textbf|underline|textit|small)\{([^{}]*)\}", r"\1", cell)) != cell:
        cell = inner
    return re.sub(r"\s+", " ", cell.replace("~", " ").replace(" (Ours)", "")).strip()


def figure(cell):
    """(value, spread) of a cell; None of a dash."""
    if cell in ("--", ""):
        return None
    value, _, spread = cell.partition("±")
    return float(value), float(spread) if spread else None


# ------------------------------------------------------------------------------------------------ comparing
@cache
def host():
    return Host()


@cache
def ours(table):
    """(method, variant, dataset, split, metric) -> (value, spread) of the figures whose source is a table."""
    found = published.load(host(), f"slim-{table}")
    keys = ("method", "variant", "dataset", "split", "metric", "protocol")
    return {tuple(row[key] for key in keys): (row["value"], row["std"], row["source"]) for row in found}


def agrees(table, printed, label, part=""):
    """``printed``: key without protocol -> figure as read; the same figures as ours from that table, none more."""
    printed = {key: value for key, value in printed.items() if value is not None}
    place = f"({label}, {part})" if part else f"({label})"
    mine = {key[:5]: found[:2] for key, found in ours(table).items() if found[2].endswith(place)}
    assert mine == printed
    return len(printed)


def test_linear():
    places = [("ntu60", "xsub"), ("ntu60", "xview"), ("ntu120", "xsub"), ("ntu120", "xset"), ("pku2", "xsub")]
    (table,) = tabulars("tab:action_recognition")
    printed = {
        (method, "joint", *place, "accuracy"): figure(cell)
        for method, _, *cells in table
        for place, cell in zip(places, cells, strict=True)
    }
    assert agrees("linear", printed, "tab:action_recognition") == 86 and len(table) == 19


def test_few_labels_and_retrieval():
    semi, retrieval = tabulars("tab:semi_retrieval")
    columns = [("1%", "xsub"), ("10%", "xsub"), ("1%", "xview"), ("10%", "xview")]
    printed = {
        (method, share, "ntu60", split, "accuracy"): figure(cell)
        for method, *cells in semi
        for (share, split), cell in zip(columns, cells, strict=True)
    }
    assert agrees("semi", printed, "tab:semi_retrieval", "a") == 42
    printed = {
        (method, "joint+bone+motion" if method == "UmURL" else "joint", "ntu60", split, "accuracy"): figure(cell)
        for method, *cells in retrieval
        for split, cell in zip(("xsub", "xview"), cells, strict=True)
    }
    assert agrees("retrieval", printed, "tab:semi_retrieval", "b") == 20


def test_cost():
    """The ratio is printed in the caption."""
    (table,) = tabulars("tab:flops")
    columns = ("encoder_gflops", "encoder_gflops", "decoder_gflops")
    protocols = ("inference", "pretraining", "pretraining")
    printed = {
        (method, tokens, "ntu60", "", metric, protocol): figure(cell)
        for method, tokens, *cells in table
        for metric, protocol, cell in zip(columns, protocols, cells, strict=True)
    }
    printed["SLiM", "8x25", "ntu60", "", "reduction", "inference"] = (7.89, None)
    assert source().count(r"7.89$\times$") >= 3
    assert {key: found[:2] for key, found in ours("flops").items()} == {k: v for k, v in printed.items() if v}


def test_cost_by_module():
    (table,) = tabulars("tab:flops_supp")
    printed = {}
    for method, tokens, *cells, gpu, batch in table:
        names = ("encoder_gflops", "encoder_gflops", "decoder_gflops", "target_gflops", "batch_size")
        for place, (metric, cell) in enumerate(zip(names, [*cells, batch], strict=True)):
            key = method, tokens, "ntu60", "", metric, "pretraining" if place else "inference"
            printed[key] = figure(cell)
        notes = [row["note"] for row in published.load(host(), "slim-flops_supp", method=method, metric="batch_size")]
        assert [gpu] if gpu != "--" else [] == notes or notes[0].startswith(gpu)
    assert {key: found[:2] for key, found in ours("flops_supp").items()} == {k: v for k, v in printed.items() if v}


def test_objective():
    variants = {"no yes no": "cl", "no no yes": "glcl", "yes no no": "mfp", "yes yes no": "mfp+cl"}
    variants["yes no yes"] = "mfp+glcl"
    (table,) = tabulars("tab:ablation_loss")
    printed = {
        ("SLiM", variants[" ".join(marks)], "ntu60", split, "accuracy"): figure(cell)
        for *marks, xsub, xview in table
        for split, cell in (("xsub", xsub), ("xview", xview))
    }
    assert agrees("objective", printed, "tab:ablation_loss") == 10


def test_masks_and_augmentations():
    masks, augmentations = tabulars("tab:ablation_stm_saa")
    kinds = {"no": "none", "yes": "tube", "yes (Limited)": "random"}
    printed = {}
    for globals_, locals_, *cells in masks:
        if found := re.fullmatch(r"yes \((.*)%\)", globals_):
            assert globals_ == locals_
            variant = "ratio " + "-".join(f"{float(share) / 100:g}" for share in found[1].split("--"))
        else:
            variant = f"global {kinds[globals_]}, local {kinds[locals_]}"
        for split, cell in zip(("xsub", "xview"), cells, strict=True):
            printed["SLiM", variant, "ntu60", split, "accuracy"] = figure(cell)
    assert agrees("stm", printed, "tab:ablation_stm_saa", "a") == 14
    printed, limits = {}, {"no": "none", "yes (Limited)": "limited"}
    for *marks, xsub, xview in augmentations:
        names = zip(("rotation", "mirroring", "scaling"), marks, strict=True)
        (variant,) = [f"{name} {limits[mark]}" for name, mark in names if mark != "yes"] or ["all"]
        for split, cell in (("xsub", xsub), ("xview", xview)):
            printed["SLiM", variant, "ntu60", split, "accuracy"] = figure(cell)
    assert agrees("saa", printed, "tab:ablation_stm_saa", "b") == 14


def test_token_budgets():
    (table,) = tabulars("tab:token_budget_avg")
    printed = {}
    for name, frames, patch, tokens, gflops, mean in table:
        method, _, rest = name.partition("-8 ") if "Batch" in name else (re.sub(r"-\d+$", "", name), "", "")
        variant = tokens + (f", {rest.strip('()').lower()}" if rest else "")
        assert int(frames) // int(patch) == int(tokens.split("x")[0])
        printed[method, variant, "ntu60", "xsub+xview mean", "accuracy"] = figure(mean)
        printed[method, variant, "ntu60", "", "encoder_gflops"] = figure(gflops)
    assert agrees("token_budget", printed, "tab:token_budget_avg") == 24


def test_transfer():
    (table,) = tabulars("tab:transfer")
    printed = {
        (method, f"from {source} xsub", "pku2", "xsub", "accuracy"): figure(cell)
        for method, *cells in table
        for source, cell in zip(("ntu60", "ntu120"), cells, strict=True)
    }
    assert agrees("transfer", printed, "tab:transfer") == 16


def test_targets():
    variants = {
        ("MSE", "5-block decoder"): "coordinates, mse, 5-block decoder",
        ("MSE", "None"): "teacher features, mse",
        ("MSE", "Predictor head"): "teacher features, mse, predictor head",
        ("Cross-entropy", "None"): "prototypes, cross-entropy",
    }
    (table,) = tabulars("tab:target_control")
    printed = {
        ("SLiM", variants[loss, module], "ntu60", split, "accuracy"): figure(cell)
        for _, loss, module, *cells in table
        for split, cell in zip(("xsub", "xview", "xsub+xview mean"), cells, strict=True)
    }
    assert agrees("target_control", printed, "tab:target_control") == 12


def test_robustness():
    first, second = tabulars("tab:test_corruption")
    names = {"Clean": "clean", "Declared missing": "declared missing", "Gaussian noise": "noise"}
    printed = {
        ("SLiM", " ".join([names[condition], *([amount] if amount != "--" else [])]), "ntu60", split, "accuracy"): (
            figure(cell)
        )
        for condition, amount, *cells in first
        for split, cell in zip(("xsub", "xview"), cells, strict=True)
    }
    assert agrees("robustness", printed, "tab:test_corruption", "a") == 14
    names = {"Parent-joint fill": "parent fill", "Zero fill": "zero fill", "Declared mask token": "declared missing"}
    cells = {
        ("SLiM", f"{names[kind]} {joints}/25", "ntu60", "xsub", "accuracy"): figure(cell)
        for kind, *found in second
        for joints, cell in zip((3, 5, 8), found, strict=True)
    }
    declared = {key: value for key, value in cells.items() if "declared" in key[1]}
    assert len(declared) == 3  # the same figures as in (a), there with their spread
    assert {key: printed[key][0] for key in declared} == {key: value[0] for key, value in declared.items()}
    filled = {key: value for key, value in cells.items() if key not in declared}
    assert agrees("robustness", filled, "tab:test_corruption", "b") == 6


def test_degraded_training():
    (table,) = tabulars("tab:degraded_pretraining")
    printed, changes = {}, []
    for condition, *cells in table:
        name = condition.lower().replace(" test", "").replace("parent-joint", "parent").replace(", ", " ")
        name = re.sub(r"gaussian noise ([\d.]+)x.*", r"noise \1", name)
        *trained, change = map(figure, cells)
        for training, value in zip(("clean", "degraded"), trained, strict=True):
            printed["SLiM", f"{training} pre-training, {name}", "ntu60", "xsub", "accuracy"] = value
        changes.append((trained[1][0] - trained[0][0], change[0]))
    assert agrees("degraded_pretraining", printed, "tab:degraded_pretraining") == 18
    assert all(abs(made - read) < 0.0151 for made, read in changes)  # of unrounded figures there


# ------------------------------------------------------------------------------------------- what only the text says
TEXT = {
    ("target_control", "mfp_loss_start"): r"decreases from (0\.313) to",
    ("target_control", "mfp_loss_end"): r"to\s*\$(3\.3\\times10\^\{-5\})\$",
    ("target_control", "rank_masked"): r"features decreases to (1\.12)\.",
    ("robustness", "parent fill 3/25"): r"parent-joint fill decreases from (86\.02) to",
    ("robustness", "parent fill 8/25"): r"parent-joint fill decreases from 86\.02 to (71\.01)",
    ("robustness", "zero fill 3/25"): r"zero fill\s+from (76\.95) to",
    ("robustness", "zero fill 8/25"): r"from 76\.95 to (53\.14)",
    ("coverage", "coverage"): r"realized ratio has mean (0\.695)",
    ("coverage", "std of coverage"): r"standard deviation (0\.114)",
    ("coverage", "coverage_lowest"): r"\[(0\.485),0\.895\]",
    ("coverage", "coverage_highest"): r"\[0\.485,(0\.895)\]",
    ("coverage", "masks"): r"Across (11,520) generated",
    ("degraded_pretraining", "clean pre-training, clean"): r"X-View \((91\.22) to",
    ("degraded_pretraining", "degraded pre-training, clean"): r"91\.22 to (88\.98)\)",
}


def test_numbers_in_the_text_of_the_paper():
    """Each of them where the paper says it, and every one of our figures from the text among them."""
    said = {}
    for (table, what), pattern in TEXT.items():
        found = re.findall(pattern, re.sub(r"\s+", " ", source()))
        assert len(set(found)) == 1, (what, found)
        number = re.sub(r"\s*\\times\s*10\^\{(-?\d+)\}", r"e\1", found[0]).replace("{,}", "").replace(",", "")
        said[table, what] = float(number)
    mine = {}
    for table in {table for table, _ in TEXT}:
        for (_, variant, _, _, metric, _), (value, std, where) in ours(table).items():
            if "(tab:" not in where:
                what = variant if metric == "accuracy" else metric
                mine[table, what] = value
                mine |= {(table, f"std of {what}"): std} if std is not None else {}
    assert mine == said


def test_every_published_result_names_a_checked_place():
    for name, rows in published.tables(host()).items():
        for row in rows if name.startswith("slim-") else ():
            found = re.search(r"\(((?:tab|sec):\w+)", row["source"])
            assert found and f"\\label{{{found[1]}}}" in source(), row["source"]


def test_leads_in_the_text_follow_from_the_tables():
    """0.5, 0.9, 0.1 and 1.7 points over AMR, 0.6 below on PKU-MMD II."""

    def accuracy(method, dataset, split):
        return ours("linear")[method, "joint", dataset, split, "accuracy", "linear"][0]

    leads = [
        round(accuracy("SLiM", *place) - accuracy("AMR", *place), 1)
        for place in (("ntu60", "xsub"), ("ntu60", "xview"), ("ntu120", "xsub"), ("ntu120", "xset"), ("pku2", "xsub"))
    ]
    assert leads == [0.5, 0.9, 0.1, 1.7, -0.6] and "0.5, 0.9, 0.1, and 1.7" in re.sub(r"\s+", " ", source()).replace(
        r"\%", "%"
    )
