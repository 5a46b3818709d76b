"""Whether this installation, and the data here, are what a suite has frozen: every part compared, and said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter, ValidationError

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.locks import FileLock
from skelbench.data.store.splits import Rule, make_split
from skelbench.plugin.host import Host
from skelbench.records.store import FORMAT, ResultStore
from skelbench.reporting.suites import freeze
from skelbench.reporting.suites.suite import FrozenData, Suite

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore

State = Literal["same", "differs", "not here", "new"]


@dataclass(frozen=True)
class Check:
    """One part of a suite beside what is here."""

    part: str
    """``protocol linear``."""
    state: State
    """``new``: here, and not recorded yet."""
    frozen: str = ""
    """What the suite has, in a few words."""
    sentence: str = ""
    """What differs, and what to do."""


def installation(suite: Suite, host: Host) -> Iterator[Check]:
    """The checks of what is installed; data apart."""
    yield _compare("results format", suite.results_format, FORMAT)
    for name, preset in suite.presets.items():
        yield _part(f"preset {name}", preset.model_dump(), partial(_preset, host, suite, name))
    yield _compare("settings of training", suite.training, freeze.training_of())
    yield _compare("how clips are looked at", suite.evaluation, freeze.evaluation_of())
    for name, protocol in suite.protocols.items():
        yield _part(f"protocol {name}", protocol.model_dump(), partial(_protocol, host, name))
    lists = suite.label_lists
    here = freeze.label_rule(lists.shares, lists.draws)
    yield _compare("rule of label lists", lists.example_sha256, here.example_sha256, f"{lists.draws} lists of a share")
    for key, identity in suite.components.items():
        kind, _, name = key.partition(" ")
        yield _part(key, identity, partial(_identity, host, kind, name))
    for what, convention in suite.cost.items():
        yield _compare(f"cost convention, {what}", convention, freeze.conventions().get(what, "none"), "as printed")


def _identity(host: Host, kind: str, name: str) -> str:
    return host.identity(host.get(kind, name))


def _preset(host: Host, suite: Suite, name: str) -> dict[str, Any]:
    return freeze.preset_of(host, suite.encoder, name, suite.presets[name].protocols).model_dump()


def _protocol(host: Host, name: str) -> dict[str, Any]:
    return freeze.protocol_of(host, name).model_dump()


def _part(part: str, frozen: Any, here: Callable[[], Any]) -> Check:
    """A part that may be missing or broken here."""
    try:
        return _compare(part, frozen, here())
    except SkelbenchError as error:
        return Check(part, "differs", _brief(frozen), f"{part} cannot be had here: {error}")


def _compare(part: str, frozen: Any, here: Any, shown: str = "") -> Check:
    if frozen == here:
        return Check(part, "same", shown or _brief(frozen))
    told = "; ".join(f"{place or 'it'} is {_shown(mine)} here and {_shown(theirs)} in the suite"
                     for place, theirs, mine in differences(frozen, here))  # fmt: skip
    return Check(part, "differs", shown or _brief(frozen), f"{part}: {told}")


def differences(frozen: Any, here: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted place, frozen value, value here) wherever two nested mappings differ; None = absent."""
    if isinstance(frozen, Mapping) and isinstance(here, Mapping):
        for key in dict.fromkeys([*frozen, *here]):
            yield from differences(frozen.get(key), here.get(key), f"{place}.{key}" if place else str(key))
    elif frozen != here:
        yield place, frozen, here


def _brief(frozen: Any) -> str:
    """``version 1, 12 settings``."""
    if not isinstance(frozen, Mapping):
        return _shown(frozen)
    settings = frozen.get("config") or frozen.get("encoder_config") or frozen
    version = f"version {frozen['version']}, " if "version" in frozen else ""
    return f"{version}{len(settings)} settings"


def _shown(value: Any) -> str:
    text = str(value)
    return f"{text[:57]}..." if len(text) > 60 else text


