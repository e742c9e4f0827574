"""How the documents become a site: ``make docs`` runs Sphinx with this file, and the site is in ``build/docs``."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]

project = "Tandem"
author = "The authors of Tandem"
release = version = version_of("tandem-hybrid")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["site", "notebooks", "**/__pycache__"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
nitpicky = False  # names in types belong to libraries whose pages this site does not need to be built

html_theme = "furo"
html_title = f"Tandem {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
copybutton_prompt_text = "$ "


def generate(app: Sphinx) -> None:
    """Write the pages of reference that follow from the code."""
    from reference import write

    write(Path(app.srcdir) / "reference")


def setup(app: Sphinx) -> dict[str, Any]:
    """Have pages of reference written before any is read."""
    app.connect("builder-inited", generate)
    app.add_lexer("mermaid", TextLexer)  # drawn where the files are read; here they stay text, as nothing is loaded
    return {"parallel_read_safe": True}
