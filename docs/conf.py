"""The documentation site: ``make docs``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from record_tables import PAGES, filled  # noqa: E402
from site_pages import (  # noqa: E402
    link_files,
    resolve_short_name,
    settings_of,
    signature_of,
    whole_sentence,
    with_generated,
    write_pages,
)
from sphinx.util import logging  # noqa: E402

from skelbench.core.version import __version__  # noqa: E402

project = "skelbench"
author = copyright = "The skelbench authors"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are kept with their outputs, which the tests compare
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
add_module_names = False
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"skelbench {__version__}"
html_copy_source = False
html_show_sphinx = False


def setup(app):
    def complete(app, page, source):
        source[0] = with_generated(page, link_files(source[0], "", "generated/" if "/" not in page else ""))

    def method_pages(app, env, added, changed, removed):
        return [page for page in env.found_docs if page.startswith("methods/")]  # plugins may have changed

    def check_tables(app, page, source):
        if page in PAGES and filled(source[0]) != source[0]:
            message = "a table differs from results/reference; run python docs/record_tables.py"
            logging.getLogger(__name__).warning(message, location=page)

    app.connect("builder-inited", lambda app: write_pages(HERE / "generated"))
    app.connect("source-read", check_tables, priority=400)
    app.connect("source-read", complete)
    app.connect("env-get-outdated", method_pages)
    app.connect("autodoc-process-docstring", whole_sentence, priority=400)  # before Napoleon's
    app.connect("autodoc-process-docstring", settings_of)
    app.connect("autodoc-process-signature", signature_of)
    app.connect("missing-reference", resolve_short_name)
