"""The one kind of error a user is meant to read."""


class SkelbenchError(Exception):
    """Something the user can put right: printed as one sentence, exit code ``exit_code``, no traceback.

    The message says what is wrong, where, and what to do.
    """

    exit_code = 2


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


def did_you_mean(name: str, known: "list[str] | tuple[str, ...]", what: str, otherwise: str = "") -> str:
    """One sentence naming the nearest known name: ``unknown method 'slm'; did you mean 'slim'?`` Where none is near it
    names all, or says ``otherwise``."""
    import difflib

    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else otherwise or f"known: {', '.join(known) or 'none'}."
    return f"unknown {what} {name!r}; {hint}"
