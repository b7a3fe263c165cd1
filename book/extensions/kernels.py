"""Kernels that begin with the library imported: one process imports it, and forks for each page.

A page that only reads records takes longer to import the library than to do its work.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from multiprocessing import forkserver
from typing import Any

from jupyter_client.manager import AsyncKernelManager

IMPORTED = [
    *("hypo.display", "hypo.notebook.cells", "hypo.report.claims", "hypo.data.embedded", "hypo.data.corruptions"),
    *("ipykernel.kernelapp", "matplotlib_inline.backend_inline"),
]
"""The library first: it says how threads wait before torch is loaded."""


class Forked:
    """A forked kernel, as the `subprocess.Popen` that `jupyter_client` watches."""

    stdin = stdout = stderr = None

    def __init__(self, *given: Any) -> None:
        self.process = multiprocessing.get_context("forkserver").Process(target=begin, args=given)
        self.process.start()
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, signal: int) -> None:
        os.kill(self.pid, signal)


class Manager(AsyncKernelManager):
    """Starts kernels of this Python as forks."""

    async def _async_launch_kernel(self, kernel_cmd: list[str], **given: Any) -> None:
        self.provisioner.process = Forked(kernel_cmd[kernel_cmd.index("-f") :], given["env"], given["cwd"])
        self.provisioner.pid = self.provisioner.pgid = self.provisioner.process.pid
        self._reconcile_connection_info(self.provisioner.connection_info)


def manager() -> type[AsyncKernelManager]:
    """What starts kernels: forks that have the library imported under the present environment, where they can be."""
    if sys.platform != "linux":  # elsewhere there is no fork, or system libraries do not survive it
        return AsyncKernelManager
    multiprocessing.get_context("forkserver").set_forkserver_preload(["__main__", *IMPORTED])
    try:
        forkserver.ensure_running()
    except OSError:  # the temporary folder has too long a name for a socket, or can hold none
        return AsyncKernelManager
    return Manager


def begin(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """What a fork does: be a kernel, in a process group of its own, that ends with the build."""
    from ipykernel.kernelapp import IPKernelApp

    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    IPKernelApp.launch_instance(arguments)


def _end_with(build: multiprocessing.Process) -> None:
    build.join()
    os._exit(1)
