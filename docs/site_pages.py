"""Pages and links of the site that come from the code, or from files that lie above ``docs/``."""

import re
from math import prod
from pathlib import Path

from docutils import nodes
from pydantic import BaseModel
from typer.cli import get_docs_for_click

from skelbench.cli.main import commands as skelbench_commands
from skelbench.core.settings import settings
from skelbench.core.text import setting_text
from skelbench.pipeline.presets import PRESETS
from skelbench.pipeline.request import CHOICES
from skelbench.pipeline.settings import Parts, joined, names
from skelbench.plugin.host import Host, get_host
from skelbench.plugin.status import SINGULAR

ROOT = Path(__file__).parents[1]
ABOVE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Files of the repository that are pages of the site too."""
COMPONENTS = ("optimizers", "schedules", "crops", "augmentations", "masks", "degradations")
WITH_SETTINGS = ("methods", "encoders", "protocols", *COMPONENTS)
METHODS = Path(__file__).with_name("methods")
"""Hand-written pages of methods; ``NAME.md`` is about method ``NAME``."""
ACCURACIES = ("linear", "semi", "retrieval", "transfer")
"""Tables whose published numbers a method page repeats."""


def write_pages(folder):
    """Write the generated pages that changed, so that Sphinx reads only these again."""
    folder.mkdir(exist_ok=True)
    host = Host()
    pages = {"commands.md": commands(), "settings.md": all_settings(host)}
    pages |= {"figures.inc": figures(host), "studies.inc": studies(host)}
    pages |= {name.lower(): link_files(ROOT.joinpath(name).read_text(), "../", "") for name in ABOVE}
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def link_files(text, documents, made):
    """Return ``text`` with the site's links to ``docs/`` and to the files above it."""
    text = text.replace("](docs/", f"]({documents}")
    return re.sub(rf"\]\((?:\.\./)?({'|'.join(ABOVE)})", lambda link: f"]({made}{link[1].lower()}", text)


def commands():
    """Return every command with its arguments and options, in the form of typer's ``utils docs``."""
    command = skelbench_commands()
    context = command.context_class(command, info_name="skelbench")
    return get_docs_for_click(obj=command, ctx=context, name="skelbench", title="Command reference")


def all_settings(host):
    """Return a table for every shipped part with settings."""
    lines = ["# Settings reference", ""]
    lines += ["Output of `skelbench plugins info NAME` for all shipped parts; `--set KEY=VALUE` changes a setting.", ""]
    for kind in WITH_SETTINGS:
        lines += [f"## {kind.capitalize()}", ""]
        for about in host.all(kind):
            lines += [f"### {SINGULAR[kind]} {about.name}", "", about.summary, ""]
            rows = settings(host.config(about))
            cells = [(f"`{row.name}`", f"`{row.type}`", f"`{row.default}`", row.doc) for row in rows]
            head = ("setting", "type", "default", "meaning")
            lines += [markdown_table(head, cells) if cells else "No settings of its own.", ""]
    return "\n".join(lines)


def figures(host):
    """Return a table of all figures with their settings, for ``figures.md``."""
    rows = []
    for figure in host.all("figures"):
        names = ", ".join(f"`{row.name}`" for row in settings(host.config(figure)))
        summary = re.sub(r"\((--[^)]*)\)", r"(`\1`)", figure.summary)  # code, as Sphinx would print a dash for --
        rows.append((f"`{figure.name}`", summary, names))
    return markdown_table(("figure", "shows", "settings"), rows) + "\n"


def studies(host):
    """Return a table of all studies with their number of trials, for ``studies.md``."""
    rows = []
    for about in host.all("studies"):
        study = host.load(about)
        trials = (prod(len(values) for values in study.grid.values()) + len(study.trials)) * len(study.seeds)
        rows.append((f"`{about.name}`", about.summary, str(trials)))
    return markdown_table(("study", "question", "trials"), rows) + "\n"


