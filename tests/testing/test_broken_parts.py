"""Checks of parts, encoders, protocols and datasets find a plugin that is broken in one respect."""

import re
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from torch import nn

from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.knn import Knn
from skelbench.evaluation.protocol import ProtocolResult, classified
from skelbench.methods import MaskedTarget
from skelbench.models.optim.optimizers import SGD
from skelbench.models.optim.schedules import Constant
from skelbench.models.vit import ViT
from skelbench.plugin import ComponentSpec, DatasetSpec, EncoderSpec, ProtocolSpec, TargetSpec, TopologySpec
from skelbench.testing import dataset
from skelbench.testing.tiny import write_store
from skelbench.views.augmentations import Augment
from skelbench.views.crops import Free, Interval
from skelbench.views.degradations import Degrade
from skelbench.views.masks import RandomTokens, TokenMask
from skelbench.views.skeleton.topology import Topology
from skelbench.views.transform import Change

SERIAL = count()


def assert_found(result, message):
    assert result.state == "failed" and re.search(message, result.message), result


# ------------------------------------------------------------------------------------------------ components
class Doing(Augment):
    """Apply :meth:`do` to all coordinates."""

    kind = "doing"

    def draw(self, draws):
        return Done(self.do, draws)


class Done(Change):
    def __init__(self, do, draws):
        self.do, self.draws = do, draws

    def take(self, index):
        return self

    def apply(self, x_R3TJ, keyed):
        return self.do(x_R3TJ, self.draws)


class Unkeyed(Doing):
    def do(self, x, draws):
        return x + torch.randn(())


class Crowd(Doing):
    def do(self, x, draws):
        return x - x.mean(0)


class Beyond(Free):
    def cut(self, cut):
        found = super().cut(cut)
        return Interval(found.start_B + 1, found.duration_B)


class GlobalTokens(RandomTokens):
    def draw(self, request, topology, keyed):
        found = super().draw(request, topology, keyed)
        return TokenMask(found.mask_RN[:, torch.randperm(found.mask_RN.shape[1])])


class Company(Degrade):
    kind = "company"

    def degrade(self, poses):
        return poses.with_x(poses.x_F3J - poses.x_F3J.mean())


class Uphill(SGD):
    def build(self, groups, lr, weight_decay):
        return torch.optim.SGD(groups, lr=lr, maximize=True)


