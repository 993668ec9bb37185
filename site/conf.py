"""Sphinx's settings.

`make_site.py` puts the pages together and calls Sphinx. Nothing here uses the network.
"""

import sys
from pathlib import Path

from sphinx import addnodes

HERE = Path(__file__).resolve().parent
# what is documented is this tree, whatever may be installed
sys.path[:0] = [str(HERE), str(HERE.parent)]

import in_browser  # noqa: E402
from looks import repository  # noqa: E402

import tinyrmc  # noqa: E402

project, author, release = "tinyrmc", "the tinyrmc authors", tinyrmc.__version__
project_copyright = "the tinyrmc authors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "house_style",
    "looks",
]
exclude_patterns = ["README.md"]  # index.md includes parts of it

nb_execution_mode = "off"  # notebooks are committed with their outputs
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

smartquotes = False  # --flags stay flags
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "ignore-module-all": True,
    "special-members": "__call__",
}
autodoc_preserve_defaults = True  # xp=np, not what np prints
# signatures name these, not what they stand for: Any, or a line of NumPy's own types
autodoc_type_aliases = {
    "Array": "Array",
    "State": "State",
    "npt.DTypeLike": "DTypeLike",
}
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"
viewcode_line_numbers = True

mathjax_path = "mathjax/tex-chtml-full.js"  # make_site.py puts it there
mathjax3_config = {"chtml": {"scale": 0.92}}

html_theme = "sphinx_book_theme"
html_title = "tinyrmc"
tagline = "tinyrmc: networks that compare what they remember"  # title of the first page
html_favicon = str(HERE / "static" / "favicon.svg")
html_static_path = ["static"]
html_css_files = ["tinyrmc.css"]
html_show_sphinx = False
html_domain_indices = False  # the reference begins with one
html_last_updated_fmt = None
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
# The source of a module has no place in the list of all pages, so it goes without that
# list, which takes longer to make than the page.
html_sidebars = {"_modules/**": ["navbar-logo.html", "search-button-field.html"]}
html_theme_options = {
    "logo": {"text": project},  # on the first page, too, whose title stands alone
    "extra_footer": in_browser.versions(),
    "navbar_persistent": [],
    "home_page_in_toc": False,
    "show_toc_level": 2,
    "use_fullscreen_button": False,
    "use_download_button": True,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

if url := repository():  # else no page links to it
    owner, name = url.split("/")[-2:]
    html_baseurl = (
        f"https://{owner.lower()}.github.io/{name}/"  # site.yml publishes there
    )
    html_theme_options |= {
        "repository_url": url,
        "repository_branch": "main",
        "use_repository_button": True,
        "launch_buttons": {
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
            "notebook_interface": "jupyterlab",
        },
    }


def forget_modules(app, doctree):
    """The pages of worlds, and of what one imports, repeat what those of modules say.
    Links from the source lead to modules alone.
    """
    if app.env.docname.startswith(("worlds/", "reference/use")):
        for signature in doctree.findall(addnodes.desc_signature):
            signature["module"] = None


def setup(app):
    """Connects `forget_modules` to run before `viewcode`, whose priority is 500."""
    app.add_config_value("tagline", "", "html")
    app.connect("doctree-read", forget_modules, priority=400)
    app.connect("html-page-context", in_browser.add_button)
