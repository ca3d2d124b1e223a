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
timeout = 60
graceful_timeout = round(settings.graceful_timeout_s)
control_socket_disable = True
loglevel = "warning"

# What is left of the graceful time-out when the last answers are told to end.
LAST_FRAMES_S = 5


def when_ready(server):
    host, port = server.LISTENERS[0].getsockname()[:2]
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    key = "$PROXY_API_KEY" if settings.api_keys else "none-needed"
    model = "demo" if settings.demo else "gpt-5.5"
    print(f"Codex Gateway serves {base}/v1", flush=True)
    print("API key: " + ("set" if settings.api_keys else "none (open, on loopback only)"), flush=True)
    print(
        f"Try:\n  curl -N {base}/v1/chat/completions -H 'content-type: application/json' \\\n"
        f'    -H "authorization: Bearer {key}" \\\n'
        f'    -d \'{{"model":"{model}","stream":true,"messages":'
        '[{"role":"user","content":"Hello!"}]}\'',
        flush=True,
    )


def post_worker_init(worker):
    """Start the backend after fork, and let SIGTERM set the time by which streams end themselves."""
    backend = worker.wsgi.extensions["backend"]
    stop = signal.getsignal(signal.SIGTERM)

    def drain(signum, frame):
        backend.drain(time.monotonic() + max(graceful_timeout - LAST_FRAMES_S, 1))
        stop(signum, frame)

    signal.signal(signal.SIGTERM, drain)
    signal.siginterrupt(signal.SIGTERM, False)
    backend.start()


def worker_exit(server, worker):
    worker.wsgi.extensions["backend"].close()
