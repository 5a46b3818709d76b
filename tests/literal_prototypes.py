"""Self-distillation by loops: one row, one token, one pair of views at a time. Shapes: K prototypes, R rows."""

import torch

from skelbench.views.view import View


def cross_entropy(student, teacher, student_K, teacher_K, temp, center_K=None, student_temp=0.1):
    """Between the distributions of two single features through two heads."""
    logits_K = teacher_K @ teacher if center_K is None else teacher_K @ teacher - center_K
    target_K, said_K = (logits_K / temp).exp(), (student_K @ student / student_temp).exp()
    target_K, said_K = target_K / target_K.sum(), said_K / said_K.sum()
    return -sum(t * torch.log(s) for t, s in zip(target_K, said_K))


def one_by_one(view):
    """The views of a batch of views, each as a batch of its own without a mask."""
    x_BMTJC, valid_BM = view.x_BMTJC, view.valid_BM
    return [View.of(x, valid) for x, valid in zip(x_BMTJC.chunk(view.count), valid_BM.chunk(view.count))]


def class_loss(anchors, students, pairs, method, temp):
    """Mean cross-entropy over ``pairs`` (a, v) and rows; lists of class tokens [R, D], teacher's and student's."""
    head, teacher_head = method.cl_head, method.teacher["cl_head"]
    center_K = method.cl_loss.center.center if method.cl_loss.center is not None else None
    terms = []
    for a, v in pairs:
        for anchor, student in zip(teacher_head(anchors[a]), head(students[v])):
            terms.append(cross_entropy(student, anchor, head.prototypes, teacher_head.prototypes, temp, center_K))
    return sum(terms) / len(terms)


def hidden_loss(mask_RN, token_loss):
    """``token_loss(r, n)`` averaged over the masked tokens of a row, then over rows; a row without adds nothing."""
    rows = []
    for r, mask_N in enumerate(mask_RN):
        terms = [token_loss(r, int(n)) for n in mask_N.nonzero()[:, 0]]
        rows.append(sum(terms) / len(terms) if terms else torch.tensor(0.0))
    return sum(rows) / len(rows)