class InSteps(Constant):
    def after(self, peak, step, warm, total):
        return peak * 0.5 ** (step // 40)


class Squared(MaskedTarget):
    """Squared error to the teacher's tokens."""

    def __init__(self, config, context, settings):
        super().__init__(config, context, settings)
        self.head = nn.Linear(context.width, context.width)

    def forward(self, hidden):
        error_ID = self.head(hidden.student_ID).float() - hidden.teacher_ID.detach().float()
        return (error_ID.square().mean(1) * hidden.share_I).sum()


class LeavesEarly(Squared):
    def forward(self, hidden):
        return super().forward(hidden) if len(hidden.view.masked_I) else torch.zeros(())


CHAIN = {"joints": ("pelvis", "left foot", "right foot"), "pairs": ((1, 2),), "parts": {"body": (0, 1, 2)}}
lopsided = Topology(name="lopsided", parents=(-1, 0, 1), root=0, center=0, **CHAIN)
COMPONENTS = [
    ("augmentations", "keyed", Unkeyed, "draws.per_clip"),
    ("augmentations", "rows-apart", Crowd, "row 0 differs"),
    ("crops", "contract", Beyond, "an interval inside the clip"),
    ("masks", "keyed", GlobalTokens, "never torch.rand"),
    ("degradations", "rows-apart", Company, "row 0 differs"),
    ("optimizers", "contract", Uphill, "down the slope"),
    ("schedules", "contract", InSteps, "durations are fractions"),
    ("targets", "contract", LeavesEarly, "an early return"),
]


@pytest.mark.parametrize(("kind", "name", "cls", "message"), COMPONENTS)
def test_a_broken_component_is_found(kind, name, cls, message, checked):
    spec, part = (TargetSpec, "broken") if kind == "targets" else (ComponentSpec, cls.kind)
    assert_found(checked(kind, spec(name=part, target=f"{__name__}:{cls.__name__}"), name), message)


def test_a_broken_skeleton_is_found(checked):
    result = checked("topologies", TopologySpec(name="lopsided", target=f"{__name__}:lopsided"), "contract")
    assert_found(result, "left and right")


# ------------------------------------------------------------------------------------------------ encoders
class Misspelled(ViT):
    abilities = frozenset({"drop-token"})


class After(ViT):
    """Change the pooled features of a ViT."""

    def forward(self, view, mask_RN=None, keep_RK=None):
        encoded = super().forward(view, mask_RN, keep_RK)
        return replace(encoded, pooled_RD=self.pooled(encoded.pooled_RD, view))


class Batched(After):
    def pooled(self, x_RD, view):
        return x_RD - x_RD.mean(0)


class Unused(ViT):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.forgotten = nn.Linear(3, 3)


class Unregistered(After):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.gain = float(torch.rand(()))

    def pooled(self, x_RD, view):
        return x_RD * self.gain


class OnHost(After):
    def pooled(self, x_RD, view):
        return x_RD * torch.linspace(0, 1, x_RD.shape[1])


class KeepsAll(ViT):
    abilities = frozenset({"drop-tokens"})

    def forward(self, view, mask_RN=None, keep_RK=None):
        return super().forward(view, mask_RN)


ENCODERS = [
    ("form", Misspelled, "did you mean 'drop-tokens'"),
    ("clips-apart", Batched, "statistics over the batch"),
    ("gradients", Unused, "forgotten.weight gets none"),
    ("state", Unregistered, "register_buffer"),
    ("devices", OnHost, "device=x.device"),
    ("drop-tokens", KeepsAll, "seen: tokens_RND|have no effect"),
]


@pytest.mark.parametrize(("name", "cls", "message"), ENCODERS)
def test_a_broken_encoder_is_found(name, cls, message, checked):
    about = EncoderSpec(
        name="broken",
        summary="broken",
        target=f"{__name__}:{cls.__name__}",
        config="skelbench.models.vit:ViTConfig",
        presets={"quick": {"dim": 16, "depth": 1, "heads": 2}},
    )
    assert_found(checked("encoders", about, name), message)


# ------------------------------------------------------------------------------------------------ protocols
class Changed(Knn):
    """Change the predictions of the nearest neighbors."""

    def evaluate(self, features, seed, device, progress=None):
        predicted = self.predicted(
            features, super().evaluate(features, seed, device, progress).predictions["predicted"]
        )
        return ProtocolResult(*classified(features, predicted))


class Peeks(Changed):
    def predicted(self, features, predicted):
        return features.test_y


class Transduces(Changed):
    def predicted(self, features, predicted):
        return np.where(np.arange(len(predicted)) < 9, 0, predicted)


class Throws(Changed):
    def predicted(self, features, predicted):
        return np.roll(predicted, next(SERIAL))


class Greedy(Knn):
    def evaluate(self, features, seed, device, progress=None):
        features.train_x[:] /= np.linalg.norm(features.train_x, axis=1, keepdims=True)
        return super().evaluate(features, seed, device, progress)


PROTOCOLS = [
    ("no-signal", Peeks, "accuracy near 0.25, chance"),
    ("labels-unseen", Peeks, "features.test_y"),
    ("test-apart", Transduces, "depend on the order of test clips"),
    ("repeatable", Throws, "a global generator"),
    ("repeatable", Greedy, "evaluate changed features.train_x"),
]


@pytest.mark.parametrize(("name", "cls", "message"), PROTOCOLS)
def test_a_broken_protocol_is_found(name, cls, message, checked):
    assert_found(checked("protocols", ProtocolSpec(name="broken", target=f"{__name__}:{cls.__name__}"), name), message)


def test_defaults_of_a_protocol_are_fields_of_an_evaluation(checked):
    about = ProtocolSpec(
        name="broken", summary="x", target="skelbench.evaluation.knn:Knn", defaults={"reedout": "joints"}
    )
    assert_found(checked("protocols", about, "form"), "reedout")


# ------------------------------------------------------------------------------------------------ datasets
def other_fingerprint(store):
    store.meta = store.meta.model_copy(update={"fingerprint": f"{next(SERIAL):064}"})


def same_subject(store):
    rule = {"half": store.meta.splits["half"], "cross-subject": {"field": "camera", "train": [0], "test": [1]}}
    store.index["camera"] = np.arange(len(store)) % 2
    store.meta = type(store.meta).model_validate(store.meta.model_dump() | {"splits": rule})


def not_finite(store):
    store.frames_FJ[5, 3] = np.nan


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("opens", lambda store: None, "thirds"),
        ("repeatable", other_fingerprint, "the same fingerprint whenever it is opened"),
        ("splits", same_subject, "subject 1 is on both sides of cross-subject"),
        ("verified", not_finite, "checksums"),
    ],
)
def test_a_broken_dataset_is_found(name, change, message, checked, tmp_path, monkeypatch):
    path = write_store(tmp_path, "small", clips=24)

    def opener(root):
        store = ClipStore.open(path)
        monkeypatch.setattr(store, "check", lambda ids: None)  # it would reject the change
        change(store)
        return store

    monkeypatch.setattr(dataset, "opened_in_a_test", opener, raising=False)
    about = DatasetSpec(
        name="broken",
        summary="broken",
        license="none",
        target=f"{dataset.__name__}:opened_in_a_test",
        splits=("thirds",) if name == "opens" else (),
    )
    assert_found(checked("datasets", about, name), message)
