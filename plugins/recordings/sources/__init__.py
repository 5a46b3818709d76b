"""Open datasets for ``skelbench data fetch``, and 200 clips of real people that ship with skelbench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skelbench.plugin import DatasetSpec, SourceSpec, hookimpl

_HERE = "skelbench_plugins.recordings.sources"
_PYSKL = "https://download.openmmlab.com/mmaction/v1.0/skeleton/data"
_GITHUB = "https://github.com"
_POSEC3D = "Duan et al., Revisiting Skeleton-based Action Recognition, CVPR 2022 (2-D poses)"
PUBLIC_DOMAIN = "ODC PDDL 1.0 (public domain)"


def _pyskl(name: str, stem: str, title: str, megabytes: int) -> SourceSpec:
    return SourceSpec(
        name=name,
        target="skelbench.data.importers:recognize",
        summary=f"{title}: 2-D poses of HRNet, 17 COCO joints",
        files={f"{_PYSKL}/{stem}_2d.pkl": ""},
        megabytes=megabytes,
        license="public files of OpenMMLab; the videos have their own terms",
        citation=_POSEC3D,
    )


@hookimpl
def skelbench_sources() -> list[SourceSpec]:
    commit = "2c5bf130697b4dd7c6aafc1e75f5cb4b60f651c3"
    bandai = "74ead3ba1ae4696404e6086233779f60de8bf9ef"
    return [
        SourceSpec(
            name="uiprmd",
            target=f"{_HERE}.uiprmd:uiprmd",
            tried="",
            summary="UI-PRMD: ten exercises, correct or not, of ten people; Kinect v2",
            files={f"{_GITHUB}/niemasd/UI-PRMD-Analysis/archive/{commit}.zip": ""},
            megabytes=392,
            license=PUBLIC_DOMAIN,
            citation="Vakanski, Jun, Paul, Baker, A Data Set of Human Body Movements for Physical Rehabilitation "
            "Exercises, Data 2018, 3(1):2",
        ),
        SourceSpec(
            name="bandai",
            target=f"{_HERE}.motion:bandai",
            tried="",
            summary="3,076 clips of three actors in many styles, for pre-training; BVH",
            files={f"{_GITHUB}/BandaiNamcoResearchInc/Bandai-Namco-Research-Motiondataset/archive/{bandai}.zip": ""},
            megabytes=170,
            license="CC BY-NC 4.0",
            citation="Kobayashi et al., Motion Capture Dataset for Practical Use of AI-based Motion Editing and "
            "Stylization, 2023 (arXiv 2306.08861)",
        ),
        SourceSpec(
            name="100style",
            target=f"{_HERE}.motion:style100",
            summary="walking and running in 100 styles by one actor, 4 million frames, for pre-training; BVH",
            files={"https://zenodo.org/records/8127870/files/100STYLE.zip": ""},
            megabytes=1500,
            license="CC BY 4.0",
            citation="Mason, Starke, Komura, Real-Time Style Modeling of Human Locomotion, 2022",
        ),
        SourceSpec(
            name="irds",
            target=f"{_HERE}.rehabilitation:irds",
            tried="run on the original files of one subject",
            summary="IntelliRehabDS: nine gestures of 29 people, 15 of them patients; Kinect v2",
            files={"https://zenodo.org/records/4610859/files/IRDS.zip": ""},
            megabytes=1100,
            license="see zenodo.org/records/4610859; the article is CC BY 4.0",
            citation="Miron, Sadawi, Ismail, Hussain, Grosan, IntelliRehabDS, Data 2021, 6(5):46",
        ),
        SourceSpec(
            name="rehab24-6",
            target=f"{_HERE}.rehabilitation:rehab24",
            summary="REHAB24-6: 1,072 repetitions of six exercises, correct or not; motion capture",
            files={
                f"https://zenodo.org/records/13305826/files/{name}": ""
                for name in ("3d_joints.zip", "joint_names.txt", "Segmentation.csv")
            },
            megabytes=200,
            license="see zenodo.org/records/13305826",
            citation="REHAB24-6: a multi-modal dataset of physical rehabilitation exercises, Zenodo 13305826, 2024",
        ),
        _pyskl("hmdb2d", "hmdb51", "HMDB51", 70),
        _pyskl("ucf2d", "ucf101", "UCF101", 150),
        _pyskl("gym2d", "gym", "FineGYM", 560),
        _pyskl("diving2d", "diving48", "Diving48", 600),
    ]


@hookimpl
def skelbench_datasets() -> list[DatasetSpec]:
    return [
        DatasetSpec(
            name="uiprmd-mini",
            target=f"{_HERE}:open_mini",
            summary="real people: 200 clips of UI-PRMD, one repetition of each exercise; ships with skelbench",
            splits=("odd-even", "even-odd"),
            default_split="odd-even",
            license=PUBLIC_DOMAIN,
        )
    ]


def open_mini(root: Path) -> Any:
    """Open the 200 clips, imported on first use from the file next to this one."""
    from skelbench.data.importers import ImportOptions, recognize, store_recording
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.data.store.writer import make_once

    path, file = Path(root) / ".uiprmd-mini-v1", Path(__file__).with_name("uiprmd_mini.npz")
    options = ImportOptions(label_fields=("label", "correct"))
    make_once(path, lambda: store_recording(recognize([file], options), path, options))
    return ClipStore.open(path)
