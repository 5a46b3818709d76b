"""The one kind of error a user is meant to read, and the name that was probably meant."""

from collections.abc import Collection, Iterable


class SkelbenchError(Exception):
    """Something the user can put right: printed as one sentence, exit code ``exit_code``, no traceback.

    The message says what is wrong, where, and what to do.
    """

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the sentence alone."""
        return [f"error: {self}"]


class Stopped(SkelbenchError):
    """Training ended before its schedule did; ``outcome`` and ``step`` go into the run's record."""

    outcome: str

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class Interrupted(Stopped):
    """By the user, after saving the state; re-issuing the command continues."""

    exit_code = 130
    outcome = "interrupted"


class Diverged(Stopped):
    """The loss was no longer finite."""

    outcome = "diverged"


class PeerLost(SkelbenchError):
    """Another process of the same run ended, or says nothing."""

    exit_code = 1


class StoppedByLostPeer(Stopped):
    """By another process of the same run, which was lost; re-issuing the command continues."""

    exit_code = 1
    outcome = "interrupted"


class FailedOnRankZero(SkelbenchError):
    """What another process of the same run says: this one ends with the same exit code, in silence."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


SHORT = 20
"""So many names are listed where none is near."""


def did_you_mean(name: str, known: Collection[str], what: str, otherwise: str = "", others: str = "") -> str:
    """One sentence naming the nearest known name: ``unknown method 'slm'; did you mean 'slim'?`` Where none is near it
    names all, unless they are many, or says ``otherwise``; then ``others``, where more can be had."""
    near = nearest(name, known)
    names = sorted(known)
    more = f", ... ({len(names)} in all)" if len(names) > SHORT else ""
    hint = f"did you mean {near!r}?" if near else otherwise or f"known: {', '.join(names[:SHORT]) or 'none'}{more}."
    return f"unknown {what} {name!r}; {hint}" + (f" {others}" if others and not near else "")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant; None where that would be a guess.

    Near is a slip of the fingers (one in three letters wrong, left out, too many or swapped) or a name cut short. The
    last parts of dotted names decide: ``temperatur`` is no ``encoder.temporal`` because of the rest, and ``lrr`` is
    ``train.lr`` in spite of it.
    """
    outer, _, last = _parts(name)
    ranked = []
    for candidate in sorted(known):
        their_outer, _, theirs = _parts(candidate)
        slips, cut = _slips(last, theirs)
        long = len(last) >= 6 and cut <= len(last) // 5
        if slips <= max(len(last) // 3, len(last) > 1) or cut == 0 and 2 * len(last) > len(theirs) or long:
            ranked.append((min(slips, cut + 1), _slips(outer, their_outer)[0], slips, candidate))
    return min(ranked)[-1] if ranked else None


def _parts(name: str) -> tuple[str, str, str]:
    return name.lower().replace("_", "-").replace(":", ".").rpartition(".")


def _slips(a: str, b: str) -> tuple[int, int]:
    """Fewest letters to change, leave out, add or swap with the next that make ``b``, and a beginning of ``b``, of
    ``a``."""
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
