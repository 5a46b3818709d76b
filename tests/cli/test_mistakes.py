"""Mistakes of plugin authors give one error with file, line and function of the plugin, kept in the run's record."""

import importlib
import importlib.metadata
from typing import Any

import numpy as np
import pytest
from small import silent_session, write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.fusion import evaluate_sets
from skelbench.evaluation.protocol import Features, Protocol, ProtocolResult, headline
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin import discovery
from skelbench.plugin.files import named_file
from skelbench.plugin.host import get_host, request_files
from skelbench.plugin.plugin_errors import plugin_code, where
from skelbench.records.store import ResultStore

MINE = """import torch
from torch import nn
from torch.nn import functional as F

from skelbench.methods import Config, Method
from skelbench.models.encoder import Encoded, Encoder
from skelbench.plugin import EncoderSpec, MethodSpec, hookimpl
from skelbench.views import Augment, Crop, Free, Mask, Rotate, Same, ViewSpec


class Turn(Augment):
    kind = "turn"
    p: float = 1.0

    def draw(self, draws):
        return draws.linear(torch.eye(3).repeat(len(draws.rows_K), 1, 1))


class Part(Crop):
    kind = "part"

    def cut(self, cut):
        return cut.interval(0 * cut.length_B.double(), cut.length_B.double() - 1)


class Hide(Mask):
    kind = "hide"

    def draw(self, request, topology, keyed):
        return None


class Mean(Encoder):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.width = self.features = 6
        self.layer = nn.Linear(3 * topology.num_joints, 6)

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_RTD = self.layer(view.x_RTJC.flatten(2))
        return Encoded(tokens_RND=x_RTD, pooled_RD=x_RTD.mean(1))


class Mine(Method):
    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.head = nn.Linear(context.summary_width, 4)

    @classmethod
    def views(cls, config, grid):
        return {"pair": ViewSpec(frames=grid.frames, crop=Part(), augment=(Turn(),), count=2)}

    def training_step(self, views, step):
        pair = views["pair"]
        feature_BD = pair.per_clip(self.encoder(pair).summary_RD)
        loss = self.head(feature_BD).square().mean()
        return {"loss": loss, "norm": feature_BD.norm()}


@hookimpl
def skelbench_methods():
    return [MethodSpec(name="mine", target=":Mine", recipe={"encoder": "mean"})]


@hookimpl
def skelbench_encoders():
    return [EncoderSpec(name="mean", target=":Mean")]
"""
"""A method that is right, and everything it can be made of."""
FIRST, LAST = (
    "    def training_step(self, views, step):\n",
    '        return {"loss": loss, "norm": feature_BD.norm()}\n',
)
VIEWS = '        return {"pair": ViewSpec(frames=grid.frames, crop=Part(), augment=(Turn(),), count=2)}\n'
CUT = "        return cut.interval(0 * cut.length_B.double(), cut.length_B.double() - 1)\n"
ENCODED = "        return Encoded(tokens_RND=x_RTD, pooled_RD=x_RTD.mean(1))\n"


def group(text):
    return FIRST, f"    def optim_groups(self):\n        return [{text}]\n\n" + FIRST


MISTAKES = [
    # results of a step
    (LAST, "", "no 'loss'"),
    ('"loss": loss,', '"loss": loss.detach(),', "detach"),
    ('"loss": loss,', '"loss": loss / 0 - loss / 0,', "mine.py:54, training_step"),
    # code of a step
    ('views["pair"]', 'views["pairs"]', "the views are: pair"),
    ("context.summary_width, 4", "7, 4", "with feature_BD [8, 6]"),
    ("(self, views, step)", "(self, views)", "(views, step)"),
    # the class
    (MINE[MINE.index(FIRST) : MINE.index("\n\n@hookimpl")], "", "no training_step"),
    ("    @classmethod\n    def views(cls,", "    def views(self,", "missing 1 required positional argument"),
    ("self.encoder = context", "self.backbone = context", "no self.encoder"),
    ("(Method)", "", "not a subclass of Method"),
    (*group('{"params": list(self.head.parameters())}'), "lacks encoder.layer.weight"),
    # views, augmentations, crops, masks
    (VIEWS, "        return [ViewSpec(frames=grid.frames)]\n", "a dict of names to views"),
    ("count=2", "counts=2", "ViewSpec.counts=2"),
    ("augment=(Turn(),)", 'augment=({"kind": "trun"},)', "'turn'"),
    (CUT, "        return 0, 1\n", "mine.py:22, cut"),
    ("count=2", "count=2, mask=Hide()", "mine.py:29, draw"),
    # encoders
    (ENCODED, "        return x_RTD.mean(1)\n", "mine.py:39, forward"),
    ("= self.features = 6", "= self.features = 8", "mine.py:39, forward"),
    ('"encoder": "mean"', '"encoder": "mean", "encoder.dim": 8', "'dim'"),
]


@pytest.fixture
def mine(tmp_path):
    """``mine(wrong, by)``: a plugin file with one thing in it replaced."""

    def write(wrong="", by=""):
        assert wrong in MINE
        file = tmp_path / "mine.py"
        file.write_text(MINE.replace(wrong, by, 1))
        return file

    return write


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    """Clips that no test changes."""
    return write_small_store(tmp_path_factory.mktemp("data"), clips=12).parent


