"""iBOT: DINO's class tokens, and masked tokens within a view."""

import pytest
import torch
from literal_prototypes import class_loss, cross_entropy, hidden_loss, one_by_one

from skelbench.training.build import view_specs
from skelbench.views.masks import RandomTokens
from skelbench.views.tubes import Tube


@pytest.mark.parametrize("shared", [True, False])
def test_losses_are_means_over_pairs_and_masked_tokens(shared, made):
    training = made(shared_head=shared, cls_weight=2.0, patch_weight=3.0, mask_ratio=(0.05, 0.1))
    method, views, step = training.method, training.views(0), training.step_info(3)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for value in (*method.teacher.parameters(), method.cl_loss.center.center):
            value.add_(0.1 * torch.randn(value.shape, generator=generator))
        patch_loss = method.patch_loss
        patch_loss.center.center.normal_(generator=generator)
        out = method(views, step)

        # A global view as the student has it: its own mask.
        both = one_by_one(views["global"])
        masks = views["global"].mask_RN.chunk(2)
        assert 0 < int(views["global"].mask_RN.any(1).sum()) < views["global"].rows
        student = [method.encoder(view, mask_RN=mask) for view, mask in zip(both, masks)]
        teacher = [method.teacher["encoder"](view) for view in both]
        local = [method.encoder(view) for view in one_by_one(views["local"])]
        students = [encoded.cls_RD for encoded in (*student, *local)]
        pairs = [(g, v) for g in range(2) for v in range(len(students)) if g != v]
        cls = class_loss([encoded.cls_RD for encoded in teacher], students, pairs, method, temp=0.04)

        head, teacher_head = method.cl_head, method.teacher["cl_head"]
        if not shared:
            head, teacher_head = method.patch_head, method.teacher["patch_head"]
        temp = 0.04 + 0.03 * min(1.0, step.fraction / 0.3)
        per_view = []
        for mine, theirs, mask in zip(student, teacher, masks):

            def token(r, n, mine=mine, theirs=theirs):
                features = head(mine.tokens_RND[r, n]), teacher_head(theirs.tokens_RND[r, n])
                return cross_entropy(
                    *features, head.prototypes, teacher_head.prototypes, temp, patch_loss.center.center
                )

            per_view.append(hidden_loss(mask, token))
    assert float(out["cls"]) == pytest.approx(float(cls), rel=1e-4)
    assert float(out["patch"]) == pytest.approx(float(sum(per_view) / 2), rel=1e-4)
    assert float(out["loss"]) == pytest.approx(2 * float(cls) + 3 * float(sum(per_view) / 2), rel=1e-4)


def test_half_of_the_global_views_is_masked_local_ones_never(resolved):
    views = view_specs(resolved("ibot").spec)
    assert views["global"].mask == RandomTokens(lo=0.1, hi=0.5, p=0.5) and views["local"].mask is None
    tubes = view_specs(resolved("ibot", mask_shape="tube", mask_ratio=(0.2, 0.3), mask_p=1.0).spec)
    assert tubes["global"].mask == Tube(lo=0.2, hi=0.3, p=1.0)


def test_defaults_equal_the_code_or_its_recipe(resolved):
    from skelbench_plugins.ibot import IBOTConfig

    config, train = IBOTConfig(), resolved("ibot", batch_size=None).spec.train
    assert (config.prototypes, config.local_views, config.shared_head) == (8192, 10, True)
    assert (config.teacher_temp_start, config.teacher_temp, config.cls_teacher_temp) == (0.04, 0.07, 0.04)
    assert (train.lr, train.weight_decay_end, train.clip_grad) == (1.5e-3, 0.4, 3.0)
