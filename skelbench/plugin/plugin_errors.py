"""What a plugin's author did wrong, told by file, line and function: ``vicreg.py:43, training_step: KeyError 'pairs'``.

Code of a plugin is called within :func:`plugin_code`, which turns what it raises into one sentence; what it returned is
refused by :func:`wrong`.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os.path import commonprefix
from types import FrameType
from typing import Any

from pydantic import ValidationError

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError, did_you_mean, nearest

GROUP = "skelbench"
"""Entry points of plugins."""
SINGLE = "skelbench_file_"
"""How names of the modules of single files begin."""
SHOWN = 8
"""Tensors whose shapes are told."""


class Mistake(SkelbenchError):
    """Of a plugin's author. What the plugin raised, if anything, is its ``__cause__``."""


Known = Callable[[BaseException], str]
"""What is known that helps with an error; "" = nothing."""


@contextmanager
def plugin_code(what: Any, call: str = "", known: Known = lambda error: "") -> Iterator[None]:
    """Around one call of a plugin's ``what``, a function or class: what it raises becomes a :class:`Mistake`.

    ``call``: how it is called, ``"(config, context)"``. Errors that are sentences already, those of the machine (files,
    disks) and those of skelbench's own code pass as they are.
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
    """To raise where a plugin's function or class ``what`` did not do what it should: ``returned None, not ...``."""
    return Mistake(f"{where(what) or getattr(what, '__qualname__', what)}: {sentence}")


def lacking(thing: object, function: str) -> Mistake:
    """To raise where a base class is asked for what the class of ``thing`` has to bring: ``draw(self, draws)``."""
    cls = type(thing)
    return Mistake(
        f"{where(cls) or cls.__qualname__}: class {cls.__name__} has no {function.partition('(')[0]}; "
        f"give it one: def {function}"
    )


def told(error: BaseException) -> str:
    """``error`` in one sentence that begins with the last place in a plugin that it came through; "" = through none."""
    places = own_places(error)
    if not places:
        return ""
    frame, line = places[-1]
    code, hint = frame.f_code, _hint(error, frame, line)
    return f"{_place(code.co_filename, frame.f_globals, line, code.co_name)}: {_said(error)}" + (hint and f"; {hint}")


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
    except OSError:  # the file is gone, or another by now
        return 1


def _roots() -> set[str]:
    """The packages that entry points of plugins lie in."""
    return {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group=GROUP)} - {GROUP}


def _of_plugin(names: dict[str, Any], roots: set[str]) -> bool:
    """Whether these are the globals of a plugin's file, or of another in its package."""
    root = str(names.get("__name__")).partition(".")[0]
    return root.startswith(SINGLE) or root in roots


def _place(path: str, names: dict[str, Any], line: int, function: str) -> str:
    """``vicreg.py:43, training_step``; of a package ``my_methods/vicreg.py:43, training_step``."""
    file, module = path.replace("\\", "/").rpartition("/")[2], names["__name__"]
    if not module.startswith(SINGLE):
        folder = module if file == "__init__.py" else module.rpartition(".")[0]
        file = "/".join(filter(None, (folder.replace(".", "/"), file)))
    return f"{file}:{line}" + ("" if function == "<module>" else f", {function.strip('<>')}")


def _said(error: BaseException) -> str:
    """``KeyError 'pairs'``, ``ValueError: ...``, in one line; of settings that do not hold the first."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, ValidationError):
        every = error.errors()
        first = every[0]
        same = [one for one in every if one["loc"][:1] == first["loc"][:1] and one["input"] is first["input"]]
        path = ".".join(map(str, (error.title, *commonprefix([one["loc"] for one in same]))))
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1 and (fields := _fields(error.title)):
            return did_you_mean(str(first["loc"][0]), fields, f"setting of {error.title}")
        given = "" if first["type"] == "missing" or not first["loc"] else f"={first['input']!r:.60}"
        said = first["msg"].removeprefix("Value error, ")
        others = (one["msg"].removeprefix("Input should be ") for one in same[1:])  # of a setting of several types
        return f"{path}{given} is not valid: {' or '.join([said, *others])}"
    if isinstance(error, SyntaxError):
        text = f"{error.msg} (line {error.lineno})"
    return f"{kind} {text}" if text[:1] in ("'", '"') else f"{kind}: {text}" if text else kind


def _fields(title: str) -> list[str]:
    """The settings of the class of that name."""
    classes: list[type[Spec]] = [Spec]
    for cls in classes:
        classes += cls.__subclasses__()
    return next((list(cls.model_fields) for cls in reversed(classes) if cls.__name__ == title), [])


def _hint(error: BaseException, frame: FrameType, line: int) -> str:
    """What can be told of an error that was raised in, or below, ``line`` of a plugin's ``frame``."""
    text = str(error)
    if type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError):
        return "lower --batch-size"
    if "before Module.__init__" in text:
        return "call super().__init__(config, context) first"
    if "CUDA" in text or "NVIDIA" in text or "same device" in text:
        return "take the device of what you are given (x.device) instead of naming one"
    if isinstance(error, AttributeError | NameError) and error.name:
        known = dir(error.obj) if isinstance(error, AttributeError) else [*frame.f_locals, *frame.f_globals]
        return f"did you mean {near!r}?" if (near := nearest(error.name, known)) else ""
    raised = linecache.getline(frame.f_code.co_filename, line, frame.f_globals).split()[:1] == ["raise"]
    if raised or not isinstance(error, RuntimeError | IndexError | ValueError | AssertionError):
        return ""
    shapes = [
        f"{name} {list(value.shape)}"
        for name, value in frame.f_locals.items()
        if getattr(value, "ndim", 0) and hasattr(value, "dtype")
    ]
    return f"with {', '.join(shapes[:SHOWN])}" if shapes else ""
