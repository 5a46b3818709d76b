"""``skelbench plugins``: lists of one kind, units of settings, and what methods and encoders cost."""

import re

import pytest

from skelbench.cli.main import main
from skelbench.core.spec import GridSpec
from skelbench.evaluation.cost.report import flops_rows
from skelbench.plugin.host import Host
from skelbench.testing.scaffold.plan import Plan
from skelbench.views.skeleton.grid import BUDGETS

pytestmark = pytest.mark.usefixtures("shipped_plugins")
TINY = '            native={"encoder.dim": 16, "encoder.depth": 1, "encoder.heads": 2},\n'

ENCODER = """
from torch import nn
from skelbench.models.encoder import Encoded, Encoder
from skelbench.plugin import EncoderSpec, hookimpl

class Small(Encoder):
    width = features = 8

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.embed = nn.Linear(75, 8)

    def forward(self, view, mask_RN=None, keep_RK=None):
        tokens_RTD = self.embed(view.x_RTJC.flatten(2))
        return Encoded(tokens_RTD, tokens_RTD.mean(1))

@hookimpl
def skelbench_encoders():
    return [EncoderSpec(name="small", target=":Small")]
"""


@pytest.fixture
def shown(capsys):
    """``shown("plugins", "list")``: what the command prints."""

    def shown(*arguments):
        capsys.readouterr()
        assert main([*arguments]) == 0
        return capsys.readouterr().out

    return shown


def test_a_list_may_be_of_one_kind(shown, fails):
    for kind in ("mask", "masks"):
        lines = [line.split() for line in shown("plugins", "list", kind).splitlines() if line.strip()]
        assert lines[0][:2] == ["name", "summary"] and [line[0] for line in lines[2:]] == ["random-tokens", "tube"]
    fails(["plugins", "list", "metod"], "unknown kind 'metod'; did you mean 'method'?")


def test_settings_have_units_where_they_have_any(shown):
    assert re.search(r"tilt_deg +float +\S+ +degrees", shown("plugins", "info", "slim"))
    assert re.search(r"(?m)^abilities +cells, drop-lines, short-views *$", shown("plugins", "info", "stgcn"))
    assert " unit " not in shown("plugins", "info", "adamw")


def test_the_cost_of_a_method_is_that_of_the_flops_table(shown, fails, tmp_path):
    file = tmp_path / "tiny.py"
    text = Plan("method", "tiny").file()
    file.write_text(text.replace("            recipe=", f"{TINY}            recipe="))
    host = Host([file])
    grids = [GridSpec(frames=frames, patch=patch) for frames, patch in BUDGETS.values()]
    rows = flops_rows(host, [(host.get("methods", "tiny"), grid) for grid in grids])
    expected = [(row.encoder.body_macs / 1e9, row.step_flops / 1e9) for row in rows]
    printed = shown("plugins", "info", "tiny", "--cost", "--plugin", str(file))
    counted = re.findall(r"(?m)^ +(8|15|30) +(\S+) +(\S+) *$", printed)
    assert [(float(macs), float(flops)) for _, macs, flops in counted] == [
        (pytest.approx(macs, rel=1e-3), pytest.approx(flops, rel=1e-3)) for macs, flops in expected
    ]


def test_an_encoder_has_no_step_and_a_table_no_cost(shown, fails, tmp_path):
    (tmp_path / "small.py").write_text(ENCODER)
    printed = shown("plugins", "info", "small", "--cost", "--plugin", str(tmp_path / "small.py"))
    assert "encoder, GMACs of a body" in printed and "training step, GFLOPs" not in printed
    assert re.search(r"(?m)^ +30 +7.2e-05 *$", printed)  # 120 frames of 75 numbers to 8
    fails(["plugins", "info", "linear@mamp", "--cost"], "linear@mamp is not a method or encoder with a network")
