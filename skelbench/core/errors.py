"""Errors for users, and the known name that is nearest to a misspelled one."""

from collections.abc import Collection, Iterable


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


SHORT = 20
"""Largest number of names that are listed if none is near."""


def did_you_mean(name: str, known: Collection[str], kind: str, otherwise: str = "", others: str = "") -> str:
    """Message with the nearest known name: ``unknown method 'slm'; did you mean 'slim'?``

    If none is near: ``otherwise``, or the first :data:`SHORT` names; then ``others``, the way to more.
    """
    near = nearest(name, known)
    names = sorted(known)
    more = f", ... ({len(names)} in all)" if len(names) > SHORT else ""
    hint = f"did you mean {near!r}?" if near else otherwise or f"known: {', '.join(names[:SHORT]) or 'none'}{more}."
    return f"unknown {kind} {name!r}; {hint}" + (f" {others}" if others and not near else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant; None if that would be a guess.

    Near is a typing error (up to one letter in three wrong, missing, too many or swapped) or a name that was cut
    short. The last parts of dotted names decide: ``temperatur`` is not ``encoder.temporal``, but ``lrr`` is
    ``train.lr``.
    """
    outer, _, last = _parts(name)
    ranked = []
    for candidate in sorted(known):
        their_outer, _, theirs = _parts(candidate)
        edits, cut = _edits(last, theirs)
        long = len(last) >= 6 and cut <= len(last) // 5
        if edits <= max(len(last) // 3, len(last) > 1) or cut == 0 and 2 * len(last) > len(theirs) or long:
            ranked.append((min(edits, cut + 1), _edits(outer, their_outer)[0], edits, candidate))
    return min(ranked)[-1] if ranked else None


def _parts(name: str) -> tuple[str, str, str]:
    return name.lower().replace("_", "-").replace(":", ".").rpartition(".")


def _edits(a: str, b: str) -> tuple[int, int]:
    """Edit distance, a swap of neighbors counted once, from ``a`` to ``b`` and to the nearest beginning of ``b``."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, 1):
        oldest, before, row = before, row, [i]
        for j, other in enumerate(b, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                best = min(best, oldest[j - 2] + 1)
            row.append(best)
    return row[-1], min(row)
