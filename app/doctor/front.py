"""What stands in front of the gateway, nginx or another, looked at from the clients' side."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator

from app.backend.home import DEMO_MODEL
from app.doctor.findings import Finding, note, ok, wrong
from app.doctor.patient import Patient, Unfit
from app.doctor.wire import Reply, Unreached, Untrusted, Wire
from app.lib.loopback import is_loopback
from app.settings import Settings

FRONT = "front"

#: Which the demo model says word by word, with a pause between them.
WORDS = " ".join(["word"] * 40)
#: Of a stream that says them, at least: from its first piece to its last, and pieces.
SPREAD_S = 0.2
MANY = 12
#: What the site we ship says where no gateway answers it.
UNAVAILABLE = "gateway_unavailable"
CLOSED = (401, 403, 404)
LOOK = (
    "`make doctor URL=https://your.domain`, or `codex-gateway doctor --url https://your.domain` "
    "where it is installed,"
)
URL_ADVICE = "URL must be like https://your.domain"


def check_front(patient: Patient) -> list[Finding]:
    if patient.url is None:
        return [note(FRONT, f"not looked at: {LOOK} shows what clients meet")]
    url = parse_url(patient.url)
    is_local = is_loopback(url.hostname or "")
    wire = Wire(f"{url.scheme}://{url.netloc}", through_proxies=not is_local)
    found: list[Finding] = []
    try:
        for finding in look(wire, url, patient.settings, is_local):
            found.append(finding)
    except Untrusted as error:
        found.append(wrong(FRONT, f"{url.netloc} is not trusted ({error}): renew its certificate and chain"))
    except Unreached as error:
        found.append(wrong(FRONT, f"{url.netloc} cannot be reached ({error}): look at DNS, firewall, nginx"))
    return found


def parse_url(text: str) -> urllib.parse.SplitResult:
    """Of what was given, scheme, name and port: a path is the gateway's, and a password nobody's to print."""
    try:
        url = urllib.parse.urlsplit(text)
        port = url.port
    except ValueError:  # whose text may hold a password
        raise Unfit(URL_ADVICE) from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise Unfit(URL_ADVICE)
    name = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    return url._replace(netloc=f"{name}:{port}" if port else name)


def look(wire: Wire, url: urllib.parse.SplitResult, settings: Settings, is_local: bool) -> Iterator[Finding]:
    where = f"{url.scheme}://{url.netloc}"
    if url.scheme == "http" and not is_local:
        yield wrong(FRONT, f"{where} sends keys and words in the clear: serve https")
    live = wire.ask("GET", "/livez")
    yield judge_live(live, where)
    if live.json != {"status": "ok"}:
        return
    # Refused by a gateway with keys and by one without; the latter does not belong before others.
    yield from judge_refusal(wire.ask("POST", "/v1/chat/completions", {}), url.netloc, is_local)
    yield judge_metrics(wire.ask("GET", "/metrics"), is_local)
    if settings.demo and (url.scheme == "https" or is_local):
        keys = (*settings.api_keys, *settings.admin_keys, "")
        said = [{"role": "user", "content": f"Say exactly: {WORDS}"}]
        body = {"model": DEMO_MODEL, "stream": True, "messages": said}
        yield judge_stream(wire.ask("POST", "/v1/chat/completions", body, keys[0]))


def judge_live(reply: Reply, where: str) -> Finding:
    if reply.json == {"status": "ok"} and reply.status == 200:
        trust = ", with a certificate that is trusted" if where.startswith("https:") else ""
        return ok(FRONT, f"{where} reaches a gateway{trust}")
    if target := reply.headers.get("location"):
        return wrong(
            FRONT, f"{where} redirects ({reply.status}) to {target.partition('?')[0]}: give that URL"
        )
    if (reply.error or {}).get("code") == UNAVAILABLE:
        return wrong(FRONT, f"{where} finds no gateway behind it: start it, or look at proxy_pass")
    return wrong(
        FRONT, f"{where}/livez is no gateway's ({reply.describe()}): look at proxy_pass, and at `port`"
    )


def judge_refusal(reply: Reply, name: str, is_local: bool) -> Iterator[Finding]:
    error = reply.error
    if error is None:
        yield wrong(
            FRONT,
            f"an error is not the gateway's own ({reply.describe()}): no proxy_intercept_errors, "
            "or error pages in its JSON",
        )
        return
    about = " ".join(filter(None, (str(reply.status), error.get("code"))))
    yield ok(FRONT, f"errors arrive as the API has them ({about})")
    if "x-request-id" in reply.headers:
        yield ok(FRONT, "answers bring their x-request-id")
    else:
        yield wrong(FRONT, "x-request-id does not come back: no proxy_hide_header for it")
    yield from judge_door(reply.status, error.get("code"), name, is_local)


def judge_door(status: int, code: object, name: str, is_local: bool) -> Iterator[Finding]:
    """What a stranger was told."""
    if code == "host_not_allowed":
        yield wrong(FRONT, f"the gateway is not called {name}: add it to PROXY_ALLOWED_HOSTS")
    elif status in (400, 422) and not is_local:
        yield wrong(FRONT, "whoever reaches it needs no key: set PROXY_API_KEY")


def judge_metrics(reply: Reply, is_local: bool) -> Finding:
    if reply.status in CLOSED:
        return ok(FRONT, f"/metrics is closed ({reply.status})")
    text = f"/metrics is open (HTTP {reply.status})"
    if is_local:
        return note(FRONT, f"{text} to this machine")
    return wrong(FRONT, f"{text}: `location = /metrics {{ return 404; }}`")


def judge_stream(reply: Reply) -> Finding:
    if reply.status != 200:
        code = (reply.error or {}).get("code")
        told = f"{reply.describe()}, {code}"
        return note(
            FRONT, f"whether streams arrive piece by piece is not known ({told}): `curl -N` and a key show it"
        )
    # A buffer that is filled and passed on brings few pieces, though over the same time.
    spread_s, pieces = reply.arrivals_s[-1] if reply.arrivals_s else 0.0, len(reply.arrivals_s)
    if spread_s >= SPREAD_S and pieces >= MANY:
        return ok(FRONT, f"streams arrive as they are written ({pieces} pieces in {spread_s:.1f} s)")
    advice = "`proxy_buffering off` and `gzip off` for /v1/"
    return wrong(FRONT, f"a stream was held up (pieces: {pieces}, in {spread_s:.1f} s): {advice}")
