"""gunicorn for the gateway: gevent workers, and a drain that lets streams end."""

import signal
import time

from app.settings import Settings

settings = Settings.from_env()

bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
workers = settings.workers
worker_class = "gevent"
worker_connections = 2000
keepalive = 5
graceful_timeout = round(settings.graceful_timeout_s)
# A worker that ends is silent for as long as its background responses may take.
timeout = max(60, graceful_timeout + 10)
control_socket_disable = True
loglevel = "warning"
# No header of a client's becomes part of the environment (SCRIPT_NAME, PATH_INFO).
forwarder_headers = ""

# What is left of the graceful time-out when the last answers are told to end.
LAST_FRAMES_S = 5


def when_ready(server):
    host, port = server.LISTENERS[0].getsockname()[:2]
    base = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    key = " -H 'authorization: Bearer YOUR_KEY'" if settings.api_keys else ""
    model = "demo" if settings.demo else "gpt-5.5"
    body = f'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Hello!"}}]}}'
    print(
        f"Codex Gateway serves {base}",
        f"API key: {'set' if settings.api_keys else 'none (open, on loopback only)'}",
        f"Try:\n  curl -N {base}/chat/completions{key} -H 'content-type: application/json' -d '{body}'",
        sep="\n",
        flush=True,
    )


def post_worker_init(worker):
    """Start what a worker has after fork, and let SIGTERM set the time by which streams end themselves."""
    lifecycle = worker.wsgi.extensions["lifecycle"]
    stop = signal.getsignal(signal.SIGTERM)

    def drain(signum, frame):
        lifecycle.drain(time.monotonic() + max(graceful_timeout - LAST_FRAMES_S, 1))
        stop(signum, frame)

    signal.signal(signal.SIGTERM, drain)
    signal.siginterrupt(signal.SIGTERM, False)
    # A terminal's Ctrl-C reaches the whole group; the master's word to stop is enough.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifecycle.start()


def worker_exit(server, worker):
    worker.wsgi.extensions["lifecycle"].close()
