"""A kernel client that cannot sleep through a reply.

nbclient waits for a cell's reply on the same socket on which it answers Output widgets. jupyter_client sends those
answers past pyzmq's asyncio socket, and a send uses up the one wake-up that an arriving reply causes: now and then
(in 5 of 100 runs of a notebook with two Output widgets) the reply lies in the socket while the client sleeps, until
the cell's whole time limit is over. Asking anew finds it, so this client waits in short turns.
"""

import time
from queue import Empty
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.channels import AsyncZMQSocketChannel
from traitlets import Type

TURN_S = 0.5


class WakefulChannel(AsyncZMQSocketChannel):
    """A channel that looks at its socket at least twice a second while it waits."""

    async def get_msg(self, timeout: float | None = None) -> dict[str, Any]:  # type: ignore[override]
        """Return the next message.

        Args:
            timeout: Seconds to wait; None waits without end.

        Raises:
            Empty: No message came in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left_s = TURN_S if deadline is None else deadline - time.monotonic()
            try:
                return await super().get_msg(timeout=min(TURN_S, max(0.0, left_s)))
            except Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    raise


class WakefulKernelClient(AsyncKernelClient):
    """A kernel client whose wait for replies ends when they are there."""

    shell_channel_class = Type(WakefulChannel)
