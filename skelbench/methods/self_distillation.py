"""Student, EMA teacher and prototypes: what DINO, iBOT and SLiM have in common.

A subclass says which views it wants and what its step adds up. R rows (bodies), V student views per anchor, D encoder
width, E bottleneck width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.methods.contract import Context, Method, Step
from skelbench.methods.target import MaskedTarget
from skelbench.nn.ema import ema_copy, ema_update
from skelbench.nn.encoder import Encoded
from skelbench.nn.heads import PrototypeHead
from skelbench.nn.prototype_objective import PrototypeObjective
from skelbench.nn.schedule import cosine, linear_ramp
from skelbench.spec import validated


class SelfDistillation(Method):
    """An encoder with a masked-prediction target and a head on its class token, either of which may be absent, and an
    EMA teacher. The teacher is what is probed and exported; heads and target are thrown away.

    ``target``: name of what hidden tokens predict (:mod:`skelbench_plugins.slim.targets`), None = nothing.
    ``contrast``: whether class tokens are matched.
    """

    def __init__(self, config: Any, context: Context, target: str | None, contrast: bool = True) -> None:
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.target: MaskedTarget | None = None
        if target is not None:
            cls = context.target(target)
            own = validated(cls.Config, getattr(config, "target_settings", {}), f"target {target}")
            with torch.random.fork_rng(devices=[]):
                self.target = cls(config, context, own)
            if contrast:  # drawn after as many draws as prototypes take: alike, whatever the target
                PrototypeHead.of(config, context.width)
        moving = {"encoder": self.encoder}
        self.cl_head = self.cl_loss = None
        if contrast:
            self.cl_head = PrototypeHead.of(config, context.width)
            self.cl_loss = PrototypeObjective(config.prototypes, config.centering, config.student_temp)
            moving["cl_head"] = self.cl_head
        self.teacher = ema_copy(nn.ModuleDict(moving))
        self.roles = {"encoder": "student", "teacher.encoder": "teacher"}
        self.roles |= dict.fromkeys(("cl_head", "teacher.cl_head", "cl_loss") if contrast else (), "head")
        self.roles |= {f"target.{name}": role for name, role in self.target.roles.items()} if self.target else {}

    def teacher_temp(self, step: Step) -> float:
        """The teacher's temperature in ``step``: a linear warm-up."""
        c = self.config
        return linear_ramp(c.teacher_temp_start, c.teacher_temp, step.fraction / max(1e-9, c.teacher_temp_warmup))

    def match(self, teacher: Encoded, students_RVE: Tensor, step: Step, temp: float | None = None) -> Tensor:
        """Mean cross-entropy of V projected student class tokens with each of the teacher's R, over all processes.

        ``temp``: the teacher's temperature, None = :meth:`teacher_temp`.
        """
        with torch.no_grad():
            anchors_RE, anchors_W = self.teacher["cl_head"](teacher.cls_RD), self.teacher["cl_head"].prototypes
        R, V = students_RVE.shape[:2]
        each_RV = students_RVE.new_full((R, V), 1 / V)
        temp = self.teacher_temp(step) if temp is None else temp
        total = self.cl_loss(students_RVE, self.cl_head.prototypes, anchors_RE, anchors_W, each_RV, temp)
        step.watch("cl", self.cl_loss)
        return step.mean(total, R)

    def after_step(self, step: Step) -> None:
        """Move teacher, target and running centres."""
        momentum = cosine(self.config.momentum, 1.0, step.fraction)
        for name, teacher in self.teacher.items():
            ema_update(teacher, getattr(self, name), momentum)
        if self.target is not None:
            self.target.after_step(step, momentum)
        if self.cl_loss is not None:
            self.cl_loss.update()

    def inference_encoder(self) -> nn.Module:
        """The teacher's encoder."""
        return self.teacher["encoder"]

    def optim_groups(self) -> Iterator[dict[str, Any]]:
        """No decay for biases and norms, a slower patch projection, prototypes frozen at first, clipping per part."""
        frozen, patch = self.config.freeze_prototypes, self.config.patch_lr
        parts = {"encoder": self.encoder, "target": self.target, "cl_head": self.cl_head}
        for part, module in parts.items():
            for name, parameter in module.named_parameters() if module is not None else ():
                if not parameter.requires_grad:
                    continue
                group = {"params": [parameter], "clip": part}
                group["wd_scale"] = 0.0 if name.endswith("bias") or "norm" in name else 1.0
                group["lr_scale"] = patch if name.startswith("tokenizer.project") else 1.0
                group["frozen_until"] = frozen if name.split(".")[-1].startswith("prototype") else 0.0
                yield group