@pytest.fixture
def trained(data_root, tmp_path, monkeypatch):
    """``trained(file)``: the method of a file after a step, by the library with the parts that it needs."""
    parts = (
        "models.optim.optimizers",
        "models.optim.schedules",
        "views.skeleton.topology",
        "views.augmentations",
        "views.crops",
    )
    monkeypatch.setattr(discovery, "PLACES", parts)

    def train(file):
        request_files([str(file)])
        host = get_host()
        request = Request("mine", dataset="small", preset="paper", clip_length=32, patch=8, batch_size=4, epochs=0.5)
        resolved = resolve(request, host, data_root, "cpu")
        return pretrain(silent_session(data_root, host, tmp_path / "results"), resolved)

    return train


@pytest.mark.parametrize("wrong,by,said", MISTAKES, ids=range(len(MISTAKES)))
@pytest.mark.filterwarnings("ignore:Converting a tensor")  # float(loss), as an author might
def test_a_mistake_is_one_error(mine, trained, wrong, by, said):
    with pytest.raises(SkelbenchError) as refused:
        trained(mine(wrong, by))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_method_without_a_mistake_trains(mine, trained):
    assert trained(mine()).outcome == "done"


def test_a_failed_run_records_the_reason(mine, small, shipped_plugins, capsys):
    """The message is kept in run.json; with --debug the traceback is printed once."""
    file = mine('views["pair"]', 'views["pairs"]')
    shape = ["--clip-length", "32", "--patch", "8", "--epochs", "0.5", "--batch-size", "4", "--probe", "none"]
    words = ["run", "mine", "--plugin", str(file), "--dataset", "small", *shape]
    said = "mine.py:55, training_step: KeyError 'pairs'; the views are: pair"
    assert main(words) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert error == f"error: {said} (run again with --debug for the traceback)"
    assert main([*words, "--debug"]) == 2
    printed = capsys.readouterr().err
    assert f"note: a previous attempt failed: {said}" in printed
    assert printed.count("Traceback") == 1 and printed.endswith(f"KeyError: 'pairs'\nerror: {said}\n")
    (run,) = ResultStore().runs()
    assert (run.outcome, run.reason) == ("failed", said)


OTHERS = """from skelbench.plugin import DatasetSpec, TableSpec, hookimpl


def opened(root):
    return root


def table(inputs):
    return [][1]


@hookimpl
def skelbench_datasets():
    return [DatasetSpec(name="opened", target=":opened")]


@hookimpl
def skelbench_tables():
    return [TableSpec(name="broken", target=":table", needs_runs=False)]
"""


@pytest.fixture
def others(tmp_path, monkeypatch):
    file = tmp_path / "others.py"
    file.write_text(OTHERS)
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", str(file))
    return get_host()


@pytest.mark.parametrize(
    "words,said",
    [("compare --table broken", "others.py:9, table: IndexError"), ("data info opened", "others.py:opened")],
)
def test_a_mistake_in_other_parts_of_a_plugin_is_one_error(others, words, said, fails):
    fails(words.split(), said)


def test_a_wrong_result_of_a_protocol_is_one_error():
    features = Features(*[np.eye(2), np.arange(2)] * 2, np.arange(2), np.arange(2, 4), 2)
    metrics, predictions = headline(features, np.eye(2))

    class Wrong(Protocol):
        result: Any = None

        def evaluate(self, features, seed, device, progress=None):
            return self.result

    for result, said in (
        (3, "not a ProtocolResult"),
        (ProtocolResult(metrics | {"accuracy": 50.0}, predictions), "accuracy of 50"),
        (ProtocolResult(metrics, {}), r"predictions\['ids'\]"),
    ):
        with pytest.raises(SkelbenchError, match=said):
            evaluate_sets(Wrong(result=result), {"joint": features}, "none", 0, "cpu")


def test_a_mistake_in_an_installed_package(tmp_path, monkeypatch):
    """Mistakes in a file of the package and in its helpers are named; errors of skelbench itself stay internal
    errors."""
    (tmp_path / "hive_methods").mkdir()
    (tmp_path / "hive_methods" / "__init__.py").write_text("")
    (tmp_path / "hive_methods" / "_helper.py").write_text("def sting():\n    raise ValueError('no sting')\n")
    (tmp_path / "hive_methods" / "bee.py").write_text("from ._helper import sting\n\n\ndef work():\n    sting()\n")
    entry = importlib.metadata.EntryPoint("hive", "hive_methods", "skelbench")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry] if group == "skelbench" else [])
    monkeypatch.syspath_prepend(tmp_path)
    bee = importlib.import_module("hive_methods.bee")
    with pytest.raises(SkelbenchError, match=r"^hive_methods/_helper\.py:2, sting: ValueError: no sting$"):
        with plugin_code(bee.work):
            bee.work()
    assert where(bee.work) == "hive_methods/bee.py:4, work" and where(named_file) == ""
    with pytest.raises(ZeroDivisionError), plugin_code(named_file):
        divmod(1, 0)
