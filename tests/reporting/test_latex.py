"""LaTeX of tables: as it is pasted into a paper."""

import re
import shutil
import subprocess

import pytest

from skelbench.reporting.render import PREAMBLE, render
from skelbench.reporting.table import Cell, Column, Table

TABLE = Table(
    "Costs & gains_ at 8×25",
    (
        Column("group", "Kind", heads=True),
        Column("method", "Method"),
        Column("tokens", "Tokens"),
        Column("accuracy", "Acc. (%)", ".1f", best="max", footnotes=("last",)),
        Column("gain", "Gain", "+.1f"),
        Column("clips", "Clips", ",d"),
        Column("loss", "Loss", ".2g", best="min"),
        Column("printed", "Paper", ".2f", published=True),
        Column("run", "Run"),
        Column("device", "Device", shown=False),
    ),
    (
        {
            "group": "A & B",
            "method": "slim|_x_ y_z",
            "tokens": "8x25+1",
            "accuracy": Cell(87.6543, 0.114, (87.0, 88.25)),
            "gain": Cell(-1.25, 0.5, (-2.0, 0.5)),
            "clips": 1234567,
            "loss": 3.3e-5,
            "printed": 3.59,
            "run": "slim-s0-0123",
        },
        {
            "group": "A & B",
            "method": Cell("mae <1>", footnotes=("odd",)),
            "tokens": "30x25",
            "accuracy": 80,
            "loss": 0.313,
            "printed": Cell(28.32, footnotes=("odd",)),
        },
        {"group": "C", "method": Cell("[MAMP]", published=True), "accuracy": Cell(84.9, published=True)},
    ),
    notes=("100 % of `skelbench run --set a_b=1`: 0.313 to 3.3e-05 at 8×25.",),
    footnotes={"last": "last step", "odd": "odd one"},
    name="made-up",
).ranked()

GOLDEN = r"""% Needs in the preamble: \usepackage{booktabs,graphicx}
\begin{table*}[t]
\centering
\caption{Costs \& gains\_ at $8{\times}25$}
\label{tab:made-up}
\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%
\begin{tabular}{llrrrrr}
\toprule
Method & Tokens & Acc. (\%)\textsuperscript{a} & Gain & Clips & Loss & Paper \\
\midrule
\multicolumn{7}{l}{\textit{A \& B}} \\
slim$|$\_x\_ y\_z & $8{\times}25$+1 & \textbf{\boldmath 87.7 $\pm$ 0.1 [87.0, 88.2]} & """ + (
    r"""$-1.2$ $\pm$ 0.5 [$-2.0$, $+0.5$] & 1,234,567 & \textbf{\boldmath $3.3\times10^{-5}$} & \textit{3.59} \\
mae $<$1$>$\textsuperscript{b} & $30{\times}25$ & \underline{80.0} & -- & -- & \underline{0.31} & """
    r"""\textit{28.32}\textsuperscript{b} \\
\midrule
\multicolumn{7}{l}{\textit{C}} \\
\textit{[MAMP]} & -- & \textit{84.9} & -- & -- & -- & -- \\
\bottomrule
\end{tabular}}
{\par\smallskip\raggedright\footnotesize \textsuperscript{a} last step\par}
{\par\smallskip\raggedright\footnotesize \textsuperscript{b} odd one\par}
{\par\smallskip\raggedright\footnotesize 100 \% of \texttt{skelbench run -{}-set a\_b=1}: 0.313 to """
    r"""$3.3\times10^{-5}$ at $8{\times}25$.\par}
\end{table*}
"""
)
HOSTILE = "\\input{x} & % $ # _ { } ~ ^ | ` \" ' < > – — … “q” × ± − Δ σ 1e-5 8x25 `a_b % $` \\\\ [x] *y* \x1b[0m"


def test_golden():
    assert render(TABLE, "latex") == GOLDEN


def test_without_a_name_the_title_labels_it():
    text = render(Table("Costs & gains_ 2", (Column("a", "A"),), notes=("see --all",)), "latex")
    assert r"\label{tab:costs-gains-2}" in text and r"\begin{table}[t]" in text and "see -{}-all" in text


def balanced(text):
    """Whether LaTeX would take ``text``: braces, mathematics and environments closed, as many cells as columns, every
    special character escaped, nothing but ASCII."""
    assert text.isascii(), re.findall(r"[^\x00-\x7f]", text)
    body = "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in text.splitlines())
    bare = re.sub(r"\\[\\{}$&%#_]", "", body)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0 and bare.count("$") % 2 == 0 and "#" not in bare
    outside = re.sub(r"\$[^$]*\$", "", bare)
    assert not re.search(r"[_^]", outside)
    assert re.findall(r"\\begin\{(\w+\*?)\}", body) == re.findall(r"\\end\{(\w+\*?)\}", body)[::-1]
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", body)[1])
    rows = body[body.index(r"\toprule") : body.index(r"\bottomrule")].replace(r"\&", "")
    for row in rows.split("\\\\\n")[:-1]:
        spans = int(found[1]) - 1 if (found := re.search(r"\\multicolumn\{(\d+)\}", row)) else 0
        assert row.count("&") + spans == columns - 1, row
    return True


def hostile():
    rows = ({"a": HOSTILE, "b": Cell(-1e-9, 0.5)}, {"a": "*", "b": 1.0}, {"a": "[9cm]", "b": 2e30})
    columns = (Column("a", HOSTILE), Column("b", "B", ".2g", best="max"))
    return Table(HOSTILE, columns, rows, notes=(HOSTILE,), name=HOSTILE).ranked()


@pytest.mark.parametrize("table", [TABLE, hostile(), Table("Nothing", (Column("a", "A"),), notes=("run `this`",))])
def test_it_is_balanced_and_escaped(table):
    assert balanced(render(table, "latex"))


@pytest.mark.parametrize("broken", [r"\_ & \& \\", "{", "$", "a_b", "é", "#"])
def test_what_latex_would_refuse_is_seen(broken):
    with pytest.raises(AssertionError):
        balanced(GOLDEN.replace("last step", broken) if "\\\\" not in broken else GOLDEN.replace("mae", broken))


def test_a_latex_compiles_it(tmp_path):
    compiler = next(filter(shutil.which, ("pdflatex", "lualatex", "xelatex", "tectonic")), None)
    if compiler is None:
        pytest.skip("no LaTeX is installed")
    tables = "\n".join(render(table, "latex") for table in (TABLE, hostile(), Table("Nothing yet", ())))
    tables = tables.replace(r"\label{tab:made-up}", r"\label{tab:one}")
    document = "\n".join([r"\documentclass{article}", PREAMBLE, r"\begin{document}", tables, r"\end{document}", ""])
    (tmp_path / "paper.tex").write_text(document)
    options = [] if compiler == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run([compiler, *options, "paper.tex"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
