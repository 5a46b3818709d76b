"""Outcomes of evaluations on the test clips, clip by clip, and paired tests of two evaluations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import check_regular
from skelbench.evaluation.stats.bootstrap import sums
from skelbench.records.errors import Damaged, if_whole
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore

if TYPE_CHECKING:
    import pandas

    from skelbench.evaluation.stats.paired import PairedTest, SeedsTest


class Outcomes(NamedTuple):
    """Outcomes of an evaluation on the test clips, by clip id."""

    ids_C: np.ndarray
    """Ascending."""
    correct_DC: np.ndarray
    """bool [draws, C]: whether each clip was recognized."""
    subject_C: np.ndarray | None
    """Subject of each clip; None if not known, or if there is one only."""
    classes: int
    """Number of classes among the test clips."""

    @property
    def spread(self) -> float | None:
        """Sample standard deviation of the accuracy over draws; None for one draw."""
        return float(self.correct_DC.mean(1).std(ddof=1)) if len(self.correct_DC) > 1 else None

    @property
    def by_subject(self) -> dict[int, tuple[float, int]] | None:
        """Correct clips (means over draws) and clips, by subject."""
        if self.subject_C is None:
            return None
        right_G, clips_G = sums(self.subject_C, self.correct_DC.mean(0))
        return dict(zip(np.unique(self.subject_C).tolist(), zip(right_G.tolist(), clips_G.tolist())))


def predictions(run: RunDir, record: Mapping[str, Any], named: str = "predicted") -> dict[str, np.ndarray]:
    """Test predictions of an evaluation: ids, labels [C], subjects [C] if known; predicted, correct [C] or [draws, C].

    ``named``: the headline, or a condition (``predicted_noise_0.01``)."""
    try:
        path = run.path / Path(record["predictions"]).name  # an added record must not name a file elsewhere
        check_regular(path)
        with np.load(path) as file:
            arrays = {"ids": file["ids"], "labels": file["labels"], "predicted": file[named]}
            if "subjects" in file:
                arrays["subjects"] = file["subjects"]
        drawn = arrays["predicted"].shape[:-1]
        sizes = {array.shape for name, array in arrays.items() if name != "predicted"}
        if sizes != {arrays["predicted"].shape[-1:]} or len(drawn) > 1:
            raise ValueError("they are not one whole number per clip")
        if any(array.dtype.kind not in "iu" for array in arrays.values()):
            raise ValueError("they are not whole numbers")
    except Exception as error:  # damaged bytes make zipfile and numpy raise almost anything
        raise Damaged(
            f"predictions of evaluation {record['id']} in {run.path} are missing or damaged; "
            f"evaluate again: skelbench eval {run.spec.id} --force{run.plugin_files}, with its --protocol"
        ) from error
    return {**arrays, "correct": arrays["labels"] == arrays["predicted"]}


def outcomes_of(run: RunDir, record: Mapping[str, Any], named: str = "predicted") -> Outcomes:
    """The outcomes of an evaluation of ``run``; ``named``: see :func:`predictions`."""
    arrays = predictions(run, record, named)
    order, subjects = np.argsort(arrays["ids"], kind="stable"), arrays.get("subjects")
    has_subjects = subjects is not None and len(np.unique(subjects)) > 1
    return Outcomes(
        arrays["ids"][order],
        np.atleast_2d(arrays["correct"])[:, order],
        subjects[order] if subjects is not None and has_subjects else None,
        len(np.unique(arrays["labels"])),
    )


def paired(run: RunDir, record: dict[str, Any], other: RunDir, other_record: dict[str, Any]) -> PairedTest:
    """Paired test of two evaluations of the same test clips (first minus second)."""
    return paired_outcomes(outcomes_of(run, record), outcomes_of(other, other_record), (run.name, other.name))


def paired_outcomes(first: Outcomes, second: Outcomes, names: tuple[str, str]) -> PairedTest:
    """Paired test of outcomes of the runs ``names``; Damaged if they are of other clips."""
    from skelbench.evaluation.stats.paired import paired_test

    subject_C = first.subject_C if first.subject_C is not None else second.subject_C
    try:
        return paired_test(first.ids_C, first.correct_DC, second.ids_C, second.correct_DC, names, subjects_a=subject_C)
    except SkelbenchError as error:  # other clips: only this pair has no test
        raise Damaged(str(error)) from error


Reader = Callable[[Path, str, str], Outcomes]
"""``read(run, evaluation, predictions)``: the outcomes in a run's directory."""


def reader(named: str = "predicted") -> Reader:
    """Cached :func:`outcomes_of`, for many comparisons. ``named``: see :func:`predictions`."""
    return lru_cache(maxsize=256)(
        lambda run, evaluation, name: outcomes_of(RunDir(run), {"id": evaluation, "predictions": name}, named)
    )


def paired_over_seeds(
    store: ResultStore, first: pandas.DataFrame, second: pandas.DataFrame, read: Reader | None = None
) -> SeedsTest | None:
    """Paired test of two settings, each with one row of the frame per seed, over their common seeds.

    ``raw`` has no seed and is compared with every seed. None if they have no seed in common or predictions are
    damaged. A clip counts once, with its mean over seeds and draws.
    """
    from skelbench.evaluation.stats.paired import seeds_test

    sides = (first, second)
    seeds = [set(side["seed"]) for side in sides if not _seedless(side)]
    both = sorted(set.intersection(*seeds)) if seeds else [0]
    if not both:
        return None
    names, outcomes, read = [], [], read or reader()
    for side in sides:
        repeated = [0] * len(both) if _seedless(side) else [list(side["seed"]).index(seed) for seed in both]
        rows = [side.iloc[place] for place in repeated]
        names += [row["run"] for row in rows]
        places = [(store.root / row["run"], row["evaluation"], row["predictions"]) for row in rows]
        outcomes.append([outcome for place in places if (outcome := if_whole(partial(read, *place)))])
        if len(outcomes[-1]) < len(rows):
            return None
    every = list(chain(*outcomes))
    for name, member in zip(names, every, strict=True):
        if not np.array_equal(member.ids_C, every[0].ids_C):
            raise Damaged(
                f"runs {names[0]} and {name} were evaluated on different test clips; evaluate both again: "
                "skelbench eval RUN --force"
            )
    subject_C = next((outcome.subject_C for outcome in every if outcome.subject_C is not None), None)
    first_SDC, second_SDC = (np.stack([outcome.correct_DC for outcome in side]) for side in outcomes)
    return seeds_test(first_SDC, second_SDC, subject_C=subject_C)


def _seedless(side: pandas.DataFrame) -> bool:
    return "method" in side and side["method"].iloc[0] == "raw"
