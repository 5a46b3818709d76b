"""``skelbench export RUN``: an encoder as a folder for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from skelbench.cli.options import CHECKPOINT, DataRoot, ReadResults


def export(
    run: Annotated[str, typer.Argument(help=CHECKPOINT)],
    output: Annotated[Path, typer.Option("-o", "--output", help="New folder to write to.")],
    format_: Annotated[
        str, typer.Option("--format", help="safetensors (for skelbench and timm), or onnx for a model.onnx too.")
    ] = "safetensors",
    stream: Annotated[
        str | None, typer.Option(help="Stream: joint, bone, motion or fused.", show_default="as evaluated")
    ] = None,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Write the encoder of a finished RUN with its config and a model card.

    `skelbench.load_encoder` and timm read the folder. It can be uploaded to the Hugging Face Hub as it is."""
    from skelbench.api import export as exporting
    from skelbench.core.console import out, print_facts

    chosen: dict[str, Any] = {"format": format_, "stream": stream}
    written = exporting.export(run, output, **chosen, results=results, data=data_root)
    facts = [("wrote", f"{written.folder}: {', '.join(written.files)}")]
    if written.onnx_difference is not None:
        facts.append(("ONNX", f"features differ from PyTorch's by at most {written.onnx_difference:.2g}"))
    print_facts(facts)
    out.print("Next:")
    out.print(f"  python -c 'import skelbench; print(skelbench.load_encoder(\"{written.folder}\"))'")
