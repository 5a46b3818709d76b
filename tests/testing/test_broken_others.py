"""Each check of targets, skeletons and data sets fails what is broken in that one respect, and says what to mend."""

import re
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from skelbench.data.store.clip_store import ClipStore
from skelbench.methods import Config, MaskedTarget
from skelbench.models.ema import ema_copy
from skelbench.plugin import DatasetSpec, TargetSpec, TopologySpec
from skelbench.testing import dataset, target
from skelbench.testing.tiny import write_store
from skelbench.views.skeleton.topology import Topology

SERIAL = count()


# ------------------------------------------------------------------------------------------------ targets
class Squared(MaskedTarget):
    """The teacher's tokens by squared error, which is what the broken ones begin with."""

    def __init__(self, config, context, settings):
        super().__init__(config, context, settings)
        self.head = nn.Linear(context.width, context.width)

    def forward(self, hidden):
        error_ID = self.head(hidden.student_ID).float() - hidden.teacher_ID.detach().float()
        return (error_ID.square().mean(1) * hidden.share_I).sum()


class MissingRole(Squared):
    roles = {"decoder": "decoder"}


class LooseSettings(Squared):
    Config = type("Loose", (Config,), {"model_config": Config.model_config | {"extra": "ignore"}})


class PerToken(Squared):
    def forward(self, hidden):
        return (hidden.student_ID - hidden.teacher_ID.detach()).square().mean(1)


class LeavesEarly(Squared):
    def forward(self, hidden):
        return super().forward(hidden) if len(hidden.view.masked_I) else torch.zeros(())


class Mean(Squared):
    def forward(self, hidden):
        return super().forward(hidden) / (hidden.student_RND.shape[0] - hidden.view.mask_RN.all(1).sum())


class MeanOfRows(Squared):
    def forward(self, hidden):
        return super().forward(hidden) / hidden.view.rows


class Detached(Squared):
    def forward(self, hidden):
        error_ID = self.head(hidden.student_ID.detach()) - hidden.teacher_ID
        return (error_ID.square().mean(1) * hidden.share_I).sum()


class Reversed(Squared):
    def forward(self, hidden):
        loss = super().forward(hidden)
        return 2 * loss.detach() - loss


class StillTwin(Squared):
    def __init__(self, config, context, settings):
        super().__init__(config, context, settings)
        self.twin = ema_copy(self.head)


class Unsaved(Squared):
    def __init__(self, config, context, settings):
        super().__init__(config, context, settings)
        self.gain = float(torch.rand(()))

    def forward(self, hidden):
        return self.gain * super().forward(hidden)


class Thrown(Squared):
    def forward(self, hidden):
        return super().forward(hidden) * torch.rand(())


class Solves(Squared):
    def forward(self, hidden):
        return super().forward(hidden) + torch.linalg.det(self.head(hidden.student_RND[0, :16]))


TARGETS = {
    "announcement": (Squared, "seen: summary is empty"),
    "form": (MissingRole, "there is no 'decoder'; look at roles"),
    "settings": (LooseSettings, "no_such_setting=1 was taken"),
    "loss": (PerToken, r"a finite scalar; seen: PerToken.forward: returned a tensor of shape .*, not a scalar"),
    "summed": (MeanOfRows, "twice the loss for the same rows twice"),
    "nothing-hidden": (LeavesEarly, "it has none; look at an early return"),
    "any-mask": (Mean, "a finite scalar; seen: .*inf"),
    "gradients": (Detached, "a finite gradient for the student's tokens; seen: none; look at a detach"),
    "learns": (Reversed, "a loss that falls when it is minimised"),
    "after-step": (StillTwin, "twin.weight stays; look at after_step"),
    "state": (Unsaved, "register it as a buffer"),
    "keyed": (Thrown, "hidden.step.generator or hidden.step.uniform"),
    "bf16": (Solves, "BFloat16"),
}


# ------------------------------------------------------------------------------------------------ skeletons
CHAIN = {
    "joints": ("pelvis", "left foot", "right foot"),
    "parents": (-1, 0, 0),
    "pairs": ((1, 2),),
    "parts": {"body": (0, 1, 2)},
    "root": 0,
    "center": 0,
}
other_name = Topology(name="another", **CHAIN)
lopsided = Topology(name="broken", **CHAIN | {"parents": (-1, 0, 1)})


class Skewed(Topology):
    @property
    def differences(self):
        return 2 * np.eye(self.num_joints)


