"""The ``skelbench`` command: registers the commands, takes out the global options, prints errors in one line."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from typing import Annotated, Any

import typer
from typer.exceptions import Abort, TyperException

from skelbench.cli.complete import add_completion
from skelbench.cli.help_texts import complete_help
from skelbench.core.console import AGAIN, err, fail, log_to_terminal, results_alone
from skelbench.core.errors import FailedOnRankZero, SkelbenchError, did_you_mean
from skelbench.core.signals import AGAIN_LATER, several, warnings_heeded
from skelbench.core.version import __version__
from skelbench.plugin.files import named_file
from skelbench.plugin.host import request_files
from skelbench.plugin.plugin_errors import Mistake, told

READ = frozenset({"--json", "--format", "--show", "--emit"})
"""Options whose output is for programs."""

START, TRAIN, RESULTS, SHARE = "Data and plugins", "Train and evaluate", "Results", "Checkpoints and installation"
COMMANDS = {
    "data": ("data:app", "Fetch, import, convert, verify and show datasets.", START),
    "plugins": ("plugins:app", "List, explain, create and check methods, encoders and other plugins.", START),
    "run": ("run:run", "Train a method, probe it, count its cost, and compare it with its baselines.", TRAIN),
    "eval": ("eval:evaluate", "Evaluate a finished run with one or more protocols.", TRAIN),
    "study": ("study:study", "Run a grid of trials.", TRAIN),
    "tune": ("tune:tune", "Tune methods with the same number of trials for each.", TRAIN),
    "suite": ("suite:app", "Show and run suites: fixed settings for all rows of one table.", TRAIN),
    "compare": ("compare:compare", "Show a table of results or costs.", RESULTS),
    "plot": ("plot:plot", "Draw a figure of finished runs, or of a method's masks and views.", RESULTS),
    "report": ("report:report", "Write all results as one self-contained HTML file.", RESULTS),
    "diagnose": ("diagnose:app", "Diagnose mask shortcuts, invariance, time order and per-class accuracy.", RESULTS),
    "runs": ("runs:app", "List, show, tag, delete, export and add runs.", RESULTS),
    "import-checkpoint": ("import_checkpoint:import_checkpoint", "Make a run from a published checkpoint.", SHARE),
    "calibrate": ("calibrate:calibrate", "Check imported checkpoints against their published results.", SHARE),
    "export": ("export:export", "Write the encoder of a run for Python, timm, ONNX or the Hugging Face Hub.", SHARE),
    "env": ("env:env", "Print versions, hardware and settings for a bug report.", SHARE),
}
"""Name -> (module of ``skelbench.cli`` and its function or group of commands, summary, panel)."""
OTHER_WORDS = {"train": "run", "pretrain": "run", "probe": "eval", "evaluate": "eval", "ls": "runs list"}
"""Words that a user may try -> the command."""
ONE_NUMBER = {
    "--seed": "takes one whole number, 0 or more; --seeds 0,1 makes one run per seed",
    "--tokens": "takes only the number of temporal tokens: 8, 15 or 30",
}
"""Options of one number -> what to write."""
TOGETHER = ("run", "eval")
"""Commands that run under torchrun."""
PLACE_ERRORS = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space or choose another place")
PLACE_ERRORS |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "choose a place you have access to")
PLACE_ERRORS |= {errno.ELOOP: "links are not allowed here; remove it"}


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"skelbench {__version__}")
        raise typer.Exit()


def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    plugin: Annotated[
        list[str] | None, typer.Option("--plugin", metavar="FILE", help="Load a plugin file. Repeatable.")
    ] = None,
) -> None:
    """Only shown by --help: :func:`main` takes --debug and --plugin out of the arguments at any position."""


def _app() -> typer.Typer:
    return typer.Typer(
        name="skelbench",
        help="Compare self-supervised methods for skeleton action recognition with the same data, tokens and probe.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
        callback=options,
    )


def listing() -> Any:
    """All commands with their summaries, none of them imported: what ``skelbench --help`` shows."""
    app = _app()
    for name, (_, summary, panel) in COMMANDS.items():
        app.command(name, help=summary, rich_help_panel=panel)(lambda: None)
    return complete_help(typer.main.get_command(app))


@cache
def commands(name: str = "") -> Any:
    """The command ``name`` as part of skelbench, so that no other one is imported; "" = all commands."""
    app = _app()
    for entry in [name] if name else COMMANDS:
        module, _, member = COMMANDS[entry][0].partition(":")
        command = getattr(importlib.import_module(f"skelbench.cli.{module}"), member)
        app.add_typer(command, name=entry) if isinstance(command, typer.Typer) else app.command(entry)(command)
    add_completion(app)
    return complete_help(typer.main.get_command(app))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0 done, 1 internal error, failed calibration or lost process, 2 error that the user can fix, 3 done with a part
    skipped, 75 stopped by SIGUSR2 of a scheduler, 130 interrupted.
    """
    with warnings_heeded() as warned:
        code = _main(argv)
    return AGAIN_LATER if code == 130 and warned.is_set() else code


