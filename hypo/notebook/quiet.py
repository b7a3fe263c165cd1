"""The engine by which papermill executes pages of the book: its own, with a kernel that only speaks of errors."""

from __future__ import annotations

from typing import Any

from papermill.engines import NBClientEngine


class Quiet(NBClientEngine):
    """papermill's engine; the kernel's warnings, about its transport for one, tell a reader nothing about the page."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> None:
        """Execute the cells of `nb_man` in a kernel of that name."""
        super().execute_managed_notebook(
            nb_man, kernel_name, extra_arguments=["--IPKernelApp.log_level=ERROR"], **options
        )
