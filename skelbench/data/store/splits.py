"""Splits as rules over a store's index, never as lists of clips: one folder serves every protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

import numpy as np

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.hashing import digest

TUNE = "~tune"
"""Ending of ``SPLIT~tune``, a split for choosing settings: it tests on some of the training subjects of ``SPLIT`` and
has no test clip of ``SPLIT``. ``SPLIT~tune-camera`` and ``SPLIT~tune-setup`` hold out cameras or setups too:
they test on held-out subjects in held-out views, and train on other subjects in other views. Run ids contain this
name, so another choice of subjects needs another name."""
EACH_SUBJECT = "leave-one-subject-out"
"""Split for evaluations only: every subject is tested by a probe that is trained on all others."""
VIEWS = ("camera", "setup")
"""Fields that can define a split; a split by cameras or setups may tune on held-out cameras or setups."""
HELD_SHARE = 0.2
"""Fraction of the training subjects, and of the cameras or setups; at least one."""
ALIASES = {"xsub": "cross-subject", "xview": "cross-view", "xset": "cross-setup"}
ALIASES |= {f"x-{short[1:]}": full for short, full in ALIASES.items()}
"""Short names the field uses, accepted wherever a split is named."""


_NAME = re.compile(r"\w[\w .+-]*")
"""Pattern of split names, which are parts of file names; ``~`` marks a split for choosing settings."""


class EmptySplit(SkelbenchError):
    """Error for a split without training or without test clips."""


class FieldRule(Spec):
    """Train where ``field`` is in ``train`` (or is odd, or even); test where it is in ``test``, None = the rest."""

    field: Literal["subject", "camera", "setup", "trial"]
    train: tuple[int, ...] | Literal["odd", "even"]
    test: tuple[int, ...] | None = None


class NameRule(Spec):
    """Train on the clips named in ``train``; test on those in ``test``, None = the rest. Others are in neither.

    ``field`` "name" compares whole names, "video" the part before the last ``_``: clips cut from one recording are
    called ``VIDEO_NUMBER``. Only for stores whose clips have names.
    """

    field: Literal["video", "name"]
    train: tuple[str, ...]
    test: tuple[str, ...] | None = None


class RandomRule(Spec):
    """Hold out the fraction ``test`` of every class, chosen by a hash of the clip's index and ``seed``."""

    test: float
    seed: int = 0


Rule = Union[FieldRule, NameRule, RandomRule]


@dataclass(frozen=True)
class Split:
    """Clip ids of one split: int64, ascending, disjoint, neither empty."""

    name: str
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class HeldOut:
    """``SPLIT~tune`` (or ``~tune-camera``, ``~tune-setup``), with the subjects held out of training of ``SPLIT``."""

    split: Split
    subjects: tuple[int, ...]
    """Held-out subjects; empty if subjects are unknown: then a fraction of the clips of every class is held out."""
    of: int
    """Subjects in the training part of ``SPLIT``."""
    hash: str
    """Hash of dataset, split, training subjects and held-out ones; of cameras or setups as well."""
    field: str = ""
    """Field with more held-out values: "camera" or "setup"; "" = none."""
    views: tuple[int, ...] = ()
    """The cameras or setups held out."""
    of_views: int = 0
    """Cameras or setups in the training part of ``SPLIT``."""

    @property
    def sentence(self) -> str:
        """Description of the held-out subjects and views."""
        train, test = (f"{len(ids):,} clips" for ids in (self.split.train, self.split.test))
        subjects = f"{len(self.subjects)} of {self.of} training subjects ({', '.join(map(str, self.subjects))})"
        description = subjects if self.subjects else "a fifth of every class, as there are no two subjects"
        if self.field:
            description += f", as seen by {len(self.views)} of {self.of_views} training {self.field}s"
            description += f" ({', '.join(map(str, self.views))}),"
        return f"{self.split.name}: {description} held out for choosing ({test}), {train} to train on"

    def record(self) -> dict[str, Any]:
        """Return the fields of a record."""
        fields: dict[str, Any] = {"split": self.split.name, "subjects": list(self.subjects), "of": self.of}
        if self.field:
            fields |= {f"{self.field}s": list(self.views), f"of_{self.field}s": self.of_views}
        return {**fields, "hash": self.hash}


def check_name(name: str, where: str) -> None:
    """Raise for the name of a split that cannot be part of names of folders and files."""
    if not _NAME.fullmatch(name) or len(name) > 80:
        raise SkelbenchError(
            f"{where}: {name[:100]!r} is not a name of a split; use letters, digits, spaces and . _ + -"
        )


def for_choosing(split: str) -> bool:
    """Whether a split is for choosing settings: numbers on it are no results."""
    return TUNE in split


