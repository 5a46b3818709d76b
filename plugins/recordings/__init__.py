"""Recordings of people: readers of keypoints and motion capture, their skeletons, and open datasets."""

from __future__ import annotations

from skelbench_plugins.recordings.sources import skelbench_datasets as skelbench_datasets
from skelbench_plugins.recordings.sources import skelbench_sources as skelbench_sources

from skelbench.plugin import FormatSpec, TopologySpec, hookimpl

_HERE = "skelbench_plugins.recordings"


def _format(name: str, target: str, summary: str, *suffixes: str) -> FormatSpec:
    return FormatSpec(name=name, target=f"{_HERE}.{target}", summary=summary, suffixes=suffixes)


@hookimpl
def skelbench_formats() -> list[FormatSpec]:
    return [
        _format("bvh", "bvh:bvh", "motion capture of any skeleton: BVH", ".bvh"),
        _format("amc", "amc:amc", "CMU motion capture: AMC files with their ASF", ".amc"),
        _format("c3d", "joint_arrays:c3d", "markers of the Plug-in Gait set: C3D, with ezc3d", ".c3d"),
        _format("smpl", "joint_arrays:smpl", "joint positions of SMPL bodies: npz", ".npz"),
        _format(
            "mediapipe", "mediapipe:mediapipe", "MediaPipe Pose, image or world landmarks", ".json", ".csv", ".npy"
        ),
        _format("nwucla", "nwucla:nw_ucla", "NW-UCLA: folder or zip of JSON files", ".json", ".zip"),
        _format("people", "people:people", "OpenPose, AlphaPose, mmpose, Kinetics-Skeleton: JSON", ".json"),
    ]


@hookimpl
def skelbench_topologies() -> list[TopologySpec]:
    here = f"{_HERE}.skeletons"
    return [
        TopologySpec(name="mediapipe33", target=f"{here}:MEDIAPIPE33", summary="33 landmarks of MediaPipe Pose"),
        TopologySpec(name="smpl22", target=f"{here}:SMPL22", summary="22 body joints of SMPL: AMASS, LaFAN1"),
        TopologySpec(name="cmu31", target=f"{here}:CMU31", summary="31 joints of CMU's motion capture"),
        TopologySpec(name="xsens23", target=f"{here}:XSENS23", summary="23 joints of Xsens suits: 100STYLE"),
    ]
