"""Many clients at once, each with a connection and a thread of its own."""

import concurrent.futures
import http.client
import sys
import threading

from tests.bench.load import Client, Reply
from tests.bench.servers import Server


def ask_at_once(server: Server, path: str, bodies: list[bytes]) -> list[Reply | None]:
    """Send all of them in one moment; the replies in their order, None for what failed."""
    together = threading.Barrier(len(bodies))

    def ask(body: bytes) -> Reply | None:
        client = Client(server.port)
        together.wait(30)
        try:
            return client.post(path, body)
        except (RuntimeError, OSError, http.client.HTTPException) as error:
            print(f"failed among {len(bodies)} at once: {error!r}", file=sys.stderr)
            return None
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(ask, bodies))
