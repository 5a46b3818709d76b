"""Checks of encoders: what they say of themselves, and what a method or a probe may rely on."""

from __future__ import annotations

from collections.abc import Sequence

from skelbench.models.encoder import ABILITIES
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check
from skelbench.testing.encoder import abilities, always
from skelbench.testing.encoder.subject import EncoderSubject

CHECKS: tuple[Check[EncoderSubject], ...] = (
    announcement(summary="which `skelbench plugins list` shows"),
    Check(
        "form",
        "it derives from Encoder and says what it can do, how wide its features are and which layers it has",
        always.form,
    ),
    Check("settings", "its settings survive a record, and unknown ones are refused", always.settings),
    Check("seeded", "a seed decides its initial weights", always.seeded),
    Check("shapes", "features have the shapes it states, of clips with one body and with two", always.shapes),
    Check("grids", "it works on token grids of several lengths and patches", always.grids),
    Check("skeletons", "it works on several skeletons, or refuses one in a sentence", always.skeletons),
    Check("deterministic", "in eval mode the same view gives the same features", always.deterministic),
    Check("input-kept", "it leaves the view as it is", always.input_kept),
    Check("clips-apart", "in eval mode a clip does not see the others of its batch", always.clips_apart),
    Check("absent-bodies", "a body slot that is empty has no effect", always.absent_bodies),
    Check("nothing-moves", "bodies whose joints all lie at the origin give finite numbers", always.nothing_moves),
    Check("gradients", "every parameter gets a gradient", always.gradients),
    Check("state", "its state dict holds all of it, and a copy is the same", always.state),
    Check("prepared", "prepare makes what is required and nothing else", always.prepared),
    Check("bf16", "in bfloat16 shapes are the same and all is finite", always.bf16),
    Check("dtype", "features have the dtype of coordinates and weights", always.dtype),
    Check("devices", "on a GPU all of it is there, and nothing waits for the host", always.devices),
    Check("cost", "all counters, and its closed form, agree on its cost within 1 %", always.cost),
    Check("drop-tokens", f"it can {ABILITIES['drop-tokens']}, if it says so", abilities.drop_tokens),
    Check("drop-lines", f"it can {ABILITIES['drop-lines']}, if it says so", abilities.drop_lines),
    Check("replace-tokens", f"it can {ABILITIES['replace-tokens']}, if it says so", abilities.replace_tokens),
    Check("tokens", f"it can {ABILITIES['tokens']}, if it says so", abilities.tokens),
    Check("cells", f"it can {ABILITIES['cells']}, if it says so", abilities.cells),
    Check("time-and-space", f"it can {ABILITIES['time-and-space']}, if it says so", abilities.time_and_space),
    Check("granularities", f"it can {ABILITIES['granularities']}, if it says so", abilities.granularities),
    Check("steps", f"it can {ABILITIES['steps']}, if it says so", abilities.steps),
    Check("short-views", f"it can {ABILITIES['short-views']}, if it says so", abilities.short_views),
    Check("summary", "a pass of which only the summary is asked gives that of the whole pass", abilities.summary),
    Check("fuse-streams", f"it can {ABILITIES['fuse-streams']}, if it says so", abilities.fuse_streams),
)


def kit(host: Host, descriptor: Descriptor) -> tuple[EncoderSubject, Sequence[Check[EncoderSubject]]]:
    """What is checked of an encoder, and its checks."""
    return EncoderSubject(host, descriptor), CHECKS