def with_generated(page, text):
    """Return the text of page ``methods/NAME`` with its generated parts; other pages are returned unchanged."""
    folder, _, name = page.rpartition("/")
    if folder != "methods":
        return text
    if name == "index":
        return text + method_list(get_host())
    host, method = get_host(), get_host().get("methods", name)
    title, idea, rest = text.split("\n\n", 2)
    tables = (run_settings, variants, protocols, published_accuracy)
    return "\n\n".join([title, idea, how_to_run(method), rest, *(table(host, method) for table in tables)])


def method_list(host):
    """Return a table of all methods that train: link, name, first sentence of the page, paper."""
    rows = []
    for method in host.all("methods"):
        if method.trains:
            idea = " ".join((METHODS / f"{method.name}.md").read_text().split("\n\n")[1].split())
            link = f"[{method.spelling}]({method.name}.md)"
            rows.append((link, f"`{method.name}`", re.split(r"(?<=\.) (?=[A-Z])", idea)[0], citation(method)))
    return "\n## All methods\n\n" + markdown_table(("method", "name", "idea", "paper"), rows) + "\n"


def citation(method):
    """Return the paper of ``method`` with a link to arXiv."""
    return re.sub(r"arXiv (\d+\.\d+)", r"[arXiv \1](https://arxiv.org/abs/\1)", method.citation)


def how_to_run(method):
    """Return the paper and the commands of ``method``."""
    first = " or ".join(method.stage.after) if method.stage else ""
    start = " --init-from RUN" * bool(first)
    lines = [(f"run {method.name} --tokens 8", "shared setting")]
    lines += [(f"run {method.name} --native{start}", "published setting")] if method.native else []
    lines += [
        (f"run {method.name} --preset {name}", f"preset {name}") for name in method.presets if name not in PRESETS
    ]
    lines += [(f"import-checkpoint {method.name} FILE", "evaluate released weights")] if method.imports else []
    lines.append((f"plugins info {method.name}", "all settings"))
    width = max(len(command) for command, _ in lines)
    block = "\n".join(f"skelbench {command:{width}}  # {comment}" for command, comment in lines)
    notes = [f"Paper: {citation(method)}.", f"```bash\n{block}\n```"]
    notes += [f"`RUN` is a finished run of `{first}`, the first stage."] if first else []
    notes += [] if method.native else ["This method has no separate published setting: `--native` changes nothing."]
    return "\n\n".join(notes)


def run_settings(host, method):
    """Return a table of what the method sets for training, in the shared and in the published setting."""
    shared, native = (settings_of_run(host, method, layers) for layers in ([], [method.native]))
    shared["train.precision"] = "bf16 on a GPU"
    rows = []
    for key in {**method.recipe, **method.native}:
        values = [setting_text(run[key]) if key in run else "–" for run in (shared, native)]
        if key in method.recipe or values[0] != values[1]:
            rows.append((f"`{key}`", *values)[: 3 if method.native else 2])
    head = ("setting", "shared", "`--native`")[: 3 if method.native else 2]
    link = f"All other settings: [reference](../generated/settings.md#method-{method.name})."
    return f"## Settings\n\nPreset `paper`.\n\n{markdown_table(head, rows)}\n\n{link}"


def settings_of_run(host, method, layers):
    """Return all settings of a run at preset ``paper`` by dotted name; ``layers`` come after the recipe."""
    layers = [{"grid.frames": 64, "grid.patch": 8, **method.recipe}, *layers]
    chosen, values = names(layers), joined(layers)
    parts = Parts.of(host, method, chosen)
    sections = {name: parts.section(values, name) for name in ("method", *CHOICES, "train", "grid")}
    fields = {f"{name}.{key}": getattr(spec, key) for name, spec in sections.items() for key in type(spec).model_fields}
    return chosen | fields


