"""LaTeX of tables: as it is pasted into a paper."""

from skelbench.reporting.render import render
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
            "gain": Cell(-1.25, None, (-2.0, 0.5)),
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


def test_cells_rules_and_notes_are_typeset():
    text = render(TABLE, "latex")
    for line in (
        r"\begin{table*}[t]",
        r"\caption{Costs \& gains\_ at 8$\times$25}",
        r"\label{tab:made-up}",
        r"\begin{tabular}{llrrrrr}",
        r"Method & Tokens & Acc. (\%)\textsuperscript{a} & Gain & Clips & Loss & Paper \\",
        r"\multicolumn{7}{l}{\textit{A \& B}} \\",
        r"\textit{[MAMP]} & -- & \textit{$84.9$} & -- & -- & -- & -- \\",
        r"{\par\smallskip\raggedright\footnotesize \textsuperscript{a} last step\par}",
        r"\end{table*}",
    ):
        assert line in text.splitlines()
    assert r"\textbf{\boldmath $87.7 \pm 0.1$}" in text and "$1{,}234{,}567$" in text
    assert r"$-1.2\ [-2.0, +0.5]$" in text and r"$3.3\times10^{-5}$" in text
    assert r"mae $<$1$>$\textsuperscript{b}" in text and r"skelbench run -{}-set a\_b=1" in text
