"""What ``skelbench plugins new`` writes: names for files and classes, the filled templates, and what to type next."""

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
from skelbench.plugin.host import Host
from skelbench.plugin.status import SINGULAR
from skelbench.testing.kinds import KITS

if TYPE_CHECKING:
    import jinja2

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""Narrower than what a plugin may announce: it also names a file, a folder and a distribution."""
_MINE = "skelbench plugins new method mine && skelbench run mine --plugin mine.py"
"""What ships has views of its own, which no setting exchanges; a method of the template has."""
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
"""Kind -> how one is used; ``found`` is what a command needs to find its file."""
COMPONENTS = ("crop", "augmentation", "mask", "degradation", "optimizer", "schedule")


@dataclass(frozen=True)
class Plan:
    """A new plugin of ``kind`` (singular) called ``name``; :meth:`of` checks both."""

    kind: str
    name: str

    @classmethod
    def of(cls, kind: str, name: str, host: Host) -> Plan:
        """Raises:
        SkelbenchError: there is no template for the kind, the name is no slug, would hide a Python package, or is
            announced by another plugin already.
        """
        singular = SINGULAR.get(kind, kind)
        if singular not in USE:
            raise SkelbenchError(did_you_mean(kind, list(USE), "kind of plugin"))
        if not NAME.fullmatch(name):
            raise SkelbenchError(
                f"{name!r} cannot name a {singular}: write lower case letters, digits, '-', '_' and '.', a letter or "
                "digit first"
            )
        plan = cls(singular, name)
        for entry in host.entries:
            if SINGULAR[entry.kind] == singular and entry.name == name:
                owner = f"{entry.plugin.name!r} ({entry.plugin.source})"
                raise SkelbenchError(f"{singular} {name!r} is announced by plugin {owner} already; choose another name")
        return plan

    def check_module(self) -> None:
        """Raises:
        SkelbenchError: a Python package has the name of the new file, which would hide it.
        """
        if self.module in sys.stdlib_module_names or importlib.util.find_spec(self.module):
            raise SkelbenchError(f"{self.module}.py would hide the Python package {self.module!r}, choose another name")

    @property
    def module(self) -> str:
        """``my_idea``; what begins with a digit gets its kind in front, as no module can be called so."""
        return self._lettered(re.sub(r"\W", "_", self.name), f"{self.kind}_")

    @property
    def distribution(self) -> str:
        """Name of the project: as pip writes it."""
        return re.sub(r"[._-]+", "-", self.module).strip("-")

    @cached_property
    def cls(self) -> str:
        """``MyIdea``; with its kind where the template uses that word for something else."""
        words = "".join(word.capitalize() for word in re.split(r"[._-]+", self.name))
        name = self._lettered(words, self.kind.capitalize())
        assert self._templates.loader is not None
        text, _, _ = self._templates.loader.get_source(self._templates, f"{self.kind}.py.j2")
        return name + self.kind.capitalize() if keyword.iskeyword(name) or re.search(rf"\b{name}\b", text) else name

    def _lettered(self, text: str, prefix: str) -> str:
        return f"{prefix}{text}" if text[0].isdigit() else text

    def file(self) -> str:
        """The plugin as one file."""
        return self._filled(f"{self.kind}.py.j2")

    def package(self) -> dict[str, str]:
        """An installable project: path in its folder -> text."""
        return {
            "pyproject.toml": self._filled("package/pyproject.toml.j2"),
            "README.md": self._filled("package/README.md.j2"),
            ".gitignore": self._filled("package/gitignore.j2"),
            f"src/{self.module}.py": self.file(),
            f"tests/test_{self.module}.py": self._filled("package/test_plugin.py.j2"),
        }

    def commands(self, plugin: str = "") -> Iterator[tuple[str, str]]:
        """(what for, command); ``plugin``: what a command needs to find the file, ``--plugin my_idea.py``."""
        found = f" {plugin}" if plugin else ""
        yield "use it", USE[self.kind].format(name=self.name, found=found)
        if any(SINGULAR[kind] == self.kind for kind in KITS):
            yield "check it", f"skelbench plugins check {self.name}{found}"
        yield "see what is known of it", f"skelbench plugins info {self.name}{found}"

    def _filled(self, template: str) -> str:
        where = "`version = 2` in the class" if self.kind in COMPONENTS else "`version=2` where it is announced"
        return self._templates.get_template(template).render(
            kind=self.kind,
            article="an" if self.kind[0] in "aeo" else "a",
            name=self.name,
            cls=self.cls,
            module=self.module,
            distribution=self.distribution,
            skelbench=__version__,
            commands=list(self.commands()),
            version_place=where,
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
