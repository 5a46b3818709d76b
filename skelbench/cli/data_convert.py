"""``skelbench data map`` and ``skelbench data convert``: from one skeleton to another."""

from __future__ import annotations

from typing import Annotated

import typer

from skelbench.cli.data_info import Name, open_store
from skelbench.cli.options import DataRoot, new_dataset_name
from skelbench.core.console import late_progress, make_table, out

_FROM = "Skeleton of the clips, see `skelbench plugins list topologies`."
Skeleton = Annotated[str, typer.Option(help="Skeleton to convert to.")]


def map_joints(
    source: Annotated[str, typer.Argument(metavar="FROM", help=_FROM)],
    target: Annotated[str, typer.Argument(metavar="TO", help="Skeleton to convert to.")],
) -> None:
    """Show how each joint of skeleton TO follows from the joints of FROM."""
    from skelbench.views.skeleton.mapping import joint_mapping
    from skelbench.views.skeleton.topology import get_topology

    mapping = joint_mapping(get_topology(source).joints, get_topology(target))
    rows = [(joint, kind, mapping.formulas[joint]) for joint, kind in mapping.kinds.items()]
    out.print(make_table((f"joint of {target}", "kind", f"from {source}"), rows))


def convert_data(
    dataset: Name,
    skeleton: Skeleton = "ntu25",
    name: Annotated[str | None, typer.Option(help="New name.", show_default="NAME-SKELETON")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a dataset of that name.")] = False,
    data_root: DataRoot = None,
) -> None:
    """Store dataset NAME with another skeleton, so that methods and encoders of that skeleton run on it."""
    from skelbench.data.convert import convert_store
    from skelbench.data.store import roots
    from skelbench.views.skeleton.topology import get_topology

    store = open_store(dataset, data_root)
    name = new_dataset_name(name or f"{dataset}-{skeleton}")
    path = (data_root or roots.data_root()) / name
    with late_progress(f"convert {dataset}", "clips") as report:
        convert_store(store, path, get_topology(skeleton), overwrite=force, progress=report)
    out.print(f"{name}: {len(store):,} clips with skeleton {skeleton} in {path}")
    out.print(f"next: skelbench data verify {name}", soft_wrap=True)
