"""Mistakes of a plugin's author, with file, line and function: ``vicreg.py:43, training_step: KeyError 'pairs'``.

Plugin code is called within :func:`plugin_code`, which turns its exceptions into one sentence; :func:`wrong` rejects
its results.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from skelbench.core.errors import SkelbenchError

GROUP = "skelbench"
"""Entry points of plugins."""
SINGLE = "skelbench_file_"
"""Prefix of the module names of single files."""
SHOWN = 8
"""Most tensors whose shapes are printed."""


class Mistake(SkelbenchError):
    """A mistake in a plugin. The exception of the plugin, if any, is its ``__cause__``."""


@contextmanager
def plugin_code(what: Any, call: str = "", known: Callable[[BaseException], str] = lambda error: "") -> Iterator[None]:
    """Turn exceptions of one call of a plugin's function or class ``what`` into a :class:`Mistake`.

    SkelbenchError, OSError and exceptions of skelbench's own code pass unchanged.

    Args:
        what: the function or class.
        call: the arguments it gets, ``"(config, context)"``.
        known: returns a hint for an error; "" = none.
    """
    try:
        yield
    except (SkelbenchError, OSError):
        raise
    except (Exception, SystemExit) as error:
        sentence = told(error)
        if not sentence and (place := where(what.__init__) or where(what) if inspect.isclass(what) else where(what)):
            sentence = f"{place}: {_said(error)}"
            if isinstance(error, TypeError) and call:
                sentence += f"; it is called with {call}"
        if not sentence:
            raise
        more = known(error)
        raise Mistake(f"{sentence}; {more}" if more else sentence) from error


def wrong(what: Any, sentence: str) -> Mistake:
    """Return the error for a plugin's function or class ``what`` with a wrong result: ``returned None, not ...``."""
    return Mistake(f"{where(what) or getattr(what, '__qualname__', what)}: {sentence}")


def lacking(thing: object, function: str) -> Mistake:
    """Return the error for a class of ``thing`` that does not define a required function: ``draw(self, draws)``."""
    cls = type(thing)
    return Mistake(
        f"{where(cls) or cls.__qualname__}: class {cls.__name__} has no {function.partition('(')[0]}; "
        f"give it one: def {function}"
    )


def told(error: BaseException) -> str:
    """``error`` in one sentence with the last place in a plugin that it came through; "" = it came through none."""
    places = own_places(error)
    if not places:
        return ""
    frame, line = places[-1]
    shapes = _shapes(frame) if isinstance(error, RuntimeError | IndexError) else ""
    return f"{_place(frame.f_code.co_filename, frame.f_globals, line, frame.f_code.co_name)}: {_said(error)}{shapes}"


def own_places(error: BaseException) -> list[tuple[FrameType, int]]:
    """Frame and line of every place in a plugin that ``error`` came through, the last one last."""
    roots = _roots()
    return [place for place in traceback.walk_tb(error.__traceback__) if _of_plugin(place[0].f_globals, roots)]


def where(what: Any) -> str:
    """File, line and name of a plugin's function or class; "" if it is no plugin's."""
    if inspect.isclass(what):
        names = getattr(sys.modules.get(what.__module__), "__dict__", {})
        return _place(inspect.getfile(what), names, _line(what), what.__name__) if _of_plugin(names, _roots()) else ""
    function = inspect.unwrap(getattr(what, "__func__", what))
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None or not _of_plugin(names, _roots()):
        return ""
    return _place(code.co_filename, names, code.co_firstlineno, code.co_name)


def _line(cls: type) -> int:
    try:
        return inspect.findsource(cls)[1] + 1
    except OSError:  # the file was removed or replaced
        return 1


def _roots() -> set[str]:
    """Top-level packages of the entry points of plugins."""
    return {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group=GROUP)} - {GROUP}


def _of_plugin(names: dict[str, Any], roots: set[str]) -> bool:
    """Whether these are the globals of a plugin's file, or of another file in its package."""
    root = str(names.get("__name__")).partition(".")[0]
    return root.startswith(SINGLE) or root in roots


def _place(path: str, names: dict[str, Any], line: int, function: str) -> str:
    """``vicreg.py:43, training_step``; in a package ``my_methods/vicreg.py:43, training_step``."""
    file, module = path.replace("\\", "/").rpartition("/")[2], names["__name__"]
    if not module.startswith(SINGLE):
        folder = module if file == "__init__.py" else module.rpartition(".")[0]
        file = "/".join(filter(None, (folder.replace(".", "/"), file)))
    return f"{file}:{line}" + ("" if function == "<module>" else f", {function.strip('<>')}")


def _said(error: BaseException) -> str:
    """``KeyError 'pairs'``, ``ValueError: ...``, in one line; the first problem of invalid settings."""
    from pydantic import ValidationError  # slow, and needed for errors only

    kind, text = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        path = ".".join(map(str, (error.title, *first["loc"])))
        given = "" if first["type"] == "missing" or not first["loc"] else f"={first['input']!r:.60}"
        return f"{path}{given} is not valid: {first['msg'].removeprefix('Value error, ')}"
    if isinstance(error, SyntaxError):
        text = f"{error.msg} (line {error.lineno})"
    return f"{kind} {text}" if text[:1] in ("'", '"') else f"{kind}: {text}" if text else kind


def _shapes(frame: FrameType) -> str:
    """Shapes of the tensors in a plugin's ``frame``."""
    shapes = [
        f"{name} {list(value.shape)}"
        for name, value in frame.f_locals.items()
        if getattr(value, "ndim", 0) and hasattr(value, "dtype")
    ]
    return f"; with {', '.join(shapes[:SHOWN])}" if shapes else ""
