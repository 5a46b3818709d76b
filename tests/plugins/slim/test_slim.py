"""SLiM: its two losses by loops, and every part that can be exchanged or left out."""

import math

import pytest
import torch
from literal_prototypes import class_loss, cross_entropy, hidden_loss, one_by_one
from skelbench_plugins.slim.method import LIMITED_DEG

from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import Host
from skelbench.training.build import view_specs
from skelbench.views.augmentations import BoneScale, CoordinateScale, Mirror, Rotate
from skelbench.views.masks import RandomTokens
from skelbench.views.tubes import Tube

VARIANTS = {
    name: sets for name, sets in Host().get("methods", "slim").variants.items() if not name.startswith("half-batch")
}
TARGETS = ("prototypes", "coordinates", "features", "features-predictor")


def variant(trainer_or_resolved, name, **sets):
    return trainer_or_resolved("slim", **VARIANTS[name], **sets)


def losses(training, steps=2):
    return [
        {key: float(value) for key, value in training.train_step(step, training.views(step)).items()}
        for step in range(steps)
    ]


# ------------------------------------------------------------------------------------------------ the two losses
@pytest.mark.parametrize("match_both", [False, True])
def test_losses_are_means_over_masked_tokens_and_anchored_views(match_both, made):
    sets = {"centering": "running", "glcl_weight": 0.5, "local_counts": (1, 2, 0), "global_ratio": (0.1, 0.2)}
    training = made(match_both=match_both, **sets)
    method, views, step = training.method, training.views(0), training.step_info(1)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for value in (*method.teacher.parameters(), *method.target.teacher_head.parameters()):
            value.add_(0.1 * torch.randn(value.shape, generator=generator))
        for objective in (method.cl_loss, method.target.objective):
            objective.center.center.normal_(generator=generator)
        out = method(views, step)
        temp = 0.04 + 0.03 * min(1.0, step.fraction / 0.2)

        both = [one_by_one(views[name])[0] for name in ("global1", "global2")]
        teacher = [method.teacher["encoder"](view) for view in both]
        students = [method.encoder(view).cls_RD for view in both]  # the pass without masks
        pairs = [(0, 1), (1, 0)]
        for anchor in (1, 2):
            for name in (f"local32-{anchor}", f"local16-{anchor}"):
                view, mask_RN = views[name], views[name].mask_RN
                for single, mask in zip(one_by_one(view), mask_RN.chunk(view.count)):
                    for a in (1, 2) if match_both else (anchor,):
                        pairs.append((a - 1, len(students)))
                    students.append(method.encoder(single, mask_RN=mask).cls_RD)
        assert len(pairs) == (14 if match_both else 8)
        glcl = class_loss([encoded.cls_RD for encoded in teacher], students, pairs, method, temp)

        head, teacher_head = method.target.head, method.target.teacher_head
        center_K = method.target.objective.center.center
        per_view = []
        for single, whole, name in zip(both, teacher, ("global1", "global2")):
            mask = views[name].mask_RN
            masked = method.encoder(single, mask_RN=mask)

            def token(r, n, masked=masked, whole=whole):
                features = head(masked.tokens_RND[r, n]), teacher_head(whole.tokens_RND[r, n])
                return cross_entropy(*features, head.prototypes, teacher_head.prototypes, temp, center_K)

            per_view.append(hidden_loss(mask, token))
        mfp = sum(per_view) / 2
    assert float(out["mfp"]) == pytest.approx(float(mfp), rel=1e-4)
    assert float(out["glcl"]) == pytest.approx(float(glcl), rel=1e-4)
    assert float(out["loss"]) == pytest.approx(float(mfp) + 0.5 * float(glcl), rel=1e-4)


# ------------------------------------------------------------------------------------------------ targets
def test_targets_differ_only_in_the_prediction_of_masked_tokens(made):
    """Encoder, teacher, views and masks begin alike."""
    first = made(target="prototypes")
    views, reference = first.views(0), first.method
    for target in TARGETS[1:]:
        training = made(target=target)
        method = training.method
        for encoder in (lambda m: m.encoder, lambda m: m.inference_encoder()):
            mine, theirs = encoder(method).state_dict(), encoder(reference).state_dict()
            assert mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in theirs)
        for name, view in training.views(0).items():
            assert torch.equal(view.mask_RN, views[name].mask_RN) and torch.equal(view.x_RTJC, views[name].x_RTJC)


# ------------------------------------------------------------------------------------------------ variants


def test_without_global_masks_only_the_contrast_is_left(trainer):
    """The paper's tables of objectives and of masks have equal numbers in these two rows."""
    assert losses(variant(trainer, "global-none")) == losses(variant(trainer, "glcl-only"))


def test_masks_by_name(resolved):
    def masks(name):
        views = view_specs(variant(resolved, name).spec)
        return views["global1"].mask, views["local16-2"].mask

    tube, local = Tube(lo=0.5, hi=0.9, p=1.0), Tube(lo=0.5, hi=0.9, p=0.5)
    assert masks("center-none") == (tube, local)
    assert masks("global-random") == (RandomTokens(lo=0.5, hi=0.9, p=1.0), local)
    assert masks("local-random") == (tube, RandomTokens(lo=0.5, hi=0.9, p=0.5))
    assert masks("local-none") == (tube, None)
    assert masks("ratio-90") == (Tube(lo=0.9, hi=0.9, p=1.0), Tube(lo=0.9, hi=0.9, p=0.5))
    assert masks("ratio-0-50") == (Tube(lo=0.0, hi=0.5, p=1.0), Tube(lo=0.0, hi=0.5, p=0.5))


def test_augmentations_by_name(resolved):
    rotate, mirror, scale = Rotate(p=0.5, vertical_deg=180.0, tilt_deg=30.0), Mirror(p=0.5), BoneScale(p=0.5)
    expected = {
        "center-none": (rotate, mirror, scale),
        "rotation-none": (mirror, scale),
        "rotation-limited": (Rotate(p=0.5, vertical_deg=LIMITED_DEG, tilt_deg=LIMITED_DEG), mirror, scale),
        "mirroring-none": (rotate, scale),
        "mirroring-limited": (rotate, Mirror(p=0.5, reflect=False), scale),
        "scaling-none": (rotate, mirror),
        "scaling-limited": (rotate, mirror, CoordinateScale(p=0.5, lo=0.85, hi=1.15)),
    }
    assert pytest.approx(math.degrees(0.3)) == LIMITED_DEG
    for name, operations in expected.items():
        assert {view.augment for view in view_specs(variant(resolved, name).spec).values()} == {operations}


def test_the_ablation_preset_warms_up_for_the_papers_20_epochs(data_root, host):
    def schedule(preset, **options):
        spec = resolve(Request("slim", dataset="small", preset=preset, **options), host, data_root, "cpu").spec
        return spec.train.epochs, spec.train.epochs * spec.schedule_config["warmup"]

    assert schedule("paper") == pytest.approx((150, 20)) and schedule("ablation") == pytest.approx((100, 20))
    assert schedule("ablation", epochs=50) == pytest.approx((50, 10))  # a share of the schedule as ever
