"""Each check of crops, augmentations, masks, degradations, optimisers and schedules fails what is broken in that one
respect."""

import re
from dataclasses import replace
from itertools import count

import pytest
import torch

from skelbench.models.optim.optimizers import SGD, AdamW, Optimizer
from skelbench.models.optim.schedules import Constant, Cosine, Schedule
from skelbench.plugin import ComponentSpec
from skelbench.testing import augmentation, crop, degradation, mask, optimizer, schedule
from skelbench.views.augmentations import Augment, Noise, Rotate, Translate
from skelbench.views.crops import Crop, Free, Interval
from skelbench.views.degradations import Degrade, JointNoise, ZeroFill
from skelbench.views.masks import Mask, RandomTokens, TokenMask
from skelbench.views.transform import Change

LOOSE = {"extra": "ignore"}
SERIAL = count()


# ------------------------------------------------------------------------------------------------ augmentations
class NoDefault(Rotate):
    how: int


class LooseNoise(Noise):
    model_config = Noise.model_config | LOOSE


class AnyChance(Noise):
    def check(self, where):
        pass


class Doing(Augment):
    """What :meth:`do` makes of all coordinates."""

    kind = "doing"

    def draw(self, draws):
        return Done(self.do, draws)

    def do(self, x_R3TJ, draws):
        return x_R3TJ


class Done(Change):
    def __init__(self, do, draws):
        self.do, self.draws = do, draws

    def take(self, index):
        return self

    def apply(self, x_R3TJ, keyed):
        return self.do(x_R3TJ, self.draws)


class ByLength(Doing):
    def do(self, x, draws):
        return x / x.std(2, keepdim=True)


class AllRows(Doing):
    def do(self, x, draws):
        return x + 1


class Idle(Doing):
    pass


class Unkeyed(Doing):
    def do(self, x, draws):
        return x + torch.randn(())


class OneDraw(Doing):
    def do(self, x, draws):
        return 2 * x


class Crowd(Doing):
    def do(self, x, draws):
        return x - x.mean(0)