# ------------------------------------------------------------------------------------------------ data
def data(suite: Suite, host: Host, root: Path, recorded: Recorded) -> Iterator[Check]:
    """The checks of the data sets that are here; none is made or changed for it."""
    there = freeze.fingerprints(root)
    made = set(freeze.fixed_datasets(host))
    for name, frozen in suite.datasets.items():
        known = recorded.of(name)
        shown = f"fingerprint {known.fingerprint[:12]}" if known.fingerprint else "by the rules of its splits"
        if name in made and frozen.fingerprint not in there:
            yield Check(f"data set {name}", "not here", shown, f"{name} is made when it is first used")
            continue
        try:
            store = open_store(name, host, root)
        except SkelbenchError as error:
            yield Check(f"data set {name}", "not here", shown, str(error))
            continue
        yield data_check(suite, name, store, recorded)


def open_store(name: str, host: Host, root: Path) -> ClipStore:
    """A data set by name, made on first use where a plugin makes it."""
    from skelbench.pipeline.resolve import open_dataset

    return open_dataset(name, host, root)


def data_check(suite: Suite, name: str, store: ClipStore, recorded: Recorded) -> Check:
    """A data set that is here beside the frozen one, or the one that was recorded when it was first used."""
    part, frozen = f"data set {name}", suite.datasets[name]
    known = recorded.of(name)
    shown = f"fingerprint {known.fingerprint[:12]}" if known.fingerprint else "by the rules of its splits"
    where = "in the suite" if frozen.fingerprint else "when it was first used here"
    if known.fingerprint and known.fingerprint != store.fingerprint:
        return Check(
            part, "differs", shown,
            f"{part} has fingerprint {store.fingerprint[:12]}, and had {known.fingerprint[:12]} {where}; restore it",
        )  # fmt: skip
    if problem := _by_rule(frozen, store, part):
        return Check(part, "differs", shown, problem)
    if known.fingerprint:
        here = freeze.data_of(store, [*known.splits], suite.label_lists)
        return _compare(part, known.model_dump(), here.model_dump(), shown)
    return Check(part, "new", shown, f"{part}: fingerprint {store.fingerprint[:12]} is recorded when it is first used")


def _by_rule(frozen: FrozenData, store: ClipStore, part: str) -> str:
    """How a data set breaks a frozen rule; "" = in nothing."""
    if store.num_classes != frozen.classes:
        return f"{part} has {store.num_classes} classes, {frozen.classes} in the suite; prepare it anew"
    for name, split in frozen.splits.items():
        try:
            here = store.split(name)
            rule = TypeAdapter[Rule](Rule).validate_python(split.rule) if split.rule else None
            asked = make_split(name, rule, store.index, part) if rule else here
        except SkelbenchError as error:
            return f"{part}: split {name} cannot be made ({error}); prepare it anew"
        except ValidationError:
            return f"{part}: the rule of split {name} is none that this version knows; upgrade skelbench"
        if any(set(getattr(here, side).tolist()) != set(getattr(asked, side).tolist()) for side in ("train", "test")):
            return f"{part}: split {name} trains or tests other clips than the suite's rule; prepare it anew"
    return ""


# ------------------------------------------------------------------------------------------------ recorded
class Recorded:
    """What data were like when a suite first used them in a results directory: ``suites/NAME.json`` below it."""

    def __init__(self, suite: Suite, results: ResultStore) -> None:
        self.suite = suite
        self.path = results.root / "suites" / f"{suite.name}.json"
        self.datasets = self._read()

    def _read(self) -> dict[str, FrozenData]:
        """What was recorded; nothing of a suite with another hash."""
        if not self.path.exists():
            return {}
        try:
            document = read_json(self.path)
            same = document["suite"] == self.suite.hash
            return {name: FrozenData.model_validate(one) for name, one in document["datasets"].items() if same}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SkelbenchError(
                f"{self.path} is damaged ({error}); remove it, and the data are recorded anew"
            ) from error

    def record(self, name: str, store: ClipStore) -> None:
        """Keep what ``store`` is like, unless the suite says it or it was recorded before."""
        frozen = self.suite.datasets[name]
        if frozen.fingerprint or name in self.datasets:
            return
        found = freeze.data_of(store, [*frozen.splits], self.suite.label_lists)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):  # another command may record other data meanwhile
            self.datasets = self._read()
            self.datasets.setdefault(name, found)
            told = {one: data.model_dump(mode="json") for one, data in self.datasets.items()}
            write_json(self.path, {"suite": self.suite.hash, "datasets": told})

    def of(self, name: str) -> FrozenData:
        """What is known of a data set of the suite."""
        frozen = self.suite.datasets[name]
        return frozen if frozen.fingerprint else self.datasets.get(name, frozen)
