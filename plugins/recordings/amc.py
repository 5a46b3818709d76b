"""ASF and AMC of CMU's motion capture: a skeleton file, and motion files next to it.

``07_01.amc`` belongs to ``07.asf``; otherwise the only ASF file of the folder is taken. Lengths are in units of 1/0.45
inch; positions come out in meters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from skelbench_plugins.recordings.clips import Motion, files_in, items, recording
from skelbench_plugins.recordings.kinematics import positions, rotation
from skelbench_plugins.recordings.skeletons import CMU31

from skelbench.data.importers.recording import ImportOptions, Recording

INCH = 0.0254
BONES = (
    "root lhipjoint lfemur ltibia lfoot ltoes rhipjoint rfemur rtibia rfoot rtoes lowerback upperback thorax lowerneck "
    "upperneck head lclavicle lhumerus lradius lwrist lhand lfingers lthumb rclavicle rhumerus rradius rwrist rhand "
    "rfingers rthumb"
).split()
"""Bones of CMU's files, in the order of the joints at their ends in ``cmu31``."""


@dataclass
class Bone:
    """A bone; its end is the joint."""

    offset_C: np.ndarray
    """From the end of the parent bone to its own end, in the pose without rotations, meters."""
    axis_CC: np.ndarray
    """Rotation of the bone's local axes."""
    dof: tuple[str, ...] = ()
    """Channels of the motion file: "rx", "ry", "rz"; of the root "TX", ..., "RZ"."""
    parent: str = ""


def read_asf(path: Path) -> dict[str, Bone]:
    """Return the bones by name, parents first."""
    sections: dict[str, list[str]] = {}
    for line in path.read_text(errors="replace").splitlines():
        key = line.split(" ", 1)[0] if line.startswith(":") else ""
        if key:
            sections[current := key] = [line]
        elif line.strip() and not line.startswith("#"):
            sections[current].append(line)
    units = dict(line.split()[:2] for line in sections[":units"][1:])
    meters = INCH / float(units.get("length", 1))
    order = next(line.split()[1:] for line in sections[":root"] if line.split()[0] == "order")
    bones = {"root": Bone(np.zeros(3), np.eye(3), tuple(order))}
    for block in " \n".join(sections[":bonedata"]).split("begin")[1:]:
        facts = {words[0]: words[1:] for line in block.splitlines() if (words := line.split())}
        axis = _turn(facts["axis"][3], [float(value) for value in facts["axis"][:3]])
        offset = np.array(facts["direction"], dtype=np.float64) * float(facts["length"][0]) * meters
        bones[facts["name"][0]] = Bone(offset, axis, tuple(facts.get("dof", ())))
    for line in sections[":hierarchy"]:
        parent, *children = line.split() or [""]
        for child in children if parent in bones else ():
            bones[child].parent = parent
    known: list[str] = ["root"]
    while rest := [name for name, bone in bones.items() if name not in known and bone.parent in known]:
        known += rest
    return {name: bones[name] for name in known}


def read_amc(path: Path, bones: dict[str, Bone], meters: float = INCH / 0.45) -> np.ndarray:
    """Return the ends of the bones [T, bones, 3], in meters."""
    frames: list[dict[str, list[float]]] = []
    for words in (line.split() for line in path.read_text(errors="replace").splitlines()):
        if len(words) == 1 and words[0].isdigit():
            frames.append({})
        elif frames and words:
            frames[-1][words[0]] = [float(word) for word in words[1:]]
    if not frames:
        raise ValueError("it has no frames")
    names = list(bones)
    offset_TJC = np.tile(np.array([bone.offset_C for bone in bones.values()]), (len(frames), 1, 1))
    local_TJCC = np.tile(np.eye(3), (*offset_TJC.shape[:2], 1, 1))
    for j, (name, bone) in enumerate(bones.items()):
        table = np.array([frame.get(name, [0.0] * len(bone.dof)) for frame in frames]).reshape(len(frames), -1)
        turn_TCC = np.tile(np.eye(3), (len(frames), 1, 1))
        for channel, values_T in zip(bone.dof, table.T, strict=True):
            if channel[0] in "Tt":
                offset_TJC[:, j, "xyz".index(channel[1].lower())] = values_T * meters
            else:
                turn_TCC = rotation(values_T, channel[1].upper()) @ turn_TCC
        local_TJCC[:, j] = bone.axis_CC @ turn_TCC @ bone.axis_CC.T
        if name != "root":  # a bone turns before its own offset
            offset_TJC[:, j] = local_TJCC[:, j] @ bone.offset_C
    parents = [names.index(bone.parent) if bone.parent else -1 for bone in bones.values()]
    return positions(parents, offset_TJC, local_TJCC)[0]


def _turn(order: str, degrees: Sequence[float]) -> np.ndarray:
    """Return the rotation about the axes in ``order``; the first rotation is applied first."""
    turn = np.eye(3)
    for axis, angle in zip(order.upper(), degrees):
        turn = rotation(np.array(angle), axis) @ turn
    return turn


def amc(files: Sequence[Path], options: ImportOptions) -> Recording | None:
    """Return the recording in AMC files; the ASF files are searched next to them."""
    clips = files_in(files, ".amc")
    if not clips:
        return None
    skeletons: dict[Path, dict[str, Bone]] = {}

    def read(path: Path) -> Motion:
        asf, beside = path.with_name(f"{path.stem.split('_')[0]}.asf"), sorted(path.parent.glob("*.asf"))
        if asf not in beside:
            if len(beside) != 1:
                raise ValueError(f"there is no {asf.name} next to it")
            asf = beside[0]
        if asf not in skeletons:
            skeletons[asf] = read_asf(asf)
        bones = skeletons[asf]
        if missing := [bone for bone in BONES if bone not in bones]:
            raise ValueError(f"{asf.name} has no bone {missing[0]}")
        x_TJC = read_amc(path, bones)
        return Motion(x_TJC[None, :, [list(bones).index(bone) for bone in BONES]])

    return recording(
        "CMU motion capture (AMC)", items(files, clips), read, CMU31, options, fps=120.0, where=str(files[0])
    )
