"""The suites that skelbench ships."""

from pathlib import Path

from skelbench.plugin import SuiteSpec, hookimpl


@hookimpl
def skelbench_suites() -> list[SuiteSpec]:
    return [
        SuiteSpec(
            name="skeleton-v1",
            file=str(Path(__file__).with_name("skeleton-v1.json")),
            summary="one encoder and budget for every method: linear, 1-NN, retrieval, few labels, robustness",
        ),
        SuiteSpec(
            name="open-v1",
            file=str(Path(__file__).with_name("open-v1.json")),
            summary="pretrained on open motion capture, frozen, evaluated on UI-PRMD by leave-one-subject-out",
        ),
    ]
