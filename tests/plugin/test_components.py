"""A class of a family with a kind is announced by that alone; nothing of its file runs until it is used."""

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


def test_a_class_of_a_family_appears_in_the_list_and_its_file_is_not_run(write, capsys):
    path = write("mine.py", SHEAR + "\nraise ValueError\n", header=False)
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
        ("from skelbench.views import Degrade", "Degrade", "degradations"),
        ("from skelbench.views import Mask as Hidden", "Hidden", "masks"),
        ("from skelbench import views", "views.Augment", "augmentations"),
        ("import skelbench.views", "skelbench.views.Crop", "crops"),
        ("import skelbench.models.optim as optim", "optim.Schedule", "schedules"),
        ("from skelbench.models.optim import Optimizer", "dict, Optimizer", "optimizers"),
        (
            "from skelbench.models.optim import Optimizer\nclass Base(Optimizer):\n    decay: float",
            "Base",
            "optimizers",
        ),
        ("class Base:\n    family = 'masks'", "Base", "masks"),
    ],
)
@pytest.mark.parametrize("literal", ["kind = 'it'", "kind: ClassVar[str] = 'it'"])
def test_ways_to_write_a_family(write, imports, base, kind, literal):
    host = Host([write("a.py", f"{imports}\nclass It({base}):\n    {literal}\n", header=False)])
    assert status(host).state == "ok" and host.names(kind) == ["it"]


@pytest.mark.parametrize(
    "body",
    [
        "from torch.optim import Optimizer\nclass It(Optimizer):\n    kind = 'it'",
        "import torch.optim\nclass It(torch.optim.Optimizer):\n    kind = 'it'",
        "from skelbench.views import Augment\nclass Base(Augment):\n    pass",
        "from skelbench.views import Augment\nclass Loop(Loop):\n    kind = 'it'",
    ],
)
def test_classes_that_announce_nothing(write, body):
    hook = "\n@hookimpl\ndef skelbench_methods():\n    return [MethodSpec(name='bee', target='os:getcwd')]\n"
    host = Host([write("a.py", body + hook)])
    assert status(host).state == "ok" and [entry.name for entry in host.entries] == ["bee"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("kind = NAME", 'class It: kind must be written as a text, kind = "..."'),
        ("kind = 'it'\n    version = V", "class It: version must be written as an integer"),
        ("kind = 'Not A Slug'", "the name must be lower case"),
    ],
)
def test_a_kind_that_the_text_does_not_show_is_refused(write, body, sentence):
    path = write("a.py", f"from skelbench.views import Augment\nclass It(Augment):\n    {body}\n", header=False)
    assert status(Host([path])).state == "invalid" and sentence in status(Host([path])).error


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


def test_a_class_may_extend_one_that_ships(write, monkeypatch):
    monkeypatch.setattr("skelbench.plugin.builtins.PLACES", ("skelbench.views",))
    imports = "from skelbench import views\nfrom skelbench.views import Rotate as Turn\n"
    classes = "class Spin(Turn):\n    kind = 'spin'\n\nclass Wide(views.Tube):\n    kind = 'wide'\n"
    host = Host([write("a.py", imports + classes, header=False)])
    assert {"rotate", "spin"} <= set(host.names("augmentations")) and {"tube", "wide"} <= set(host.names("masks"))
    spin = host.find("augmentations", "spin")
    assert issubclass(spin, host.find("augmentations", "rotate")) and spin().model_dump()["kind"] == "spin"


def test_info_shows_the_settings_of_a_component(write, capsys):
    path = write("b.py", BASE)
    assert main(["plugins", "info", "twist", "--plugin", str(path)]) == 0
    text = capsys.readouterr().out
    assert "mask twist" in text and "Twist the trunk" in text and "In degrees." in text


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


def test_the_topologies_that_ship_are_found_by_their_names(monkeypatch):
    monkeypatch.setattr("skelbench.plugin.builtins.PLACES", ("skelbench.views.skeleton.topology.known",))
    host = Host()
    assert len(host.names("topologies")) == 5
    assert all(host.find("topologies", name).name == name for name in host.names("topologies"))