class Rolling(Topology):
    @property
    def swap(self):
        return (1, 2, 0)


skewed = Skewed(name="broken", **CHAIN)
rolling = Rolling(name="broken", **CHAIN)

TOPOLOGIES = {
    "form": ("other_name", "the name 'broken', as announced; seen: 'another'"),
    "tree": ("skewed", "bones from each joint's parent to it"),
    "sides": ("lopsided", "'right foot' to hang on the mirror image|'left foot' to hang on the mirror image"),
    "views": ("rolling", "a body that is mirrored twice as it was"),
}


# ------------------------------------------------------------------------------------------------ data sets
@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Copies of a small store, opened; their index can be changed."""
    path = write_store(tmp_path_factory.mktemp("data"), "small", clips=24)

    def opened():
        return ClipStore.open(path)

    return opened


def other_fingerprint(store):
    store.meta = store.meta.model_copy(update={"fingerprint": f"{next(SERIAL):064}"})


def same_subject(store):
    rule = {"half": store.meta.splits["half"], "cross-subject": {"field": "camera", "train": [0], "test": [1]}}
    store.index["camera"] = np.arange(len(store)) % 2
    store.meta = type(store.meta).model_validate(store.meta.model_dump() | {"splits": rule})


def class_without_clips(store):
    store.meta = store.meta.model_copy(update={"classes": (*store.classes, "e")})


def not_finite(store):
    store.frames_FJ[5, 3] = np.nan


def all_zero(store):
    store.frames_FJ[:] = 0


DATASETS = {
    "announcement": (lambda store: None, "a summary, which"),
    "opens": (None, "a ClipStore; seen: a SimpleNamespace"),
    "repeatable": (other_fingerprint, "the same fingerprint whenever it is opened"),
    "announced": (lambda store: None, r"announced \['thirds'\], in the store \['half'\]"),
    "splits": (same_subject, "subject 1 is on both sides of cross-subject"),
    "labels": (class_without_clips, "a clip of every class; seen: none of 'e'"),
    "verified": (not_finite, "expected: checksums: as written; seen: differ"),
    "mirrored": (all_zero, "clips that differ from their mirror image"),
}


@pytest.mark.parametrize(("name", "cls", "said"), [(name, *case) for name, case in TARGETS.items()], ids=TARGETS)
def test_a_broken_target_is_found(name, cls, said, checked):
    result = checked("targets", TargetSpec(name="broken", target=f"{cls.__module__}:{cls.__name__}"), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


@pytest.mark.parametrize(("name", "what", "said"), [(name, *case) for name, case in TOPOLOGIES.items()], ids=TOPOLOGIES)
def test_a_broken_skeleton_is_found(name, what, said, checked):
    result = checked("topologies", TopologySpec(name="broken", target=f"{__name__}:{what}"), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


@pytest.mark.parametrize(("name", "change", "said"), [(name, *case) for name, case in DATASETS.items()], ids=DATASETS)
def test_a_broken_data_set_is_found(name, change, said, checked, stores, monkeypatch):
    def opener(root):
        if change is None:
            return SimpleNamespace()
        store = stores()
        monkeypatch.setattr(store, "check", lambda ids: None)  # which would refuse what is changed
        change(store)
        return store

    monkeypatch.setattr(dataset, "opened_in_a_test", opener, raising=False)
    splits = ("thirds",) if name == "announced" else ()
    target = f"{dataset.__name__}:opened_in_a_test"
    result = checked("datasets", DatasetSpec(name="broken", target=target, splits=splits), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


def test_a_data_set_that_is_drawn_anew_wherever_it_is_made_is_found(checked, monkeypatch, tmp_path):
    """Opened a second time it is the one that was written before."""

    def opener(root):
        if not (root / "drawn").exists():
            write_store(root, "drawn", seed=next(SERIAL))
        return ClipStore.open(root / "drawn")

    monkeypatch.setattr(dataset, "opened_in_a_test", opener, raising=False)
    about = DatasetSpec(name="broken", target=f"{dataset.__name__}:opened_in_a_test")
    result = checked("datasets", about, "repeatable", root=tmp_path)
    assert result.state == "failed" and "the same fingerprint wherever it is made" in result.sentence, result


@pytest.mark.parametrize(("broken", "module"), [(TARGETS, target), (DATASETS, dataset)])
def test_there_is_something_broken_for_every_check(broken, module):
    assert set(broken) == {check.name for check in module.CHECKS}
