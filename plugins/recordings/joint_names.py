"""Joint names of motion-capture files (Mixamo, LaFAN1, Xsens, Bandai, CMU, ...) as the shipped skeletons call them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SIDE = re.compile(r"(?:^|(?<=[^a-z]))(left|right|l|r)(?=[^a-z]|$)")
_LIMBS = {
    "shoulder": ("upperarm", "uparm", "humerus", "arm", "shoulder"),
    "elbow": ("forearm", "lowerarm", "loarm", "lowarm", "elbow"),
    "wrist": ("wrist", "hand"),
    "hip": ("upleg", "upperleg", "thigh", "femur", "hip"),
    "knee": ("lowerleg", "lowleg", "loleg", "shin", "calf", "tibia", "leg", "knee"),
    "ankle": ("ankle", "foot"),
    "foot": ("toebase", "toe", "toes", "ball", "foot"),
    "hand": ("hand",),
    "thumb": ("thumb",),
    "collar": ("collar", "clavicle", "shoulder"),
}
"""Joint -> stems of its names. A joint is where its bone begins: ``forearm`` is the elbow."""
_MIDLINE = {"pelvis": ("hips", "pelvis", "hip", "root"), "neck": ("neck", "neck0", "neck1"), "head": ("head",)}
_SPINE = ("spine", "chest", "upperchest", "torso", "abdomen", "lowerback", "thorax")


def common_names(names: Sequence[str]) -> list[str]:
    """Return the names of the shipped skeletons for names in a file; unknown joints keep theirs.

    >>> common_names(["Hips", "Spine", "Spine1", "LeftUpLeg", "LeftLeg", "LeftShoulder", "LeftArm"])
    ['pelvis', 'spine 1', 'spine mid', 'left hip', 'left knee', 'left collar', 'left shoulder']
    """
    split = [_split(name) for name in names]
    stems = {stem for side, stem in split if side}
    common = list(names)
    for joint, words in _LIMBS.items():
        word = next((word for word in words if word in stems), "")
        for row, (side, stem) in enumerate(split):
            if side and stem == word and f"{side} {joint}" not in common and common[row] == names[row]:
                common[row] = f"{side} {joint}"
    for joint, words in _MIDLINE.items():
        rows = [row for word in words for row, part in enumerate(split) if part == ("", word)]
        if rows:
            common[rows[0]] = joint
    spine = [row for row, (side, stem) in enumerate(split) if not side and stem.rstrip("0123456789") in _SPINE]
    for number, row in enumerate(spine, 1):
        common[row] = "spine mid" if number == (len(spine) + 2) // 2 else f"spine {number}"
    return common


def _split(name: str) -> tuple[str, str]:
    """Return side and stem of a name: ("left", "upleg") for ``mixamorig:LeftUpLeg``, ``L_UpLeg`` and ``upleg.l``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\s_.\-]+", " ", name.rpartition(":")[2]).lower()
    words = re.sub(r"^(bip01|joint|b|def) ", "", words)
    side = _SIDE.search(words)
    if side is None:
        return "", words.replace(" ", "")
    rest = words[: side.start()] + words[side.end() :]
    return {"l": "left", "r": "right"}.get(side[1], side[1]), rest.replace(" ", "")
