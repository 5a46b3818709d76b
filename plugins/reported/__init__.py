"""Published results of methods, by their authors or by others, that the SLiM paper's tables do not have."""

from pathlib import Path

from skelbench.plugin import PublishedSpec, RowsSpec, hookimpl

_SUMMARIES = {
    "linear": "linear accuracy: methods and streams that are not in the SLiM paper's Table 1",
    "semi": "few labels: MacDiff, which is not in the SLiM paper's Table 2 (a)",
    "retrieval": "1-NN: SCD-Net and UmURL's newer results, which are not in the SLiM paper's Table 2 (b)",
}


@hookimpl
def skelbench_published():
    return [
        PublishedSpec(
            name=f"reported-{name}",
            file=str(Path(__file__).with_name(f"{name}.csv")),
            summary=summary,
            notes={name: "Results that the SLiM paper does not have: from repositories or other papers' tables."},
        )
        for name, summary in _SUMMARIES.items()
    ]


@hookimpl
def skelbench_rows():
    return [
        RowsSpec(
            name=f"reported-{name}",
            table=name,
            target=f"skelbench_plugins.reported.rows:{name.upper()}",
            summary=summary,
        )
        for name, summary in _SUMMARIES.items()
    ]
