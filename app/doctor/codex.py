"""What codex itself says: its login, its catalogue, its configuration."""

from __future__ import annotations

import time
from typing import Any

from app.backend import calls
from app.backend.account import read_account
from app.backend.home import AGENT_KEYS, BARE_MODEL
from app.backend.jsonrpc import Notification
from app.backend.login import LOG_IN
from app.backend.waiting import run_through
from app.doctor.findings import Finding, format_span, note, ok, wrong
from app.doctor.patient import CATALOGUE_ADVICE, Patient
from app.lib.account import API_KEY, CHATGPT, Account, AccountState
from app.lib.errors import BackendRefused

LOGIN, CATALOGUE, CONFIG = "login", "catalogue", "config"

KINDS = {CHATGPT: "ChatGPT", API_KEY: "an API key"}
#: Codex's shell has no sandbox then; it is switched off.
UNIMPORTANT = "bubblewrap"


def check_login(patient: Patient) -> list[Finding]:
    patient.prepared.get()
    left_s = measure_left(patient)
    if left_s is not None and patient.is_renewing:
        return [judge_renewal(left_s)]
    process = patient.process.get()
    try:
        answer = run_through(process.rpc.call(calls.READ_ACCOUNT))
    except BackendRefused as error:
        ends = "" if left_s is None else f", {describe_end(left_s)}"
        return [note(LOGIN, f"unknown{ends}: codex cannot tell, perhaps without network ({error.message})")]
    return [judge_account(read_account(answer), measure_left(patient), patient.settings.demo)]


def measure_left(patient: Patient) -> float | None:
    """How long the access token is good for; codex renews one that was about to end, when it is asked."""
    ends_s = patient.home.get().login.read().expires_at_s
    return None if ends_s is None else ends_s - time.time()


def judge_renewal(left_s: float) -> Finding:
    """What a token's end means while a gateway runs, whose place it is to renew it."""
    if left_s > 0:
        return note(
            LOGIN, f"{describe_end(left_s)}, which the running gateway is about to do: look again then"
        )
    return wrong(LOGIN, f"{describe_end(left_s)}, and the running gateway could not renew it: {LOG_IN}")


def judge_account(account: Account, left_s: float | None, is_demo: bool) -> Finding:
    if account.state is AccountState.IN:
        return judge_known(account, left_s)
    if not account.needs_login:
        return ok(LOGIN, "none is needed by the configured model provider")
    if is_demo:
        return note(LOGIN, f"nobody is logged in, so only the model `demo` answers; for others {LOG_IN}")
    return wrong(LOGIN, f"nobody is logged in: {LOG_IN}")


def judge_known(account: Account, left_s: float | None) -> Finding:
    kind = account.kind or "an account of no known kind"
    known = KINDS.get(kind, kind) + (f" ({account.plan})" if account.plan else "")
    if left_s is None:
        return ok(LOGIN, known)
    text = f"{known}, {describe_end(left_s)}"
    return ok(LOGIN, text) if left_s > 0 else wrong(LOGIN, f"{text}, and codex could not renew it: {LOG_IN}")


def describe_end(left_s: float) -> str:
    if left_s > 0:
        return f"its token is to be renewed within {format_span(left_s)}"
    return f"its token ended {format_span(-left_s)} ago"


def check_catalogue(patient: Patient) -> list[Finding]:
    if not patient.prepared.get():
        return [
            wrong(
                CATALOGUE,
                "the running gateway has another configuration or catalogue than these settings and this "
                "codex give: restart it, or give its settings to the doctor",
            )
        ]
    catalogue = patient.catalogue.get()
    agents = {slug: find_agent(model) for slug, model in catalogue.models.items()}
    faults = [f"{slug} is not bare ({', '.join(kept)})" for slug, kept in agents.items() if kept]
    lacking = {model.target for model in patient.settings.extra_models} - catalogue.models.keys()
    faults += [f"it lacks {target}, which PROXY_MODELS names" for target in sorted(lacking)]
    if faults:
        return [wrong(CATALOGUE, f"{catalogue.path}: {'; '.join(faults)}: {CATALOGUE_ADVICE}")]
    return [ok(CATALOGUE, f"{len(agents)} models, each bare ({catalogue.path})")]


def find_agent(model: dict[str, Any]) -> list[str]:
    """What of a catalogue entry would make a coding agent of the model."""
    kept = [key for key in AGENT_KEYS if key in model]
    return kept + [key for key, value in BARE_MODEL.items() if model.get(key) != value]


def check_config(patient: Patient) -> list[Finding]:
    """Codex only warns of a configuration it cannot use; then a tool or a text may be switched on."""
    process = patient.process.get()
    warnings = [
        describe_warning(message.params)
        for message in process.rpc.receive()
        if isinstance(message, Notification) and message.method == "configWarning"
    ]
    faults = [text for text in warnings if UNIMPORTANT not in text]
    if faults:
        return [wrong(CONFIG, f"{text}: {patient.advice}") for text in faults]
    return [ok(CONFIG, f"codex takes all of {patient.home.get().path / 'config.toml'}")]


def describe_warning(params: dict[str, Any]) -> str:
    parts = [str(params[key]).strip().rstrip(".:") for key in ("summary", "details") if params.get(key)]
    return ". ".join(parts)
