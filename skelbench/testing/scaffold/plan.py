"""Files of ``skelbench plugins new``: names, filled templates, and commands to type next."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.files import unwritable
from skelbench.core.version import __version__
from skelbench.plugin.descriptors import KINDS, ComponentSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import SINGULAR
from skelbench.testing.thing import KITS

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Pattern of new names, narrower than for announced names: it also names a file, a class and a distribution."""
_MINE = "skelbench plugins new method mine && skelbench run mine --plugin mine.py"
"""The template's method takes any crop and augmentation; shipped methods have views of their own."""
USE = {
    "method": "skelbench run {name} --tokens 8{found}",
    "encoder": "skelbench run skeletonclr --encoder {name} --tokens 8{found}",
    "dataset": "skelbench run slim --dataset {name} --tokens 8{found}",
    "protocol": "skelbench run slim --probe {name} --tokens 8{found}",
    "target": "skelbench run slim --set target={name} --tokens 8{found}",
    "table": "skelbench compare --table {name}{found}",
    "figure": "skelbench plot {name}{found}",
    "observer": "skelbench run slim --observe {name} --tokens 8{found}",
    "crop": f"{_MINE} --set 'method.crop={{{{kind=\"{{name}}\"}}}}' --tokens 8{{found}}",
    "augmentation": f"{_MINE} --set 'method.augment=[{{{{kind=\"{{name}}\"}}}}]' --tokens 8{{found}}",
    "mask": 'in a method that requires "replace-tokens": ViewSpec(..., mask={{"kind": "{name}"}})',
    "degradation": "skelbench run slim --set 'train.degrade=[{{kind=\"{name}\"}}]' --tokens 8{found}",
    "optimizer": "skelbench run slim --set optimizer={name} --tokens 8{found}",
    "schedule": "skelbench run slim --set schedule={name} --tokens 8{found}",
    "topology": "skelbench data import RECORDINGS.npz --name {name}-clips{found}",
}
"""Kind -> a command that uses it; ``found`` is the option by which the command finds its file."""


@dataclass(frozen=True)
class Plan:
    """A new plugin of ``kind`` (singular) called ``name``; :meth:`of` checks both."""

    kind: str
    name: str

    @classmethod
    def of(cls, kind: str, name: str, host: Host) -> Plan:
        """Return the plan of a plugin; SkelbenchError for an unknown kind, and a name that is taken or not a slug."""
        singular = SINGULAR.get(kind, kind)
        if singular not in USE:
            raise SkelbenchError(did_you_mean(kind, list(USE), "kind of plugin"))
        if not NAME.fullmatch(name):
            raise SkelbenchError(
                f"{name!r} cannot name a {singular}: write lower case letters, digits and '-', a letter first"
            )
        for entry in host.entries:
            if SINGULAR[entry.kind] == singular and entry.name == name:
                owner = f"{entry.plugin.name!r} ({entry.plugin.source})"
                raise SkelbenchError(f"{singular} {name!r} is announced by plugin {owner} already; choose another name")
        plan = cls(singular, name)
        if importlib.util.find_spec(plan.module):
            raise SkelbenchError(f"{plan.module}.py would hide the Python package {plan.module!r}, choose another name")
        return plan

    @property
    def module(self) -> str:
        """Name of the file, ``my_idea``."""
        return self.name.replace("-", "_")

    def file(self) -> str:
        """Return the plugin as one file."""
        return self._filled(f"{self.kind}.py.j2")

    def package(self) -> dict[str, str]:
        """Return an installable project: path in its folder -> text."""
        return {
            "pyproject.toml": self._filled("package/pyproject.toml.j2"),
            "README.md": self._filled("package/README.md.j2"),
            ".gitignore": self._filled("package/gitignore.j2"),
            f"src/{self.module}.py": self.file(),
            f"tests/test_{self.module}.py": self._filled("package/test_plugin.py.j2"),
        }

    def commands(self, plugin: str = "") -> Iterator[tuple[str, str]]:
        """Yield (purpose, command); ``plugin``: option by which a command finds the file, ``--plugin my_idea.py``."""
        argument = f" {plugin}" if plugin else ""
        yield "use it", USE[self.kind].format(name=self.name, found=argument)
        if any(SINGULAR[kind] == self.kind for kind in KITS):
            yield "check it", f"skelbench plugins check {self.name}{argument}"
        yield "see what is known of it", f"skelbench plugins info {self.name}{argument}"

    def _filled(self, template: str) -> str:
        import jinja2

        in_class = any(SINGULAR[kind] == self.kind and cls is ComponentSpec for kind, cls in KINDS.items())
        loader = jinja2.PackageLoader("skelbench.testing.scaffold")
        templates = jinja2.Environment(
            loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True
        )
        return templates.get_template(template).render(
            kind=self.kind,
            article="an" if self.kind[0] in "aeo" else "a",
            name=self.name,
            cls="".join(word.capitalize() for word in (*self.name.split("-"), self.kind)),
            module=self.module,
            skelbench=__version__,
            commands=list(self.commands()),
            version_place="`version = 2` in the class" if in_class else "`version=2` where it is announced",
        )


def write_new(place: Path, files: Mapping[str, str]) -> None:
    """Write ``files``, relative path -> text, below the new folder ``place``; ``{"": text}`` is the new file ``place``.

    SkelbenchError if ``place`` exists or cannot be written.
    """
    if os.path.lexists(place):
        raise SkelbenchError(f"{place} exists already and is left as it is; choose another name or folder (-o)")
    try:
        for name, text in files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SkelbenchError(f"{unwritable(place, error)} with -o") from error
