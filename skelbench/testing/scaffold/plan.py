"""Files of ``skelbench plugins new``: names, filled templates, and commands to type next."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.version import __version__
from skelbench.plugin.descriptors import KINDS, ComponentSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import SINGULAR
from skelbench.testing.thing import KITS

if TYPE_CHECKING:
    import jinja2

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Narrower than the names that a plugin may announce: it also names a file, a folder and a distribution."""
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
PLURAL = {singular: kind for kind, singular in SINGULAR.items()}


@dataclass(frozen=True)
class Plan:
    """A new plugin of ``kind`` (singular) called ``name``; :meth:`of` checks both."""

    kind: str
    name: str

    @classmethod
    def of(cls, kind: str, name: str, host: Host) -> Plan:
        """Return the plan of a plugin; SkelbenchError for an unknown kind, and a name that is no slug or is taken."""
        singular = SINGULAR.get(kind, kind)
        if singular not in USE:
            raise SkelbenchError(did_you_mean(kind, list(USE), "kind of plugin"))
        if not NAME.fullmatch(name):
            raise SkelbenchError(
                f"{name!r} cannot name a {singular}: write lower case letters, digits, '-', '_' and '.', a letter or "
                "digit first"
            )
        for entry in host.entries:
            if SINGULAR[entry.kind] == singular and entry.name == name:
                owner = f"{entry.plugin.name!r} ({entry.plugin.source})"
                raise SkelbenchError(f"{singular} {name!r} is announced by plugin {owner} already; choose another name")
        return cls(singular, name)

    def check_module(self) -> None:
        """Raise SkelbenchError if a Python package has the name of the new file, which would hide it."""
        if self.module in sys.stdlib_module_names or importlib.util.find_spec(self.module):
            raise SkelbenchError(f"{self.module}.py would hide the Python package {self.module!r}, choose another name")

    @property
    def module(self) -> str:
        """Name of the file, ``my_idea``; a digit at its start gets the kind in front."""
        name = re.sub(r"\W", "_", self.name)
        return f"{self.kind}_{name}" if name[0].isdigit() else name

    @property
    def distribution(self) -> str:
        """Name of the project, as pip writes it."""
        return re.sub(r"[._-]+", "-", self.module).strip("-")

    @cached_property
    def cls(self) -> str:
        """Name of the class, ``MyIdea``; with its kind where the template uses that word for something else."""
        name, kind = "".join(word.capitalize() for word in re.split(r"[._-]+", self.name)), self.kind.capitalize()
        if name[0].isdigit():
            return kind + name
        assert self._templates.loader is not None
        text, _, _ = self._templates.loader.get_source(self._templates, f"{self.kind}.py.j2")
        return name + kind if keyword.iskeyword(name) or re.search(rf"\b{name}\b", text) else name

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
        found = f" {plugin}" if plugin else ""
        yield "use it", USE[self.kind].format(name=self.name, found=found)
        if any(SINGULAR[kind] == self.kind for kind in KITS):
            yield "check it", f"skelbench plugins check {self.name}{found}"
        yield "see what is known of it", f"skelbench plugins info {self.name}{found}"

    def _filled(self, template: str) -> str:
        in_class = KINDS[PLURAL[self.kind]] is ComponentSpec
        return self._templates.get_template(template).render(
            kind=self.kind,
            article="an" if self.kind[0] in "aeo" else "a",
            name=self.name,
            cls=self.cls,
            module=self.module,
            distribution=self.distribution,
            skelbench=__version__,
            commands=list(self.commands()),
            version_place="`version = 2` in the class" if in_class else "`version=2` where it is announced",
        )

    @cached_property
    def _templates(self) -> jinja2.Environment:
        import jinja2

        return jinja2.Environment(
            loader=jinja2.PackageLoader("skelbench.testing.scaffold"),
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
        )