def variants(host, method):
    """Return a table of the ablations of ``method``; "" if there are none."""
    rows = [
        (f"`{method.name}:{variant}`", ", ".join(f"`{key}={setting_text(value)}`" for key, value in changes.items()))
        for variant, changes in method.variants.items()
    ]
    return "## Variants\n\n" + markdown_table(("`skelbench run`", "changes"), rows) if rows else ""


def protocols(host, method):
    """Return a table of the protocols that follow the authors' code; "" if there are none."""
    probe = method.probe.protocol if method.probe else f"linear@{method.name}"
    followers = [about for about in host.all("protocols") if about.name.endswith(f"@{probe.partition('@')[2]}")]
    rows = [(f"`{about.name}`", about.summary) for about in followers]
    text = "## Protocols of the authors\n\n" + markdown_table(("`skelbench eval RUN --protocol`", "procedure"), rows)
    best = "\n\nThe authors report the best epoch on the test clips; `skelbench calibrate` compares with that."
    return text + best * bool(method.probe and method.probe.best_on_test) if rows else ""


def published_accuracy(host, method):
    """Return a table of published accuracies with their sources and notes; "" if there are none."""
    rows = [row for spec in host.all("rows") if spec.table in ACCURACIES for row in host.load(spec)]
    printed = [row.printed for row in rows if row.method == method.name and row.printed]
    numbers = [number for source in printed for number in source.figures(host)]
    splits = list(dict.fromkeys(f"{number['dataset']} {number['split']}" for number in numbers))
    lines = {}
    for number in numbers:
        line = lines.setdefault((number["protocol"], number["variant"], number["source"]), dict.fromkeys(splits, ""))
        line[f"{number['dataset']} {number['split']}"] = str(number["value"])
    cells = [(protocol, variant, *line.values(), source) for (protocol, variant, source), line in lines.items()]
    notes = dict.fromkeys(
        f"* {number['protocol']}, {number['variant']}: {number['note']}." for number in numbers if number["note"]
    )
    head = ("measure", "variant", *splits, "source")
    text = "## Published accuracy\n\nIn percent; not measured here.\n\n" + markdown_table(head, cells)
    return "\n\n".join([text, "\n".join(notes)]) if numbers else ""


def markdown_table(head, rows):
    """Return a Markdown table; ``|`` in cells is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(escaped(cell, '|') for cell in line)} |" for line in lines)


def escaped(text, characters):
    """Return ``text`` with a backslash before each of ``characters``."""
    return re.sub(f"[{re.escape(characters)}]", r"\\\g<0>", text)


def signature_of(app, what, name, obj, options, signature, returned):
    """Return the names of the fields as the signature of a class of settings; types and limits are listed below it."""
    if what == "class" and issubclass(obj, BaseModel):
        return f"({', '.join(['*', *obj.model_fields])})" if obj.model_fields else "()", None
    return None


def whole_sentence(app, what, name, obj, options, lines):
    """Insert an empty first line: Napoleon reads text before a colon in an attribute's first line as its type."""
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")


def settings_of(app, what, name, obj, options, lines):
    """Append the fields of a class of settings to its documentation."""
    if what == "class" and issubclass(obj, BaseModel):
        for row in settings(obj):
            doc = escaped(row.doc, "*|").rstrip(".")
            value = "required" if row.default == "required" else f"default ``{row.default or repr('')}``"
            lines.append(f":param {row.name}: {doc + '; ' if doc else ''}{row.type.replace('|', 'or')}; {value}")


def resolve_short_name(app, env, node, content):
    """Link a name by its last part, if only one object has it: docstrings name the module that defines an object."""
    if node.get("refdomain") != "py":
        return None
    short = node["reftarget"].rpartition(".")[2]
    objects = env.get_domain("py").objects.items()
    found = {(entry.docname, entry.node_id) for full, entry in objects if full.rpartition(".")[2] == short}
    if len(found) != 1:
        return None
    page, anchor = found.pop()
    uri = app.builder.get_relative_uri(node.get("refdoc", page), page)
    return nodes.reference("", "", content, refuri=f"{uri}#{anchor}", internal=True)