def hold_out(split: Split, data: str, index: Mapping[str, np.ndarray], field: str = "") -> HeldOut:
    """Hold out training subjects of ``split`` of the dataset ``data``, chosen by a hash of dataset, split and subjects.

    ``field`` "camera" or "setup": hold out some of these too, and subjects seen from them. Clips of a held-out
    subject in another view, and of another subject in a held-out view, are in neither part. No test clip is used.
    Raises :class:`EmptySplit` if one of the parts would have no clips.
    """
    subject = index["subject"][split.train]
    subjects = sorted(set(subject.tolist()))
    parts: list[Any] = [data, split.name, subjects]
    test_subjects: list[int] = []
    views: list[int] = []
    held_views: list[int] = []
    in_view = np.ones(len(subject), dtype=bool)
    if field:
        view = index[field][split.train]
        views = sorted(set(view.tolist()))
        parts += [field, views]
        held_views = _fifth(views, parts)
        in_view = np.isin(view, held_views)
    if field or len(subjects) > 1:
        test_subjects = _fifth(sorted(set(subject[in_view].tolist())), parts)
        test = np.isin(subject, test_subjects)
    else:
        _, test = _by_hash(RandomRule(test=HELD_SHARE), index["label"][split.train])
    train = ~test & ~in_view if field else ~test
    if not train.any() or not test.any():
        advice = f"hold out subjects alone: {split.name}{TUNE}" if field else "import the dataset with its subjects"
        raise EmptySplit(
            f"dataset {data}: nothing can be held out of the training clips of split {split.name!r}: too few subjects"
            f"{f' or {field}s' if field else ', and no class has more than two clips'}; {advice}"
        )
    tuning = Split(split.name + TUNE + (f"-{field}" if field else ""), split.train[train], split.train[test & in_view])
    parts += [test_subjects, held_views] if field else [test_subjects]
    return HeldOut(tuning, tuple(test_subjects), len(subjects), digest(parts), field, tuple(held_views), len(views))


def _fifth(numbers: list[int], key: list[Any]) -> list[int]:
    """Return a fifth of ``numbers``, at least one, chosen by a hash of each number and ``key``; ascending."""
    ranked = sorted(numbers, key=lambda number: digest([*key, number], 64))
    return sorted(ranked[: max(1, round(HELD_SHARE * len(numbers)))])


def full_name(split: str) -> str:
    """Return ``cross-subject`` for ``xsub``; any other name is returned unchanged."""
    return ALIASES.get(split.lower(), split)


def resolve(name: str | None, splits: Mapping[str, Rule], default: str, where: str) -> str:
    """Return the full name of a split; None is the default one. Raises for an unknown name."""
    name = default if name is None else name
    full = name if name in splits else full_name(name)
    if full not in splits:
        raise SkelbenchError(f"{where}: {did_you_mean(name, list(splits), 'split')}")
    return full


def make_split(name: str, rule: Rule, index: Mapping[str, np.ndarray], where: str) -> Split:
    """Apply a rule to the index: ``label``, ``subject``, ``camera``, ``setup``, ``trial``, ``name``, all [N]."""
    if isinstance(rule, RandomRule):
        in_train, in_test = _by_hash(rule, index["label"])
    elif isinstance(rule, NameRule):
        in_train, in_test = _by_name(rule, index["name"])
    else:
        in_train, in_test = by_field(rule, index)
    if (in_train & in_test).any():
        raise SkelbenchError(f"{where}: split {name!r} puts the same clips into train and test; correct its rule")
    for side, chosen in (("training", in_train), ("test", in_test)):
        if not chosen.any():
            raise EmptySplit(f"{where}: split {name!r} leaves no {side} clips; choose another split for this data")
    return Split(name, np.flatnonzero(in_train), np.flatnonzero(in_test))


def by_field(rule: FieldRule, index: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return masks of training and test clips, bool [N] each; unlike in a :class:`Split` either may be empty."""
    values = index[rule.field]
    if isinstance(rule.train, str):
        in_train = values % 2 == (1 if rule.train == "odd" else 0)
    else:
        in_train = np.isin(values, rule.train)
    return in_train, ~in_train if rule.test is None else np.isin(values, rule.test)


def _by_name(rule: NameRule, names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if rule.field == "video":
        names = np.array([name.rpartition("_")[0] for name in names.tolist()])
    in_train = np.isin(names, rule.train)
    return in_train, ~in_train if rule.test is None else np.isin(names, rule.test)


def _by_hash(rule: RandomRule, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys = _mix(np.arange(len(labels), dtype=np.uint64) + np.uint64((rule.seed << 32) % 2**64))
    in_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        by_key = members[np.argsort(keys[members], kind="stable")]
        in_test[by_key[: round(rule.test * len(members))]] = True
    return ~in_test, in_test


def _mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a bijection that scatters consecutive numbers."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