class WholeBatch(Doing):
    def do(self, x, draws):
        offset_R1 = draws.keyed.uniform(draws.clip_keys_R, 1, view=draws.view_R, op=999)
        offset_R1 = (offset_R1 * draws.active_R[:, None]).repeat_interleave(len(x) // len(offset_R1), 0)
        return x + offset_R1[:, :, None, None]


class Deep(Translate):
    def draw(self, draws):
        return draws.shift(torch.ones(len(draws.rows_K), 3))


AUGMENTATIONS = {
    "form": (NoDefault, "how has none; look at how: give it a default"),
    "settings": (LooseNoise, "no_such_setting=1 was taken"),
    "refused": (AnyChance, "p=-0.1 was taken; look at check"),
    "kept": (ByLength, "some of ntu25 are not; look at clips of one frame"),
    "never": (AllRows, "no change with p=0; .* change draws.rows_K only"),
    "always": (Idle, "some change with p=1; seen: none"),
    "keyed": (Unkeyed, "draws.per_clip, draws.per_body"),
    "drawn": (OneDraw, "other draws from another seed"),
    "clips-apart": (Crowd, "clip 0 of 1 frames differs"),
    "inherited": (WholeBatch, r"look at take\(index\)"),
    "flat": (Deep, "z = 0 of 2-D poses; seen: up to 1"),
}


# ------------------------------------------------------------------------------------------------ crops
class LooseFree(Free):
    model_config = Free.model_config | LOOSE


class Beyond(Free):
    def cut(self, cut):
        found = super().cut(cut)
        return Interval(found.start_B + 1, found.duration_B)


class Global(Free):
    def cut(self, cut):
        return cut.interval(torch.rand(()) * (cut.length_B - 1).double(), torch.zeros(len(cut.length_B)).double())


class Fixed(Free):
    def cut(self, cut):
        cut.uniform(1)
        return cut.interval(torch.zeros(len(cut.length_B)).double(), (cut.length_B - 1).double())


class Shared(Free):
    def cut(self, cut):
        return cut.interval((cut.length_B - 1) * cut.uniform(1)[:, 0].mean(), torch.zeros(len(cut.length_B)).double())


class ThirdFails(Free):
    def cut(self, cut):
        if 150 in cut.length_B:
            raise RuntimeError("clips of 150 frames")
        return super().cut(cut)


class NoCrop:
    kind = "nocrop"


CROPS = {
    "form": (NoCrop, "a subclass of skelbench.views.crops.Crop"),
    "settings": (LooseFree, "no_such_setting=1 was taken"),
    "inside": (Beyond, "of a clip of 1 frames .* look at cut; a crop whose ends"),
    "keyed": (Global, "cut.uniform, never torch.rand"),
    "drawn": (Fixed, "another interval from another seed; seen: the same in 6"),
    "clips-apart": (Shared, "statistics over the clips in cut"),
    "built": (ThirdFails, "RuntimeError: clips of 150 frames"),
}


# ------------------------------------------------------------------------------------------------ masks
class LooseTokens(RandomTokens):
    model_config = RandomTokens.model_config | LOOSE


class Unchecked(RandomTokens):
    def check(self, where, tokens):
        pass


class Underestimates(RandomTokens):
    def expected(self, tokens):
        return tokens // 10, super().expected(tokens)[1]


class Always(RandomTokens):
    def draw(self, request, topology, keyed):
        return type(request.mask).sure(request, topology, keyed)

    @staticmethod
    def sure(request, topology, keyed):
        plain = RandomTokens(lo=request.mask.lo, hi=request.mask.hi)
        return plain.draw(replace(request, mask=plain), topology, keyed)


class GlobalTokens(RandomTokens):
    def draw(self, request, topology, keyed):
        found = super().draw(request, topology, keyed)
        return TokenMask(found.mask_RN[:, torch.randperm(found.mask_RN.shape[1])])


class OneMask(RandomTokens):
    def draw(self, request, topology, keyed):
        one = replace(request, keys_R=torch.zeros_like(request.keys_R))
        return super().draw(one, topology, keyed)


class OneView(RandomTokens):
    def draw(self, request, topology, keyed):
        return super().draw(replace(request, view_R=torch.zeros_like(request.view_R)), topology, keyed)


class Neighbours(RandomTokens):
    def draw(self, request, topology, keyed):
        return super().draw(replace(request, keys_R=request.keys_R + len(request.keys_R)), topology, keyed)


class NoMask:
    kind = "nomask"


MASKS = {
    "form": (NoMask, "a subclass of skelbench.views.masks.Mask"),
    "settings": (LooseTokens, "no_such_setting=1 was taken"),
    "refused": (Unchecked, "p=1.5 was taken"),
    "counts": (Underestimates, r"about 2 hidden tokens, as expected\(\) says"),
    "chance": (Always, "nothing hidden with p=0; seen: tokens are"),
    "keyed": (GlobalTokens, "the same mask from the same key"),
    "drawn": (OneMask, "a mask of its own for each row"),
    "rows-apart": (Neighbours, "a row is masked alike alone and among others"),
}


# ------------------------------------------------------------------------------------------------ optimisers
class LooseSGD(SGD):
    model_config = SGD.model_config | LOOSE


class Built(SGD):
    """One of PyTorch's, with something of its own in a step."""

    def build(self, groups, lr, weight_decay):
        return type("Own", (torch.optim.SGD,), {"step": self.step(torch.optim.SGD.step)})(groups, lr=lr)


class Uphill(SGD):
    def build(self, groups, lr, weight_decay):
        return torch.optim.SGD(groups, lr=lr, maximize=True)


class OwnRate(Built):
    def step(self, plain):
        def step(self):
            for group in self.param_groups:
                group["lr"] = 0.01
            plain(self)

        return step


class NewGroups(SGD):
    def build(self, groups, lr, weight_decay):
        return torch.optim.SGD([{"params": group["params"]} for group in groups], lr=lr)


class NoDecay(Built):
    def step(self, plain):
        def step(self):
            for group in self.param_groups:
                group["weight_decay"] = 0.0
            plain(self)

        return step


class Restless(Built):
    def step(self, plain):
        def step(self):
            plain(self)
            with torch.no_grad():
                for group in self.param_groups:
                    for parameter in group["params"]:
                        parameter.mul_(0.99)

        return step


class Forgets(Built):
    def step(self, plain):
        def step(self):
            self.steps = getattr(self, "steps", 0) + 1
            plain(self)
            with torch.no_grad():
                self.param_groups[0]["params"][0].mul_(1 - 0.01 * self.steps)

        return step


class ClaimsNothing(AdamW):
    adaptive = False


class NoOptimizer:
    kind = "none"


OPTIMIZERS = {
    "form": (NoOptimizer, "a subclass of skelbench.models.optim.optimizers.Optimizer"),
    "settings": (LooseSGD, "no_such_setting=1 was taken"),
    "moves": (Uphill, "parameters that go down the slope; seen: matrix went from"),
    "rates": (OwnRate, "no move at a learning rate of 0; seen: matrix moved"),
    "keys": (NewGroups, "wd_scale of group 0 is lost"),
    "decay": (NoDecay, "weights that shrink by weight decay"),
    "held": (Restless, "a parameter without a gradient stays still; seen: it moved"),
    "state": (Forgets, "a stopped run that continues as if it had not been; seen: matrix differs"),
    "adaptive": (ClaimsNothing, "make steps 1.00 times as long; look at adaptive = True"),
}


# ------------------------------------------------------------------------------------------------ schedules
class LooseCosine(Cosine):
    model_config = Cosine.model_config | LOOSE


class Above(Constant):
    def after(self, peak, step, warm, total):
        return 1.1 * peak


class Cold(Constant):
    def lr(self, peak, step, total):
        return self.after(peak, step, 0, total)


class InSteps(Constant):
    def after(self, peak, step, warm, total):
        return peak * 0.5 ** (step // 40)


class Remembers(Constant):
    def after(self, peak, step, warm, total):
        return peak / (1 + next(SERIAL) % 100)


class Absolute(Constant):
    def after(self, peak, step, warm, total):
        return 0.05


class NoSchedule:
    kind = "none"


SCHEDULES = {
    "form": (NoSchedule, "a subclass of skelbench.models.optim.schedules.Schedule"),
    "settings": (LooseCosine, "no_such_setting=1 was taken"),
    "within": (Above, "from 0 to the peak, 0.1; seen: 0.11"),
    "warmup": (Cold, "linear warm-up, in step 0"),
    "scaled": (InSteps, "durations are shares, step / total"),
    "by-step": (Remembers, "a rate that is a function of the step"),
    "peak": (Absolute, "a higher rate with a higher peak"),
}


# ------------------------------------------------------------------------------------------------ degradations
class NoShare(ZeroFill):
    which: int


class LooseFill(ZeroFill):
    model_config = ZeroFill.model_config | LOOSE


class Lengths(Degrade):
    kind = "lengths"

    def degrade(self, poses):
        return poses.with_x(poses.x_F3J / (poses.by_frame(poses.length_B)[:, None, None] - 1))


class Still(Degrade):
    kind = "still"

    def degrade(self, poses):
        return poses


class Shaken(Degrade):
    kind = "shaken"

    def degrade(self, poses):
        return poses.with_x(poses.x_F3J + torch.randn_like(poses.x_F3J))


class Company(Degrade):
    kind = "company"

    def degrade(self, poses):
        return poses.with_x(poses.x_F3J - poses.x_F3J.mean())


class Lifted(Degrade):
    kind = "lifted"

    def degrade(self, poses):
        return poses.with_x(poses.x_F3J + 1)


class Silent(JointNoise):
    declares = True


DEGRADATIONS = {
    "form": (NoShare, "which: give it a default"),
    "settings": (LooseFill, "no_such_setting=1 was taken"),
    "kept": (Lengths, "some of ntu25 are not; look at clips of one frame"),
    "changes": (Still, "some change; seen: none"),
    "keyed": (Shaken, "poses.lost, poses.normal"),
    "clips-apart": (Company, "clip 0 of 1 frames differs"),
    "flat": (Lifted, "z = 0 of 2-D poses; seen: up to 1"),
    "declared": (Silent, "declares = True; seen: none is"),
}

FAMILIES = {
    "degradations": (DEGRADATIONS, Degrade, degradation),
    "augmentations": (AUGMENTATIONS, Augment, augmentation),
    "crops": (CROPS, Crop, crop),
    "masks": (MASKS, Mask, mask),
    "optimizers": (OPTIMIZERS, Optimizer, optimizer),
    "schedules": (SCHEDULES, Schedule, schedule),
}
CASES = [(kind, name, *case) for kind, (broken, _, _) in FAMILIES.items() for name, case in broken.items()]
CASES += [("masks", "drawn", OneView, "another mask in another view of the clips")]
IDS = [f"{kind}-{name}-{cls.__name__}" for kind, name, cls, _ in CASES]


@pytest.mark.parametrize(("kind", "name", "cls", "said"), CASES, ids=IDS)
def test_what_is_broken_is_found_and_said(kind, name, cls, said, checked):
    descriptor = ComponentSpec(name=cls.kind or cls.__name__.lower(), target=f"{cls.__module__}:{cls.__name__}")
    result = checked(kind, descriptor, name)
    assert result.state == "failed" and re.search(said, result.sentence), result


@pytest.mark.parametrize("kind", FAMILIES)
def test_there_is_something_broken_for_every_check(kind):
    broken, _, module = FAMILIES[kind]
    assert set(broken) == {check.name for check in module.CHECKS} - {"announcement"}
