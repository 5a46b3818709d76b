"""Checks of methods, at a tiny size and on the CPU."""

from __future__ import annotations

from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.testing.check import Check
from skelbench.testing.method import inputs, learning, repeats
from skelbench.testing.method.subject import MethodSubject


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[MethodSubject, list[Check[MethodSubject]]]:
    """Subject of the checks of a method, and the checks."""
    assert isinstance(descriptor, MethodSpec)
    return MethodSubject(host, descriptor), CHECKS


CHECKS = [
    Check("settings", "it has summary and citation; its settings are described and survive a record", inputs.settings),
    Check("builds", "its modules and views are built, in every variant", inputs.builds),
    Check("bodies", "it trains on clips of one body and of two", inputs.bodies),
    Check("clip-lengths", "it trains on every token budget", inputs.clip_lengths),
    Check("native", "it trains in its published setting", inputs.native),
    Check("another-skeleton", "it trains on a skeleton of seven joints, or rejects it", inputs.another_skeleton),
    Check("flat-poses", "it trains on 2-D poses with missing joints, or rejects them", inputs.flat_poses),
    Check("labels", "it learns nothing from labels", inputs.labels),
    Check("gradients", "gradients reach every trainable parameter, and no teacher", learning.gradients),
    Check("teacher", "its teacher follows the student", learning.teacher),
    Check("bf16", "the loss in bf16 autocast is finite and near float32", learning.bf16),
    Check("learns", "it learns the batch it is trained on, more than another batch", learning.learns),
    Check("seed", "the same seed gives the same losses, another seed others", repeats.seeded),
    Check("resume", "a resumed run is the same as an uninterrupted run, bit by bit", repeats.resume),
    Check("processes", "two processes with half of the batch each are one with all of it", repeats.processes),
    Check("pieces", "a batch in three pieces is the batch at once, unless it says why not", repeats.pieces),
    Check("features", "features depend on nothing but the clip and the encoder's weights", inputs.features),
    Check("devices", "a step on a GPU mixes no devices", inputs.devices),
    Check("cost", "a step can be counted by the roles of its modules", inputs.cost),
]
