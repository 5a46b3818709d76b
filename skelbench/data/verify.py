"""Checks of a stored dataset: counts, splits, frame totals, checksums, copies, anatomy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import counted
from skelbench.data.anatomy import JOINTS, Anatomy
from skelbench.data.store.clip_store import ClipStore

State = Literal["ok", "look", "wrong"]
SHARE = 0.8
"""Fraction of clips that must agree on the up axis, or on which side is left."""
LONGEST_BONE, SHORTEST_BONE = 0.75, 0.005
"""Meters; a median length outside this range is no human bone between neighboring joints."""
RIGID_FROM, MOST_SPREAD = 0.2, 0.4
"""Bones longer than the first (meters) may vary by the second (fraction) within a clip; sensors blur short bones."""


class Known(NamedTuple):
    """Published counts of a dataset; ``sure`` False = commonly quoted but never confirmed."""

    clips: int
    splits: dict[str, tuple[int, int]]
    details: dict[str, int] = {}
    sure: bool = True


KNOWN = {
    "ntu60": Known(
        56_578,
        {"cross-subject": (40_091, 16_487), "cross-view": (37_646, 18_932)},
        {"frames_raw": 4_773_093, "frames_denoised": 4_772_570, "files_with_missing_frames": 138},
    ),
    "ntu120": Known(113_945, {"cross-subject": (63_026, 50_919), "cross-setup": (54_468, 59_477)}),
    "pku1": Known(21_545, {"cross-subject": (18_841, 2_704)}, sure=False),
    "pku2": Known(6_945, {"cross-subject": (5_332, 1_613)}, sure=False),
}
NAMES = {
    "ntu60": r"S0(0\d|1[0-7])C\d{3}P\d{3}R\d{3}A\d{3}",
    "ntu120": r"S\d{3}C\d{3}P\d{3}R\d{3}A\d{3}",
    "pku2": r"A\d\dN\d\d-[LMR]_\d+",
    "pku1": r"\d{4}-[LMR]_\d+",
}
"""Names of clips of each known dataset; the first that fits all names decides."""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    state: State
    value: str
    expected: str = ""
    advice: str = ""
    """Meaning of a result that is not ok, and advice."""


def _judge(name: str, ok: object, value: str, expected: str, advice: str, otherwise: State = "look") -> Check:
    return Check(name, "ok", value, expected) if ok else Check(name, otherwise, value, expected, advice)


def recognize(store: ClipStore, kind: str | None = None) -> str | None:
    """Return the known dataset in ``store``: ``kind``, else recognized by the clips' names; None = unknown."""
    if kind is not None:
        if kind != "other" and kind not in KNOWN:
            raise SkelbenchError(did_you_mean(kind, [*KNOWN, "other"], "dataset to verify against"))
        return None if kind == "other" else kind
    if store.names is None:
        return None
    names = store.names.tolist()
    return next((dataset for dataset, name in NAMES.items() if all(re.fullmatch(name, clip) for clip in names)), None)


def verify(store: ClipStore, kind: str | None, body: Anatomy | None) -> Iterator[Check]:
    """Run every check in turn; ``kind`` from :func:`recognize`, ``body`` from :func:`~.anatomy.measure`."""
    yield from _counts(store, kind)
    yield from _contents(store)
    if missing := [name for name in JOINTS if name not in store.topology.joints]:
        advice = f"skeleton {store.topology.name} has no joint called {missing[0]!r}; name all of {', '.join(JOINTS)}"
        yield Check("anatomy", "look", "not checked", "", advice)
        return
    if body is None:
        advice = "no clip of the sample shows anybody, so there are no bones to check; make the dataset again"
        yield Check("bodies", "wrong", "none", "one or more in every clip", advice)
        return
    yield _up(store, body)
    advice = f"not in the order of {store.topology.name}: {body.contradiction}; import again with --topology NAME"
    value = "another" if body.contradiction else store.topology.name
    yield _judge("joint order", not body.contradiction, value, store.topology.name, advice, "wrong")
    value = f"first body's center {body.off_center:.2f} from it in the first frame"
    advice = "clips are not centered: a rotation swings the body around the camera; use --set train.center=body"
    yield _judge("origin", body.off_center < 0.5, value, "near 0", advice)
    if store.meta.dimensions == 3:  # in 2-D sides are unknown, bones are foreshortened, and the unit is the image's
        yield _left(store, body)
        yield _lengths(store, body)
        yield _rigid(store, body)


