"""A class of a family with a kind is announced without a hook."""

import pytest

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host

SHEAR = '''
from skelbench.views import Augment

class Shear(Augment):
    """Shear the body about its root. Source: SkeletonCLR."""

    kind = "shear"
    version = 2
    beta: float = 0.5
'''


def test_a_class_of_a_family_appears_in_the_list(write, capsys):
    path = write("mine.py", SHEAR, header=False)
    host = Host([path])
    shear, cls = host.get("augmentations", "shear"), host.find("augmentations", "shear")
    assert (shear.summary, shear.version) == ("Shear the body about its root", 2)
    assert cls(beta=3).beta == 3.0 and host.config(shear) is cls
    assert host.identity(shear) == f"2 {host.plugins[-1].source_hash}"
    with pytest.raises(SkelbenchError, match="unknown augmentation 'shaer'; did you mean 'shear'?"):
        host.find("augmentations", "shaer")
    assert main(["plugins", "list", "--plugin", str(path)]) == 0
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if "augmentations" in line]
    assert line == ["augmentations", "1", "shear"]


@pytest.mark.parametrize(
    ("imports", "base", "kind"),
    [
        ("from skelbench.views import Degrade as Damage", "Damage", "degradations"),
        ("import skelbench.views", "skelbench.views.Mask", "masks"),
        ("from skelbench.views import Rotate", "Rotate", "augmentations"),
    ],
)
def test_a_family_field_accepts_all_forms(write, imports, base, kind):
    host = Host([write("a.py", f"{imports}\nclass It({base}):\n    kind = 'it'\n", header=False)])
    assert host.plugins[-1].state == "ok" and [entry.name for entry in host.entries] == host.names(kind) == ["it"]


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
    assert host.plugins[-1].state == "ok"
    assert host.get("augmentations", "shear").summary == "as the hook says"
    assert host.find("topologies", "seven") == {"joints": 7} and host.find("augmentations", "shear").kind == "shear"
