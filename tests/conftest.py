"""What every test runs under: no hub, one thread, no window, and no connection that leaves this machine."""

import ipaddress
import os
import socket
from collections.abc import Iterator

# Set before anything imports torch or transformers, and inherited by every process that a test starts.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest


class NetworkForbidden(RuntimeError):
    """A test tried to reach another machine.

    Not an OSError on purpose: libraries swallow those and carry on with a fallback.
    """


def _stays_here(host: object) -> bool:
    """Whether `host`, as given to connect or getaddrinfo, is this machine."""
    if isinstance(host, bytes):
        host = host.decode()
    if host is None or host in ("", "localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:  # another machine's name
        return False


@pytest.fixture(autouse=True)
def network_attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Refuses connections and look-ups that leave the machine; fails the test that tried, caught or not."""
    attempts: list[str] = []
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guard(host: object) -> None:
        if not _stays_here(host):
            attempts.append(str(host))
            raise NetworkForbidden(
                f"a test tried to reach {host!r}; tests run offline, on data that the repository ships"
            )

    def guarded_connect(self: socket.socket, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            guard(address[0])
        return connect(self, address)

    def guarded_connect_ex(self: socket.socket, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            guard(address[0])
        return connect_ex(self, address)

    def guarded_getaddrinfo(host, *args, **kwargs):
        guard(host)
        return getaddrinfo(host, *args, **kwargs)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
    yield attempts
    assert not attempts, f"this test tried to reach {', '.join(attempts)}; tests run offline"
