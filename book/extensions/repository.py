"""Links from the pages to their source, when $HYPO_REPOSITORY says where the repository is; none when it does not."""

import os

from sphinx.application import Sphinx
from sphinx.config import Config


def add_buttons(_app: Sphinx, config: Config) -> None:
    address = os.environ.get("HYPO_REPOSITORY", "").rstrip("/")
    if address:
        buttons = dict.fromkeys(("use_repository_button", "use_issues_button", "use_source_button"), True)
        config.html_theme_options |= {"repository_url": address, "path_to_docs": "book", **buttons}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", add_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
