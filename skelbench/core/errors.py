"""Errors for users, and the known name that is nearest to a misspelled one."""

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher


class SkelbenchError(Exception):
    """Error that the user can fix, printed on one line without traceback; ``exit_code`` of the command.

    The message says what is wrong, where, and what to do.
    """

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """Text in a notebook: the message alone."""
        return [f"error: {self}"]


class Stopped(SkelbenchError):
    """Training ended before its schedule; ``outcome`` and ``step`` go into the run's record."""

    outcome: str

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class Interrupted(Stopped):
    """The user stopped the training after its state was saved; the same command continues."""

    exit_code = 130
    outcome = "interrupted"


class Diverged(Stopped):
    """The loss was no longer finite."""

    outcome = "diverged"


class PeerLost(SkelbenchError):
    """Another process of the same run ended or is silent."""

    exit_code = 1


class FailedOnRankZero(SkelbenchError):
    """The first process of the run failed and prints the error; this one ends silently with the same exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


LIKE = 0.6
"""Smallest similarity, from 0 to 1, at which a name is probably a misspelling of another name."""
SHORT = 20
"""Largest number of names that are listed if none is near."""


def did_you_mean(name: str, candidates: Collection[str], kind: str, otherwise: str = "", advice: str = "") -> str:
    """Message with the nearest known name: ``unknown method 'slm'; did you mean 'slim'?``

    If none is near: ``otherwise``, or the first :data:`SHORT` names; then ``advice``, the way to more.
    """
    near = nearest(name, candidates)
    names = sorted(candidates)
    more = f", ... ({len(names)} in all)" if len(names) > SHORT else ""
    hint = f"did you mean {near!r}?" if near else otherwise or f"known: {', '.join(names[:SHORT]) or 'none'}{more}."
    return f"unknown {kind} {name!r}; {hint}" + (f" {advice}" if advice and not near else "")


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The known name that was probably meant; None if that would be a guess.

    The last parts of dotted names decide: ``temperatur`` is not ``encoder.temporal``, but ``lrr`` is ``train.lr``.
    """
    outer, _, last = _parts(name)
    initials = "".join(word[:1] for word in last.split("-"))  # "lr" abbreviates "learning-rate"
    ranked = []
    for candidate in sorted(candidates):
        their_outer, _, candidate_name = _parts(candidate)
        likeness = 1 if candidate_name == initials else SequenceMatcher(None, last, candidate_name).ratio()
        if likeness > LIKE:
            ranked.append((likeness, SequenceMatcher(None, outer, their_outer).ratio(), candidate))
    return max(ranked, key=lambda entry: entry[:2])[-1] if ranked else None


def _parts(name: str) -> tuple[str, str, str]:
    return name.lower().replace("_", "-").replace(":", ".").rpartition(".")
