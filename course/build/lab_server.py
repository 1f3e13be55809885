"""JupyterLab on a student's folder: on this machine only, with a token, and without dialogs or news.

In: the work folder. Out: a running server and its URL. Everything JupyterLab remembers lies in `work/.lab`, so
that a student's own JupyterLab elsewhere neither changes the course's nor is changed by it.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"

SETTINGS: dict[str, dict[str, Any]] = {
    # Without it a dialog asks for a kernel before the first cell can run.
    "@jupyterlab/notebook-extension:tracker": {"autoStartDefaultKernel": True},
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}

_STARTUP_LIMIT_S = 120
_SHUTDOWN_LIMIT_S = 20


class LabError(RuntimeError):
    """JupyterLab did not start; the message says why, as its log does."""


@dataclass(frozen=True)
class LabServer:
    """A running JupyterLab.

    Args:
        work: The folder it serves.
        port: On 127.0.0.1.
        token: Without it the server answers nothing.
        log: What the server printed.
        process: The server; `process.wait()` returns when it ends.
    """

    work: Path
    port: int
    token: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """The address to open, token included."""
        return self.address("lab")

    def address(self, path: str, query: str = "") -> str:
        """Return the address of a page of this server, token included.

        Args:
            path: Such as `lab/tree/07-pretraining-entry.ipynb`.
            query: More of the query, such as `reset`.
        """
        return f"http://{HOST}:{self.port}/{path}?token={self.token}" + (f"&{query}" if query else "")


@contextmanager
def lab_server(work: Path, *, open_browser: bool = False, expose_app: bool = False) -> Iterator[LabServer]:
    """Start JupyterLab on a folder, and stop it at the end of the block.

    Args:
        work: The folder to serve; settings and log go to `.lab` inside it.
        open_browser: Open the student's browser once the server runs.
        expose_app: Let tests in a browser reach the application as `window.jupyterapp`.

    Raises:
        LabError: The server ended or did not answer.
    """
    state = work.resolve() / ".lab"
    (state / "app").mkdir(parents=True, exist_ok=True)
    (state / "app" / "overrides.json").write_text(json.dumps(SETTINGS, indent=1) + "\n", encoding="utf-8")
    port, token, log = _free_port(), secrets.token_hex(24), state / "server.log"
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.ip={HOST}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={work.resolve()}",
        f"--ServerApp.open_browser={open_browser}",
        f"--LabApp.app_settings_dir={state / 'app'}",
        f"--LabApp.expose_app_in_browser={expose_app}",
        # Three doors to the outside, closed.
        "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # in containers; Jupyter refuses root otherwise
    environment = os.environ | {
        "JUPYTER_TOKEN": token,  # not on the command line, where every user of the machine can read it
        "JUPYTER_CONFIG_DIR": str(state / "config"),
        "JUPYTERLAB_SETTINGS_DIR": str(state / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
        "MINIMIND_COURSE_WORK": str(work.resolve()),  # where the kit saves the student's answers
        "JUPYTER_PREFER_ENV_PATH": "1",  # the course's own kernel, not one of the same name in the home folder
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    try:
        server = LabServer(work, port, token, log, process)
        _wait_until_it_answers(server)
        yield server
    finally:
        _stop(process)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_it_answers(server: LabServer) -> None:
    # The student's proxy settings do not matter for a server on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _STARTUP_LIMIT_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise LabError(f"JupyterLab ended while starting; {server.log} ends with:\n{_tail(server.log)}")
        try:
            with opener.open(server.address("api/status"), timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise LabError(
        f"JupyterLab did not answer within {_STARTUP_LIMIT_S} s; {server.log} ends with:\n{_tail(server.log)}"
    )


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_SHUTDOWN_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