# ------------------------------------------------------------------------------------------------ counts
def _counted(name: str, count: int, expected: int, sure: bool, advice: str) -> Check:
    if count == expected or sure:
        return _judge(name, count == expected, f"{count:,}", f"{expected:,}", advice, "wrong")
    quoted = "the commonly quoted number was never confirmed; results compare with others of the same count only"
    return Check(name, "look", f"{count:,}", f"{expected:,} quoted", quoted)


def _counts(store: ClipStore, kind: str | None) -> Iterator[Check]:
    """Compare counts with the published ones, if there are any."""
    published = KNOWN.get(kind or "")
    if published is None:
        yield Check("clips", "ok", f"{len(store):,}")
    else:
        short = published.clips - len(store)
        difference = f"{short:,} samples are not there" if short > 0 else f"there are {-short:,} samples too many"
        advice = f"{difference}: complete the download (or leave out other files) and prepare {kind} again"
        yield _counted("clips", len(store), published.clips, published.sure, advice)
    unexpected = [f"{item.name}: {item.reason}" for item in store.meta.skipped if not item.expected]
    value = f"{len(store.meta.skipped):,}" + (f", {len(unexpected):,} unexpectedly" if unexpected else "")
    advice = f"{''.join(unexpected[:1])}; repair or download again what is listed in meta.json, then prepare again"
    yield _judge("skipped", not unexpected, value, "0 unexpectedly", advice, "wrong")
    for split in map(store.split, store.meta.splits):
        sizes = {"train": len(split.train), "test": len(split.test)}
        if published and split.name in published.splits:
            advice = "not the published split: accuracies on it do not compare with published ones"
            for (part, size), expected in zip(sizes.items(), published.splits[split.name]):
                yield _counted(f"{split.name}, {part}", size, expected, published.sure, advice)
        else:
            unseen = len(set(store.labels[split.test]) - set(store.labels[split.train]))
            advice = f"{counted(unseen, 'class')} only in the test part, never recognized; use another split"
            value = f"{sizes['train']:,} / {sizes['test']:,}"
            yield _judge(f"{split.name}, train / test", not unseen, value, "", advice)
    count = np.bincount(store.labels, minlength=store.num_classes)
    value = f"{store.num_classes}, {count.min():,} to {counted(count.max(), 'clip')} each"
    rarest = int(count.argmin())
    advice = f"no clip of class {rarest} ({store.classes[rarest]}); parts of the data may be missing"
    yield _judge("classes", count[rarest], value, "clips of every class", advice)
    for field, expected in (published.details if published else {}).items():
        if published and field in store.meta.details:  # only of stores that were prepared from raw files
            advice = "the raw files are not the published ones, or not all of them; compare the download's checksums"
            yield _counted(field.replace("_", " "), int(store.meta.details[field]), expected, published.sure, advice)


# ------------------------------------------------------------------------------------------------ contents
class Copies(NamedTuple):
    """Copies of clips in both parts of a split."""

    split: str
    test: int
    """Number of test clips that are also training clips."""
    of: int
    """Number of test clips."""
    example: str


def on_both_sides(store: ClipStore) -> list[Copies]:
    """Return the splits with test clips that equal training clips bit by bit."""
    copies = []
    for split in map(store.split, store.meta.splits):
        test = store.recurring(split.test, store, split.train)
        if len(test):
            first = store.recurring(split.train, store, test[:1])[0]
            example = f"{store.title(test[0])} is {store.title(first)}"
            copies.append(Copies(split.name, len(test), len(split.test), example))
    return copies


