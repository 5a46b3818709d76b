"""Figures that authors print of their own methods, where the SLiM paper's tables have none."""

from pathlib import Path

from skelbench.plugin import PublishedSpec, RowsSpec, hookimpl


@hookimpl
def skelbench_published():
    file = str(Path(__file__).with_name("linear.csv"))
    return [PublishedSpec(name="reported-linear", file=file, summary="linear accuracy in authors' own repositories")]


@hookimpl
def skelbench_rows():
    summary = "methods and streams that the SLiM paper's Table 1 leaves out"
    return [
        RowsSpec(
            name="reported-linear", table="linear", target="skelbench_plugins.reported.rows:LINEAR", summary=summary
        )
    ]
