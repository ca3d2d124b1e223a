"""gunicorn for the gateway: gevent workers, meters they share, and a drain that lets streams end."""

import contextlib
import os
import pathlib
import resource
import secrets
import shutil
import signal
import sys
import time

# What is made from here on is nobody else's to read. (gunicorn's own `umask` is about sockets only.)
os.umask(0o077)
# Whoever opens a thousand connections must leave files for codex, the stores and everybody else.
MOST_FILES = 8192
FILES, MOST_ALLOWED = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(FILES, min(MOST_ALLOWED, MOST_FILES)), MOST_ALLOWED))

METERS = "PROMETHEUS_MULTIPROC_DIR"
METERS_OF = "CODEX_GATEWAY_METERS_OF"
# prometheus_client looks whether it is set when it is imported, which the application does. Where it leads is
# asked when a worker first counts.
os.environ.setdefault(METERS, "")

import gunicorn.util  # noqa: E402
from gunicorn import glogging  # noqa: E402
from gunicorn.http.errors import ParseException  # noqa: E402
from gunicorn.http.unreader import SocketUnreader  # noqa: E402
from prometheus_client import multiprocess  # noqa: E402

from app.handlers.bodies import IS_READ  # noqa: E402
from app.handlers.logs import JsonFormatter, build_redactor  # noqa: E402
from app.handlers.malformed import build_write_error  # noqa: E402
from app.handlers.pieces import discard, pace  # noqa: E402
from app.lib.loopback import is_loopback  # noqa: E402
from app.settings import PAGE_TOKEN, Settings  # noqa: E402

# A reload runs this file again, and the token stays.
os.environ[PAGE_TOKEN] = os.environ.get(PAGE_TOKEN) or secrets.token_urlsafe(24)
settings = Settings.from_env()
meters = settings.state_dir / "meters"
redactor = build_redactor(settings)


class logger_class(glogging.Logger):  # noqa: N801  what gunicorn calls the setting
    """gunicorn's own lines, which quote what it could not read, are like all others: without keys."""

    def setup(self, cfg):
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(JsonFormatter(redactor))


bind = f"[{settings.host}]:{settings.port}" if ":" in settings.host else f"{settings.host}:{settings.port}"
workers = settings.workers
worker_class = "gevent"
worker_connections = 2000
keepalive = 5
graceful_timeout = round(settings.graceful_timeout_s)
# A worker that ends is silent for as long as its background responses may take.
timeout = max(60, graceful_timeout + 10)
control_socket_disable = True
limit_request_field_size = settings.max_header_bytes
loglevel = "warning"
# No header of a client's becomes part of the environment (SCRIPT_NAME, PATH_INFO).
forwarder_headers = ""
# The one that is tried: gunicorn would take another by itself where that happens to be installed.
http_parser = "python"

# What is left of the graceful time-out when the last answers are told to end.
LAST_FRAMES_S = 5


def make_meters_folder():
    """Where workers share what they count: this server's own, gone with it. A reload runs this file again."""
    pid = str(os.getpid())
    if os.environ.get(METERS_OF) != pid:
        own = meters / pid
        shutil.rmtree(own, ignore_errors=True)  # of one that was killed, and had the same number
        own.mkdir(mode=0o700, parents=True)
        os.environ |= {METERS: str(own), METERS_OF: pid}


make_meters_folder()


def on_starting(server):
    """Tell the workers how many they are, and remove what a server that was killed left behind."""
    # gunicorn's own options may say so, too. Each worker grants its part of a key's limits.
    os.environ["WEB_CONCURRENCY"] = str(server.cfg.workers)
    for folder in meters.iterdir():
        if not pathlib.Path("/proc", folder.name).exists():
            shutil.rmtree(folder, ignore_errors=True)


def on_exit(server):
    shutil.rmtree(os.environ[METERS], ignore_errors=True)


def child_exit(server, worker):
    """What a worker that is gone had under way is not under way; what it counted stays counted."""
    multiprocess.mark_process_dead(worker.pid)


def refuse_strangers(server):
    """The end of an open gateway that others could reach: gunicorn's own options say where to listen, too."""
    names = [listener.getsockname() for listener in server.LISTENERS]
    places = [name if isinstance(name, str) else name[0] for name in names]
    exposed = [place for place in places if not is_loopback(place)]
    if settings.is_open and exposed:
        advice = "an open gateway listens on loopback only; set PROXY_API_KEY or PROXY_HOST=127.0.0.1"
        on_exit(server)
        sys.exit(f"codex-gateway: {', '.join(exposed)}: {advice}")


def when_ready(server):
    refuse_strangers(server)
    host, port = server.LISTENERS[0].getsockname()[:2]
    base = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    key = "" if settings.is_open else " -H 'authorization: Bearer YOUR_KEY'"
    model = "demo" if settings.demo else "gpt-5.5"
    body = f'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Hello!"}}]}}'
    page = f"Page: {base.removesuffix('v1')}{'#token=' + settings.page_token if settings.is_open else ''}"
    print(
        f"Codex Gateway serves {base}",
        f"API key: {'none (open, on loopback only)' if settings.is_open else 'set'}",
        *([page] if settings.serves_page else []),
        f"Try:\n  curl -N {base}/chat/completions{key} -H 'content-type: application/json' -d '{body}'",
        sep="\n",
        flush=True,
    )


def post_fork(server, worker):
    """Until it has handlers of its own, a worker would note these as its parent does, and not heed them."""
    for word in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        signal.signal(word, signal.SIG_DFL)


def post_worker_init(worker):
    """Start what a worker has after fork, and let SIGTERM set the time by which streams end themselves."""
    lifecycle, telemetry = (worker.wsgi.extensions[name] for name in ("lifecycle", "telemetry"))
    # What gunicorn says by itself, of a request that it cannot read, is in the API's own words, and counts.
    gunicorn.util.write_error = build_write_error(redactor, telemetry.account)
    pace(SocketUnreader)
    stop = signal.getsignal(signal.SIGTERM)

    def drain(signum, frame):
        lifecycle.drain(time.monotonic() + max(graceful_timeout - LAST_FRAMES_S, 1))
        stop(signum, frame)

    signal.signal(signal.SIGTERM, drain)
    signal.siginterrupt(signal.SIGTERM, False)
    # A terminal's Ctrl-C reaches the whole group; the master's word to stop is enough.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifecycle.start()


def pre_request(worker, req):
    req.unreader.pacing.rest()


def post_request(worker, req, environ, resp):
    """Do not leave an answer that came early to the reset of its connection; nor wait long for its client."""
    is_read = environ.get(IS_READ, False)
    with contextlib.suppress(KeyError, OSError, ParseException):
        if not is_read:
            with worker.timeout_ctx():
                is_read = discard(req.body, 2 * settings.max_body_bytes)
        # How long the next request may be waited for is gunicorn's to say.
        environ["gunicorn.socket"].settimeout(None)
    if not is_read:
        req.force_close()
    req.unreader.pacing.rest()
    # What is there already is read without a wait: one who asks on and on would be the only one served.
    time.sleep(0)


def worker_exit(server, worker):
    worker.wsgi.extensions["lifecycle"].close()
