"""Mistakes of a plugin's author, with file, line and function: ``vicreg.py:43, training_step: KeyError 'pairs'``.

Plugin code is called within :func:`plugin_code`; :func:`wrong` rejects its results.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError

GROUP = "skelbench"
"""Entry points of plugins."""
SINGLE = "skelbench_file_"
"""Prefix of the module names of single files."""


class Mistake(SkelbenchError):
    """A mistake in a plugin. The exception of the plugin, if any, is its ``__cause__``."""


@contextmanager
def plugin_code(what: Any, call: str = "", known: Callable[[BaseException], str] = lambda error: "") -> Iterator[None]:
    """Turn exceptions of one call of a plugin's function or class ``what`` into a :class:`Mistake`.

    SkelbenchError, OSError and exceptions of skelbench's own code pass unchanged.
    ``call``: the arguments it gets, ``"(config, context)"``; ``known`` returns a hint for an error, "" = none.
    """
    try:
        yield
    except (SkelbenchError, OSError):
        raise
    except (Exception, SystemExit) as error:
        message = told(error)
        if not message and (place := (inspect.isclass(what) and where(what.__init__)) or where(what)):
            called = f"; it is called with {call}" if isinstance(error, TypeError) and call else ""
            message = f"{place}: {said(error)}{called}"
        if not message:
            raise
        raise Mistake("; ".join(filter(None, (message, known(error))))) from error


def wrong(what: Any, message: str) -> Mistake:
    """Return the error for a plugin's function or class ``what`` with a wrong result: ``returned None, not ...``."""
    return Mistake(f"{where(what) or getattr(what, '__qualname__', what)}: {message}")


def lacking(component: object, function: str) -> Mistake:
    """Return the error for the class of ``component``, which lacks a required function: ``draw(self, draws)``."""
    cls, name = type(component), function.partition("(")[0]
    return wrong(cls, f"class {cls.__name__} has no {name}; give it one: def {function}")


def told(error: BaseException) -> str:
    """Return ``error`` with the last line of a plugin that it came through; "" if it came through none."""
    places = [place for place in traceback.walk_tb(error.__traceback__) if _of_plugin(place[0].f_globals)]
    if not places:
        return ""
    frame, line = places[-1]
    arrays = {name: x for name, x in frame.f_locals.items() if isinstance(getattr(x, "shape", None), tuple)}
    shapes = [f"{name} {list(x.shape)}" for name, x in arrays.items() if x.shape]
    with_shapes = f"; with {', '.join(shapes[:8])}" if shapes and isinstance(error, RuntimeError | IndexError) else ""
    code = frame.f_code
    return f"{_place(code.co_filename, frame.f_globals, f':{line}', code.co_name)}: {said(error)}{with_shapes}"


def where(what: Any) -> str:
    """Return file, line and name of a plugin's function, file and name of a class; "" if no plugin defines it."""
    target = inspect.unwrap(getattr(what, "__func__", what))
    names = vars(sys.modules.get(getattr(target, "__module__", ""), object))
    if not _of_plugin(names):
        return ""
    code = getattr(target, "__code__", None)
    line = f":{code.co_firstlineno}" if code else ""
    return _place(code.co_filename if code else inspect.getfile(target), names, line, target.__name__)


def _of_plugin(names: Mapping[str, Any]) -> bool:
    """Return whether these are the globals of a single file, or of a module in the package of an entry point."""
    root = str(names.get("__name__")).partition(".")[0]
    packages = {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group=GROUP)} - {GROUP}
    return root.startswith(SINGLE) or root in packages


def _place(path: str, names: Mapping[str, Any], line: str, function: str) -> str:
    """Return ``vicreg.py:43, training_step``; in a package ``my_methods/vicreg.py:43, training_step``."""
    file = Path(path)
    location = f"{file.parent.name}/{file.name}" if names.get("__package__") else file.name
    return f"{location}{line}" + ("" if function == "<module>" else f", {function.strip('<>')}")


def said(error: BaseException) -> str:
    """Return ``KeyError 'pairs'`` or ``ValueError: ...`` in one line; for invalid settings the first problem."""
    from pydantic import ValidationError  # slow, and needed for errors only

    kind, text = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        path = ".".join(map(str, (error.title, *first["loc"])))
        value = "" if first["type"] == "missing" or not first["loc"] else f"={first['input']!r:.60}"
        return f"{path}{value} is not valid: {first['msg'].removeprefix('Value error, ')}"
    return f"{kind} {text}" if text[:1] in ("'", '"') else f"{kind}: {text}" if text else kind