def _contents(store: ClipStore) -> Iterator[Check]:
    """Compare the arrays with their checksums, and look for copies."""
    try:
        store.verify()
    except SkelbenchError:
        advice = "the files on disk changed since they were written; delete the folder and prepare or import again"
        yield Check("checksums", "wrong", "differ", "as written", advice)
    else:
        yield Check("checksums", "ok", "as written")
    copies = on_both_sides(store)
    value = "; ".join(f"{copy.split}: {copy.test:,} of {copy.of:,} test clips" for copy in copies) or "none"
    example = copies[0].example if copies else ""
    advice = f"these are training clips, too ({example}): exclude them and import again, or report this with results"
    yield _judge("on both sides of a split", not copies, value, "none", advice)


# ------------------------------------------------------------------------------------------------ anatomy
def _up(store: ClipStore, body: Anatomy) -> Check:
    axes = ["x", "y", "z", "-x", "-y", "-z"]
    both_N6 = np.concatenate([body.up_NC, -body.up_NC], axis=1)
    count = np.bincount(both_N6.argmax(axis=1), minlength=6)
    most, share = int(count.argmax()), count.max() / count.sum()
    value = f"{axes[most]} in {share:.0%} of {body.clips:,} clips"
    advice = f"bodies do not stand along {store.meta.up_axis}; import again with the right axis (images have y down)"
    ok = axes[most] == store.meta.up_axis and share >= SHARE
    return _judge("up", ok, value, store.meta.up_axis, advice, "wrong" if share >= SHARE else "look")


def _left(store: ClipStore, body: Anatomy) -> Check:
    share = float((body.left_N > 0).mean())
    value = f"left is left in {share:.0%} of {body.clips:,} clips"
    otherwise: State = "look" if share > 1 - SHARE else "wrong"
    advice = "coordinates are mirrored, or left and right joints swapped; negate an axis or swap them, and import again"
    if otherwise == "look":
        advice = f"too noisy to tell; check some: skelbench data show {store.meta.name} -o clip.html"
    return _judge("left and right", share >= SHARE, value, "in nearly all", advice, otherwise)


def _lengths(store: ClipStore, body: Anatomy) -> Check:
    bones = [j for j in store.topology.order if j != store.topology.root]
    value = f"median {np.median(body.bone_J[bones]):.2f} m, longest {np.max(body.bone_J[bones]):.2f} m"
    strange = [j for j in bones if not SHORTEST_BONE <= body.bone_J[j] <= LONGEST_BONE]
    if len(strange) > len(bones) / 2:
        advice = "most bones are not of human size: are the coordinates in meters? import them again, scaled"
    else:
        named = ", ".join(f"{store.topology.joints[j]} {body.bone_J[j]:.3f} m" for j in strange[:5])
        advice = f"not human: {named} (from its parent); are the joints in the order of {store.topology.name}?"
    return _judge("bone lengths", not strange, value, f"{SHORTEST_BONE} to {LONGEST_BONE} m", advice, "wrong")


def _rigid(store: ClipStore, body: Anatomy) -> Check:
    long = [j for j in store.topology.order if body.bone_J[j] >= RIGID_FROM]
    if not long:
        return Check("bones are rigid", "ok", f"none is longer than {RIGID_FROM} m")
    typical, most = np.median(body.spread_J[long]), np.max(body.spread_J[long])
    value = f"long ones vary by {typical:.0%} within a clip, at most {most:.0%}"
    loose = [j for j in long if body.spread_J[j] > MOST_SPREAD]
    named = ", ".join(f"{store.topology.joints[j]} {body.spread_J[j]:.0%}" for j in loose[:5])
    # A camera at the side loses a shoulder or an ankle; mixed-up joints show in the middle or on both sides.
    one_side = not any(store.topology.swap[j] in loose for j in loose)
    reason = "on one side only, which the camera seldom saw" if one_side else "are these joints connected?"
    advice = f"not rigid: {named}; {reason}"
    otherwise: State = "look" if one_side else "wrong"
    return _judge("bones are rigid", not loose, value, f"up to {MOST_SPREAD:.0%}", advice, otherwise)
