"""``skelbench export RUN``: an encoder as a folder for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from skelbench.cli.options import DataRoot, ReadResults


def export(
    run: Annotated[str, typer.Argument(help="Run name, id, or part of either; RUN@50 = its snapshot at epoch 50.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write, which does not exist yet.")],
    format_: Annotated[
        str,
        typer.Option("--format", help="safetensors (which skelbench and timm read), or onnx: also a model.onnx."),
    ] = "safetensors",
    stream: Annotated[
        str | None, typer.Option(help="joint, bone, motion or fused.", show_default="as evaluated")
    ] = None,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Write the encoder of a finished RUN with its config and a model card: for `skelbench.load_encoder`, timm, and the
    Hugging Face Hub."""
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
