"""Help texts: examples of every command, panels of options, names of values."""

from __future__ import annotations

from typing import Any

EVERYWHERE = "Every command also takes --plugin FILE (load a plugin file) and --debug."
FEW = 8
"""Largest number of options of a command with a single panel."""
PANELS = {
    "Rows": "table dataset method protocol preset tag all reference run sort",
    "Columns": "columns significance against best-on-test",
    "Data": "suite dataset split tokens clip-length patch clip",
    "Method": "preset encoder native init-from config set view",
    "Budget": "trials epochs budget batch-size seed seeds precision",
    "Evaluation": "probe protocol stream fusion weights readout bodies-pool min-confidence ratio masks clips",
    "File": "topology up units scale-2d max-bodies fps image-size clip-seconds label-fields",
    "Output": "name format output wide notes dpi skeletons recount dry-run show table save-toml json observe force",
    "Machine": "jobs on device results data-root",
}
"""Panel -> its options, in the order of the help text. An option with a panel of its own keeps that panel."""
ORDER = [(panel, name) for panel, names in PANELS.items() for name in names.split()]
PANEL_OF = {name: panel for panel, name in ORDER}
"""Option -> panel; the last one if several panels name the option."""
VALUES = {"<int>": "N", "<int range>": "N", "<float>": "X", "<float range>": "X", "<path>": "PATH"}
VALUES |= {"<list[Path]>": "PATH"}
"""Type of a value -> its name; values of all other types are called NAME."""
METAVARS = {"--tokens": "N,N", "--seeds": "N,N", "--ratio": "X,X", "--mem": "SIZE", "--time": "TIME"}
"""Option -> name of its value, if the value is text but not a name."""
EXAMPLES = {
    "": ("run slim --tokens 8 --preset quick", "compare", "run --help"),
    "data list": ("data list",),
    "data info": ("data info ntu60", "data info synthetic"),
    "data fetch": ("data fetch", "data fetch uiprmd", "data fetch bandai --from Bandai-Namco-Research-Motiondataset"),
    "data prepare ntu60": ("data prepare ntu60 --raw nturgbd_skeletons_s001_to_s017.zip",),
    "data prepare ntu120": ("data prepare ntu120 --raw s001_to_s017.zip --raw s018_to_s032.zip",),
    "data prepare pku1": ("data prepare pku1 --raw PKUMMDv1",),
    "data prepare pku2": ("data prepare pku2 --raw PKUMMDv2",),
    "data import": ("data import NTU60_CS.npz --name mine", "data import clips --image-size 1920x1080"),
    "data verify": ("data verify ntu60", "data verify mine --as ntu60"),
    "data show": ("data show ntu60 --clip 12", "data show synthetic --view slim -o views.png"),
    "data labels": ("data labels ntu60 --share 1", "data labels ntu60 --share 10 -o lists"),
    "data map": ("data map coco17 ntu25",),
    "data convert": ("data convert mine --skeleton ntu25",),
    "data export": ("data export ntu60 --split xsub -o NTU60_CS.npz", "data export mine -o mine.pkl"),
    "plugins list": ("plugins list", "plugins list methods"),
    "plugins info": ("plugins info slim", "plugins info vit"),
    "plugins new": ("plugins new method mine", "plugins new encoder mine --package"),
    "plugins check": ("plugins check mine.py", "plugins check slim"),
    "run": (
        "run slim --tokens 8 --preset quick",
        "run mamp --dataset ntu60 --split xsub --seeds 0,1,2",
        "run mine --plugin mine.py --budget clips=40k --set lr=1e-3",
    ),
    "import-checkpoint": ("import-checkpoint mamp mamp.pth --dataset ntu60 --probe linear",),
    "calibrate": ("calibrate ntu60", "calibrate ntu60 --split xsub --json"),
    "eval": ("eval slim --protocol semi@1,retrieval", "eval slim --stream joint,bone --fusion scores"),
    "export": ("export slim -o slim-encoder", "export slim -o slim-onnx --format onnx"),
    "study": ("study", "study token-budget --dry-run", "study token-budget --on slurm --partition gpu"),
    "tune": ("tune slim,mamp --trials 20 --budget clips=40k", "tune mamp --budget clips=40k --dry-run"),
    "suite show": ("suite show", "suite show skeleton-v1"),
    "suite run": ("suite run slim", "suite run mine --plugin mine.py --dry-run"),
    "suite table": ("suite table", "suite table --format md -o suite.md"),
    "compare": ("compare", "compare --table flops --method slim,mamp", "compare --against slim -o table.csv"),
    "plot": ("plot token-budget", "plot map --run slim --set color=subject -o map.pdf"),
    "report": ("report", "report --dataset ntu60 -o ntu60.html"),
    "diagnose interpolation": ("diagnose interpolation --dataset ntu60", "diagnose interpolation slim -o mask.png"),
    "diagnose invariance": ("diagnose invariance slim", "diagnose invariance slim mamp -o invariance.png"),
    "diagnose order": ("diagnose order slim", "diagnose order slim mamp --format csv"),
    "diagnose per-class": ("diagnose per-class slim mamp", "diagnose per-class 3 7 --protocol knn"),
    "runs list": ("runs list", "runs list --method slim --sort -accuracy"),
    "runs show": ("runs show slim", "runs show 7 --json"),
    "runs diff": ("runs diff 3 7",),
    "runs tag": ("runs tag slim paper", "runs tag slim paper --remove"),
    "runs rm": ("runs rm 7", "runs rm 7 8 9"),
    "runs export": ("runs export slim mamp -o runs.zip", "runs export 7 -o run.zip --weights"),
    "runs verify": ("runs verify runs.zip", "runs verify a.zip b.zip"),
    "runs add": ("runs add runs.zip", "runs add runs.zip --results shared"),
    "env": ("env", "env --json"),
}
"""Command -> examples. Subcommands are listed in this order."""


