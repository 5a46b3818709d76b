"""Pages and links of the site that come from the code, or from files that lie above ``docs/``."""

import re
from math import prod
from pathlib import Path

from docutils import nodes
from pydantic import BaseModel
from typer.cli import get_docs_for_click

from skelbench.cli.main import commands as skelbench_commands
from skelbench.plugin.host import Host
from skelbench.plugin.settings import settings
from skelbench.plugin.status import SINGULAR

ROOT = Path(__file__).parents[1]
ABOVE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Files of the repository that are pages of the site too."""
COMPONENTS = ("optimizers", "schedules", "crops", "augmentations", "masks", "degradations")
WITH_SETTINGS = ("methods", "encoders", "protocols", *COMPONENTS)


def write_pages(folder):
    """The pages that are made, written only where they change: Sphinx reads no page in vain."""
    folder.mkdir(exist_ok=True)
    pages = {"commands.md": commands(), "settings.md": all_settings(Host())}
    pages |= {"figures.inc": figures(Host()), "studies.inc": studies(Host())}
    pages |= {name.lower(): link_files(ROOT.joinpath(name).read_text(), "../", "") for name in ABOVE}
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def link_files(text, documents, made):
    """``text`` with links to ``docs/`` and to the files above it as the site has them."""
    text = text.replace("](docs/", f"]({documents}")
    return re.sub(rf"\]\((?:\.\./)?({'|'.join(ABOVE)})", lambda link: f"]({made}{link[1].lower()}", text)


def commands():
    """Every command with its arguments and options, by typer's own ``utils docs``."""
    command = skelbench_commands()
    context = command.context_class(command, info_name="skelbench")
    return get_docs_for_click(obj=command, ctx=context, name="skelbench", title="Command reference")


def all_settings(host):
    """A table for everything that ships and has settings."""
    lines = ["# Settings reference", ""]
    lines += ["What `skelbench plugins info NAME` prints of everything that ships; `--set KEY=VALUE` changes it.", ""]
    for kind in WITH_SETTINGS:
        lines += [f"## {kind.capitalize()}", ""]
        for about in host.all(kind):
            lines += [f"### {SINGULAR[kind]} {about.name}", "", about.summary, ""]
            lines += table(settings(host.config(about)))
    return "\n".join(lines)


def figures(host):
    """A table of all figures with their settings, which ``figures.md`` includes."""
    lines = ["| figure | shows | settings |", "| --- | --- | --- |"]
    for figure in host.all("figures"):
        names = ", ".join(f"`{row.name}`" for row in settings(host.config(figure)))
        summary = re.sub(r"\((--[^)]*)\)", r"(`\1`)", figure.summary)  # no dash in the place of two hyphens
        lines.append(f"| `{figure.name}` | {summary} | {names} |")
    return "\n".join(lines) + "\n"


def studies(host):
    """A table of all studies with their number of trials, which ``studies.md`` includes."""
    lines = ["| study | question | trials |", "| --- | --- | ---: |"]
    for about in host.all("studies"):
        study = host.load(about)
        settings_each = prod(len(values) for values in study.grid.values()) + len(study.trials)
        lines.append(f"| `{about.name}` | {about.summary} | {settings_each * len(study.seeds)} |")
    return "\n".join(lines) + "\n"


def table(rows):
    """Lines of a Markdown table of settings."""
    if not rows:
        return ["No settings of its own.", ""]
    cells = [(f"`{row.name}`", f"`{row.type}`", f"`{row.default}`", row.doc) for row in rows]
    head = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    return head + [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells] + [""]


def signature_of(app, what, name, obj, options, signature, returned):
    """Of a class of settings the names of its fields: types and limits are said below it."""
    if what == "class" and issubclass(obj, BaseModel):
        return f"({', '.join(['*', *obj.model_fields])})" if obj.model_fields else "()", None
    return None


def whole_sentence(app, what, name, obj, options, lines):
    """Napoleon takes what stands before a colon in an attribute's first line for its type: have that line empty."""
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")


def settings_of(app, what, name, obj, options, lines):
    """What is said of a class of settings ends with its fields."""
    if what == "class" and issubclass(obj, BaseModel):
        for row in settings(obj):
            doc = row.doc.replace("*", chr(92) + "*").replace("|", chr(92) + "|").rstrip(".")
            value = "required" if row.default == "required" else f"default ``{row.default or repr('')}``"
            lines.append(f":param {row.name}: {doc + '; ' if doc else ''}{row.type.replace('|', 'or')}; {value}")


def resolve_short_name(app, env, node, content):
    """What a docstring calls by where it is defined leads to where it is imported from, if one thing has that name."""
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
