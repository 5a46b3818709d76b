"""Weights are read by the encoder that they were trained in, or not at all; what a method reads is part of its runs."""

import pytest
from small import silent_session

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host

ENCODER = """
from torch import nn

from skelbench.models.encoder import Encoded, Encoder
from skelbench.plugin import EncoderSpec, hookimpl


class Flat(Encoder):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.width = self.features = 8
        self.layer = nn.Linear(3 * topology.num_joints, 8)

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_RTD = self.layer(view.x_RTJC.flatten(2))
        return Encoded(tokens_RND=x_RTD, pooled_RD=x_RTD.mean(1))


@hookimpl
def skelbench_encoders():
    return [EncoderSpec(name="flat", target=":Flat", summary="a layer", version=1)]
"""


def flat(root, host):
    return resolve(Request("untrained", dataset="small", encoder="flat", clip_length=32, patch=8), host, root, "cpu")


@pytest.mark.parametrize(
    ("edit", "how"), [(("mean(1)", "amax(1)"), "a file of sha256"), (("=1", "=2"), "version 1, here it is 2")]
)
def test_an_edited_encoder_is_rejected(edit, how, tmp_path, data_root):
    file = tmp_path / "flat.py"
    file.write_text(ENCODER)
    session = silent_session(data_root, Host([file]), tmp_path / "results")
    run = pretrain(session, flat(data_root, session.host))
    file.write_text(ENCODER.replace(*edit))
    edited = silent_session(data_root, Host([file]), tmp_path / "results")
    with pytest.raises(SkelbenchError, match=f"encoder flat .{how}.* is not the one"):
        evaluate(edited, run, eval_spec(edited.host, run, "knn"))
    assert not list(run.path.glob("eval-*"))
    evaluate(session, run, eval_spec(session.host, run, "knn"))


READER = """
from pathlib import Path

from skelbench.plugin import MethodSpec, hookimpl
from skelbench_plugins.untrained import Untrained


@hookimpl
def skelbench_methods():
    return [MethodSpec(name="reader", target=":Reader", files=("text.npy",), trains=False)]


class Reader(Untrained):
    pass
"""


def test_a_file_that_a_method_reads_is_part_of_the_id(tmp_path, data_root):
    (tmp_path / "reader.py").write_text(READER)

    def made():
        host = Host([tmp_path / "reader.py"])
        return resolve(Request("reader", dataset="small", clip_length=32, patch=8), host, data_root, "cpu").spec.id

    with pytest.raises(SkelbenchError, match="method reader reads .*text.npy, which cannot be read: No such file"):
        made()
    (tmp_path / "text.npy").write_bytes(b"one")
    first = made()
    (tmp_path / "text.npy").write_bytes(b"two")
    assert made() != first
    (tmp_path / "text.npy").write_bytes(b"one")
    assert made() == first
