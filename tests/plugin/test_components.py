"""A class of a family with a kind is announced by that alone."""

import pytest

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host

SHEAR = '''
import torch
from skelbench.views import Augment

class Shear(Augment):
    """Shear the body about its root. Source: SkeletonCLR."""

    kind = "shear"
    version = 2
    beta: float = 0.5
'''


def status(host):
    return host.plugins[-1]


def test_a_class_of_a_family_appears_in_the_list(write, capsys):
    path = write("mine.py", SHEAR, header=False)
    host = Host([path])
    shear = host.get("augmentations", "shear")
    assert (shear.summary, shear.version) == ("Shear the body about its root", 2)
    assert host.identity(shear) == f"2 {status(host).source_hash}"
    assert main(["plugins", "list", "--plugin", str(path)]) == 0
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if "augmentations" in line]
    assert line == ["augmentations", "shear"]


@pytest.mark.parametrize(
    ("imports", "base", "kind"),
    [
        ("from skelbench.views import Crop", "Crop", "crops"),
        ("from skelbench.views import Degrade as Damage", "Damage", "degradations"),
        ("import skelbench.views", "skelbench.views.Mask", "masks"),
        ("from skelbench.models.optim.optimizers import Optimizer as Base", "Base", "optimizers"),
        ("from skelbench.views import Rotate", "Rotate", "augmentations"),
    ],
)
def test_ways_to_write_a_family(write, imports, base, kind):
    host = Host([write("a.py", f"{imports}\nclass It({base}):\n    kind = 'it'\n", header=False)])
    assert status(host).state == "ok" and [entry.name for entry in host.entries] == host.names(kind) == ["it"]


@pytest.mark.parametrize(
    "body",
    [
        "from torch.optim import Optimizer\nclass It(Optimizer):\n    kind = 'it'",
        "from skelbench.views import Augment\nclass Base(Augment):\n    pass",
        "from skelbench.views import Rotate",
    ],
)
def test_classes_that_announce_nothing(write, body):
    hook = "\n@hookimpl\ndef skelbench_methods():\n    return [MethodSpec(name='bee', target='os:getcwd')]\n"
    host = Host([write("a.py", body + hook)])
    assert status(host).state == "ok" and [entry.name for entry in host.entries] == ["bee"]


def test_a_kind_that_is_no_slug_is_refused(write):
    path = write(
        "a.py", "from skelbench.views import Augment\nclass It(Augment):\n    kind = 'No Slug'\n", header=False
    )
    assert status(Host([path])).state == "invalid" and "must be lower case" in status(Host([path])).error


BASE = """
    from typing import ClassVar
    from skelbench.core.component import Spec

    class Base(Spec):
        family: ClassVar[str] = "masks"
        version: ClassVar[int] = 3

    class Twist(Base):
        '''Twist the trunk.'''

        kind: ClassVar[str] = "twist"
        angle: float = 30.0
        '''In degrees.'''
"""


def test_find_gives_the_class_and_names_the_nearest(write):
    host = Host([write("b.py", BASE)])
    twist, descriptor = host.find("masks", "twist"), host.get("masks", "twist")
    assert twist(angle=3).angle == 3.0 and host.config(descriptor) is twist and descriptor.version == twist.version == 3
    with pytest.raises(SkelbenchError, match="unknown mask 'twits'; did you mean 'twist'?"):
        host.find("masks", "twits")


def test_a_hook_announces_components_and_topologies_too(write):
    body = """
    from skelbench.plugin import ComponentSpec, TopologySpec

    class Augment:
        family = "augmentations"

    class Shear(Augment):
        kind = "shear"

    SEVEN = {"joints": 7}

    @hookimpl
    def skelbench_augmentations():
        return [ComponentSpec(name="shear", target=":Shear", summary="as the hook says")]

    @hookimpl
    def skelbench_topologies():
        return [TopologySpec(name="seven", target=":SEVEN")]
    """
    host = Host([write("a.py", body)])
    assert status(host).state == "ok"
    assert host.get("augmentations", "shear").summary == "as the hook says"
    assert host.find("topologies", "seven") == {"joints": 7} and host.find("augmentations", "shear").kind == "shear"


def test_one_kind_twice_is_a_clash(write, monkeypatch):
    one, two = write("one.py", SHEAR, header=False), write("two.py", SHEAR + "\n# 2\n", header=False)
    host = Host([one, two])
    assert host.names("augmentations") == ["one:shear", "two:shear"]
    with pytest.raises(SkelbenchError, match="announced by plugins 'one'.* and 'two'.*; write 'one:shear' or 'two:sh"):
        host.get("augmentations", "shear")
    twice = SHEAR + SHEAR.replace("class Shear", "class Other")
    host = Host([write("twice.py", twice, header=False)])
    assert "augmentation 'shear' is announced twice" in status(host).error
