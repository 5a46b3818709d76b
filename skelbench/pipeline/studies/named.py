"""Studies by name or file, with the options of a command (torch-free)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import validated
from skelbench.pipeline.request import RunRequest, check_set_once, parse_sets
from skelbench.pipeline.studies.files import read_study
from skelbench.pipeline.studies.study import Study
from skelbench.plugin.host import Host


def _is_file(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Begin error messages with the file of study ``name``, if it has one."""
    try:
        yield
    except SkelbenchError as error:
        if not _is_file(name):
            raise
        raise SkelbenchError(f"{name}: {error}") from error


def named_study(name: str, host: Host) -> Study:
    """The study of a TOML file, or of a plugin."""
    if _is_file(name):
        return read_study(Path(name))
    descriptor = host.get("studies", name)
    study: Study = host.checked(descriptor, host.load(descriptor), Study, "skelbench.pipeline.studies.study.Study")
    return study.model_copy(update={"name": descriptor.name, "summary": study.summary or descriptor.summary})


def with_options(study: Study, options: Mapping[str, Any], sets: Sequence[str]) -> Study:
    """``study`` with options of the command line in every trial; None = as in the study."""
    settings = parse_sets(sets)
    if "seed" in settings:
        raise SkelbenchError("--set seed: every trial is run with each seed of the study; write --seeds 0,1")
    given = {key: value for key, value in options.items() if value is not None}
    check_set_once(settings, given)
    fields: dict[str, Any] = {key: given.pop(key) for key in ("seeds", "probe") if key in given}
    if "probe" in fields:
        fields["probe"] = RunRequest(method="any", probes=fields["probe"]).probes
    if fields:
        study = validated(Study, {**study.model_dump(by_alias=True), **fields}, f"study {study.name}")
    tokens = given.pop("tokens", None)
    for key, value in {**given, **settings}.items():
        study = study.replaced(key, [value])
    return study if tokens is None else study.replaced("tokens", tokens)
