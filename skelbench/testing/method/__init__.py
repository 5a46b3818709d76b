"""What every method must do, whatever its idea."""

from __future__ import annotations

from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.testing.check import Check
from skelbench.testing.method import given, learning, repeats, runs
from skelbench.testing.method.subject import MethodSubject


def kit(host: Host, descriptor: Descriptor) -> tuple[MethodSubject, list[Check[MethodSubject]]]:
    """A method and its checks."""
    assert isinstance(descriptor, MethodSpec)
    return MethodSubject(host, descriptor), CHECKS


CHECKS = [
    Check("announcement", "it has a summary and a citation, and is listed without torch", given.announcement),
    Check(
        "settings", "its settings have defaults, are recorded whole and refuse what they do not know", given.settings
    ),
    Check("settings-described", "every setting is described", given.described),
    Check("builds", "its modules and views can be made at a tiny size", given.builds),
    Check("variants", "every variant makes a run", given.variants),
    Check("bodies", "it trains on clips of one body and of two", given.bodies),
    Check("clip-lengths", "it trains on every token budget", given.clip_lengths),
    Check("native", "it trains in its native setting", given.native),
    Check("another-skeleton", "it trains on a skeleton of seven joints, or refuses it", given.another_skeleton),
    Check("flat-poses", "it trains on 2-D poses of which joints are missing, or refuses them", given.flat_poses),
    Check("labels", "it learns nothing from labels", given.labels),
    Check("gradients", "gradients reach every trainable parameter, and no teacher", learning.gradients),
    Check("teacher", "its teacher follows the student", learning.teacher),
    Check("bf16", "bf16 autocast is finite and near float32", learning.bf16),
    Check("learns", "it learns the batch it is trained on, more than another", learning.learns),
    Check("collapse", "features of different clips do not become one", learning.collapse),
    Check("seed", "the same seed gives the same losses, another seed others", repeats.seeded),
    Check("resume", "a run that was stopped and continued is the same, bit by bit", repeats.resume),
    Check("processes", "two processes with half of the batch each are one with all of it", repeats.processes),
    Check("pieces", "a batch in three pieces is the batch at once, unless it says why not", repeats.pieces),
    Check("recompute", "blocks that are computed again in the backward pass change no bit", repeats.recomputed),
    Check("repeatable-features", "its encoder gives the same features twice", runs.repeats),
    Check("probed", "its encoder's weights make the same features in the run's encoder", runs.probed),
    Check("clips-apart", "features of a clip depend on no other clip, nor on a body that is not there", runs.apart),
    Check("devices", "views and a whole step on a GPU mix no devices and wait for nothing", runs.devices),
    Check("cost", "a step can be counted, and its encoder by three counters that agree", runs.cost),
    Check(
        "above-untrained", "trained on 10,000 clips it is better than untrained", runs.above_untrained, thorough=True
    ),
]
