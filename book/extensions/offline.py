"""Nothing from elsewhere: the theme's live-code widget, which names a host and a repository that are not ours, goes."""

from sphinx.application import Sphinx
from sphinx.config import Config


def remove_widget(app: Sphinx, _config: Config) -> None:
    for listeners in app.events.listeners.values():
        listeners[:] = [listener for listener in listeners if listener.handler.__module__ != "sphinx_thebe"]
    app.registry.css_files[:] = [(name, given) for name, given in app.registry.css_files if name != "sphinx-thebe.css"]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", remove_widget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