def complete_help(command: Any, path: str = "") -> Any:
    """Return ``command`` with panels and examples in its help text and in the help texts of its subcommands."""
    if command.help:
        command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in command.help.split("\n\n"))
    helping = command.get_help_option(command.context_class(command, help_option_names=["-h", "--help"]))
    helping.metavar, helping.hidden = "", bool(path)
    for param in command.params:
        _name_value(param)
    options = [param for param in command.params if param.param_type_name == "option"]
    for param in options if len(options) > FEW else ():
        param.rich_help_panel = param.rich_help_panel or PANEL_OF.get(param.opts[-1].removeprefix("--"))
    command.params.sort(key=_place)
    examples = EXAMPLES.get(path) or [lines[0] for name, lines in EXAMPLES.items() if name.startswith(f"{path} ")][:3]
    if examples:
        lines = "\n".join(f"    skelbench {example}" for example in examples)
        command.epilog = f"Example{'s' * (len(examples) > 1)}:\n\n{lines}\n\n{EVERYWHERE}"
    subcommands = getattr(command, "commands", {})
    if path and subcommands:
        order = [name.removeprefix(f"{path} ").split()[0] for name in EXAMPLES if name.startswith(f"{path} ")]
        command.commands = {name: subcommands[name] for name in sorted(subcommands, key=order.index)}
    for name, subcommand in subcommands.items():
        complete_help(subcommand, f"{path} {name}".strip())
    return command


def _place(param: Any) -> int:
    """Return the place of a parameter in the help text: without a panel, then as in PANELS, then other panels."""
    place = param.rich_help_panel, param.opts[-1].removeprefix("--")
    return -1 if place[0] is None else [*ORDER, place].index(place)


def _name_value(param: Any) -> None:
    """Name the value of a parameter, and append its default to its help text."""
    if param.param_type_name == "argument":
        param.metavar = param.metavar or param.name.upper()
        param.display_type_rich = lambda ctx: ""
    elif param.is_flag:
        param.metavar, param.show_default = "", False
    elif param.metavar is None and not param.type_descriptor.is_choice:
        param.metavar = VALUES.get(param.display_type(None)) or METAVARS.get(param.opts[0], "NAME")
    default = param.show_default if isinstance(param.show_default, str) else param.default
    if param.show_default and default not in ("", None, ()):
        param.help, param.show_default = f"{param.help} Default: {default}.", False