def _main(argv: Sequence[str] | None) -> int:
    debug = False
    try:
        log_to_terminal()
        if completing := os.environ.get("_SKELBENCH_COMPLETE"):
            logging.disable()  # else notes on failed plugins would become part of the completion
        argv, debug, files = split_globals(list(sys.argv[1:] if argv is None else argv))
        request_files([str(named_file(name, f"--plugin {name}")) for name in files])
        if several() and argv and argv[0] not in TOGETHER and not argv[0].startswith("-"):
            message = f"`skelbench {argv[0]}` is the work of one process; issue it without torchrun"
            raise SkelbenchError(message) if os.environ.get("RANK", "0") == "0" else FailedOnRankZero(message, 2)
        read = READ & {word.partition("=")[0] for word in argv} and not {"--help", "-h"} & {*argv}
        # In standalone mode typer would print errors in a box cut at the terminal's width.
        with results_alone() if read else nullcontext():
            name = argv[0] if argv and argv[0] in COMMANDS else ""
            if argv and not name and not argv[0].startswith("-"):
                near = OTHER_WORDS.get(argv[0])
                message = f"unknown command {argv[0]!r}; did you mean `skelbench {near}`?"
                raise SkelbenchError(message if near else did_you_mean(argv[0], list(COMMANDS), "command"))
            command = listing() if argv in ([], ["--help"], ["-h"]) and not completing else commands(name)
            result = command.main(args=argv, prog_name="skelbench", standalone_mode=False)
        if result == 130:  # typer's answer to Ctrl-C
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        if debug and not isinstance(error, TyperException | KeyboardInterrupt):
            raised = error.__cause__ if isinstance(error, Mistake) and error.__cause__ else error
            err.print("".join(traceback.format_exception(raised)), end="")
        return report(error, debug)


def report(error: BaseException, debug: bool = False) -> int:
    """Print ``error`` in one line and return the exit code; ``debug``: its traceback was printed."""
    hint = "" if debug else AGAIN
    if isinstance(error, FailedOnRankZero):
        return error.exit_code
    if isinstance(error, SkelbenchError):
        raised = isinstance(error, Mistake) and error.__cause__
        return fail(f"{error}{hint if raised else ''}", error.exit_code)
    if isinstance(error, TyperException):
        return _usage(error)
    if isinstance(error, KeyboardInterrupt | Abort):
        err.print("interrupted")
        return 130
    if isinstance(error, OSError) and error.errno in PLACE_ERRORS:
        where = f"{error.filename}: " if error.filename else ""
        return fail(f"{where}{error.strerror}; {PLACE_ERRORS[error.errno]}", 2)
    text = " ".join(str(error).split())
    if sentence := told(error):
        return fail(f"{sentence}{hint}")
    return fail(f"internal error: {type(error).__name__}: {text}{hint}", 1)


def _usage(error: TyperException) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        return error.exit_code  # click has printed the help already
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "skelbench"
    message = " ".join(error.format_message().split()).rstrip(".")
    if (option := getattr(getattr(error, "param", None), "opts", [""])[0]) in ONE_NUMBER:
        message = f"{option} {ONE_NUMBER[option]}"
    if getattr(error, "option_name", "") == "--resume":
        message = "there is no option --resume: the same command without it resumes a stopped run"
    elif near := getattr(error, "possibilities", None):
        message = f"{error.message}; did you mean {' or '.join(sorted(near))}?"
    return fail(f"{message}{'' if message.endswith('?') else ';'} see `{where} --help`", error.exit_code)


def split_globals(argv: Sequence[str]) -> tuple[list[str], bool, list[str]]:
    """Arguments without the global options, whether --debug is given, and the files of --plugin.

    Global options are recognized anywhere before ``--``.
    """
    end = argv.index("--") if "--" in argv else len(argv)
    debug = "--debug" in argv[:end]
    rest, files = [], []
    words = iter(word for word in argv[:end] if word != "--debug")
    for word in words:
        option, equals, file = word.partition("=")
        if option != "--plugin":
            rest.append(word)
            continue
        file = file if equals else next(words, "")
        if not file or file.startswith("--"):
            raise SkelbenchError("--plugin needs a file; write --plugin FILE.py")
        files.append(file)
    return [*rest, *argv[end:]], debug, files


if __name__ == "__main__":
    sys.exit(main())
