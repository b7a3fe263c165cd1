"""Where the repository is: $HYPO_REPOSITORY. Pages link to their source there and name it to `git clone`; without it
there are no links, and the command says what to put in."""

import os

from sphinx.application import Sphinx
from sphinx.config import Config

NAME = "ADDRESS-OF-THE-REPOSITORY"


def address() -> str:
    return os.environ.get("HYPO_REPOSITORY", "").rstrip("/")


def add_buttons(_app: Sphinx, config: Config) -> None:
    if address():
        buttons = dict.fromkeys(("use_repository_button", "use_issues_button", "use_source_button"), True)
        config.html_theme_options |= {"repository_url": address(), "path_to_docs": "book", **buttons}


def put_address(_app: Sphinx, _page: str, source: list[str]) -> None:
    source[0] = source[0].replace(NAME, address() or NAME)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", add_buttons)
    app.connect("source-read", put_address)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
