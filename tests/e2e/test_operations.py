"""docs/operations.md, done: every command of it, in its order, on a box with a real systemd and nginx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.box import Box, find_obstacle, run_box
from tests.e2e.front import NGINX
from tests.support.gateway import ROOT, wait_until

pytestmark = pytest.mark.real

PAGE = (ROOT / "docs" / "operations.md").read_text("utf-8")
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: In place of what nobody can do here, a login with an account; and the box has an authority of its own.
LOGIN = """
printf '{"OPENAI_API_KEY": "sk-of-a-box"}' > /tmp/auth.json
install -m 600 -o codex-gateway /tmp/auth.json /var/lib/codex-gateway/codex-home/auth.json
echo REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt >> /etc/codex-gateway/env
"""


def read_commands() -> dict[str, str]:
    """The commands below each heading of the page."""
    parts = re.split(r"^##+ (.*)$", PAGE, flags=re.MULTILINE)
    found = {
        title: "".join(FENCE.findall(text)) for title, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {title: text.replace("codex-gateway login\n", LOGIN) for title, text in found.items() if text}


COMMANDS = read_commands()
STEPS = [title for title in COMMANDS if re.match(r"\d", title)]
#: Of the first steps, for whoever comes later.
NAMES = "export DOMAIN=gateway.example.org EDITOR=true; KEY=$(cat /root/key); cd /opt/codex-gateway\n"
CHAT = """curl -fsS "https://$DOMAIN/v1/chat/completions" -H "authorization: Bearer $KEY" \
  -H 'content-type: application/json' -d '{"model":"demo","messages":[{"role":"user","content":"Hello!"}]}'"""
ASK_READY = "curl -fsS --retry 10 --retry-all-errors --retry-delay 1 http://127.0.0.1:11435/readyz"


# A server that is told to stop in the moment in which it starts takes its whole graceful time-out.
RESTART = f"systemctl restart codex-gateway; {ASK_READY}"
DEMO = "sed -i 's/^#PROXY_DEMO=true/PROXY_DEMO=true/' /etc/codex-gateway/env"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box on which the steps of the page were done; the model `demo` came back after the last."""
    obstacle = find_obstacle() or ("" if NGINX else "needs nginx")
    if obstacle:
        pytest.skip(obstacle)
    with run_box(tmp_path_factory.mktemp("box")) as running:
        steps = "".join(COMMANDS[title] for title in STEPS)
        running.run(f'set -x\n{steps}\necho "$KEY" > /root/key; {ASK_READY}', within_s=120)
        running.run(f"{DEMO}; {RESTART}")
        yield running


def read_status(box: Box) -> dict[str, str]:
    shown = box.run("systemctl show codex-gateway -p ActiveState,SubState,MainPID,NRestarts,Result").stdout
    return dict(line.split("=", 1) for line in shown.splitlines())


def test_it_is_served(box: Box) -> None:
    answer = box.run(f"{NAMES}{CHAT}").stdout
    assert "Hello from the gateway" in json.loads(answer)["choices"][0]["message"]["content"]


def test_installing_again_changes_nothing(box: Box) -> None:
    said = box.run(f"{NAMES}make -s install-service APPLY=1 DOMAIN=$DOMAIN").stdout
    assert said.rstrip().endswith("Nothing to do.")


@pytest.mark.parametrize("name", ["wsgi.py", "app/pages/index.html", "."])
def test_what_the_service_could_not_read_is_told(box: Box, name: str) -> None:
    """As a root with a strict umask clones or pulls it."""
    install = f"chmod go= {name}; make -s install-service APPLY=1"
    said = box.run(f"{NAMES}trap 'chmod go+rX {name}' EXIT; {install}", check=False)
    assert (said.returncode != 0, "chmod -R go+rX /opt/codex-gateway" in said.stdout) == (True, True)


def test_what_root_compiled_for_itself_is_compiled_for_the_service(box: Box) -> None:
    """As a root does who tries `make run` here before it is a service."""
    closed = "app/__pycache__ config/__pycache__ docs/__pycache__"
    box.run(f"{NAMES}mkdir -p {closed}; chmod 700 {closed}; umask 077; make -s install-service APPLY=1")
    box.run(f"{NAMES}runuser -u codex-gateway -- sh -c 'cat app/__pycache__/settings.*.pyc' > /dev/null")


def test_the_service_has_its_own_folder_and_no_rights(box: Box) -> None:
    assert box.run("stat -c '%U %a' /var/lib/codex-gateway").stdout == "codex-gateway 700\n"
    for pid in box.run("pgrep -u codex-gateway").stdout.split():
        status = box.run(f"cat /proc/{pid}/status").stdout
        assert re.search(r"^CapBnd:\t0+$", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)


def test_settings_and_keys_are_closed(box: Box) -> None:
    check_modes(box)


def check_modes(box: Box) -> None:
    modes = box.run("stat -c '%U:%G %a %n' /etc/codex-gateway /etc/codex-gateway/*").stdout
    assert modes.splitlines() == [
        "root:codex-gateway 750 /etc/codex-gateway",
        "root:root 600 /etc/codex-gateway/env",
        "root:codex-gateway 640 /etc/codex-gateway/keys.toml",
    ]


def test_a_process_that_grew_is_replaced_inside_the_sandbox(box: Box) -> None:
    """The service may look at its own processes in /proc, if at no others."""
    box.run(f"echo PROXY_PROCESS_MAX_RSS_MB=1 >> /etc/codex-gateway/env; {RESTART}")
    before = set(box.run("pgrep -x codex").stdout.split())
    box.run(f"{NAMES}{CHAT}")
    wait_until(lambda: before - set(box.run("pgrep -x codex", check=False).stdout.split()), 20)
    box.run(f"sed -i '/PROXY_PROCESS_MAX_RSS_MB=1/d' /etc/codex-gateway/env; {RESTART}")


def test_a_reload_keeps_the_server(box: Box) -> None:
    before = read_status(box)
    box.run("systemctl reload codex-gateway")
    box.run(f"{NAMES}{CHAT}")
    assert read_status(box) == before


def test_it_stops_in_time_and_leaves_nothing(box: Box) -> None:
    box.run("systemctl stop codex-gateway")
    status = read_status(box)
    assert (status["ActiveState"], status["Result"]) == ("inactive", "success")
    assert box.run("pgrep -u codex-gateway", check=False).stdout == ""
    refused = box.run(f"{NAMES}{CHAT.replace('-fsS', '-sSi')}").stdout
    assert "503" in refused.splitlines()[0]
    box.run(f"systemctl start codex-gateway; {ASK_READY}")


def test_a_server_that_dies_comes_back(box: Box) -> None:
    before = read_status(box)
    box.run("systemctl kill --kill-whom=main --signal=KILL codex-gateway")
    wait_until(lambda: read_status(box)["NRestarts"] != before["NRestarts"], 20)
    box.run(f"{ASK_READY}\n{NAMES}{CHAT}")


def ask_with(key: str, path: str) -> str:
    """A script that prints the status a key gets."""
    url = f"https://gateway.example.org{path}"
    return f"curl -so /dev/null -w '%{{http_code}}' {url} -H 'authorization: Bearer {key}'"


def test_keys_come_and_go_without_a_restart(box: Box) -> None:
    alice, ops = re.findall(r"^sk-cgw-\S+$", box.run(f"{NAMES}{COMMANDS['Keys']}").stdout, re.MULTILINE)
    assert box.run(ask_with(alice, "/v1/models")).stdout == "401"
    assert box.run(ask_with(ops, "/v1/usage")).stdout == "200"
    check_modes(box)


def test_what_was_stored_survives_a_restore(box: Box) -> None:
    asked = """curl -fsS https://$DOMAIN/v1/responses -H "authorization: Bearer $KEY" \
      -H 'content-type: application/json' -d '{"model":"demo","input":"Hello!"}'"""
    stored = json.loads(box.run(f"{NAMES}{asked}").stdout)["id"]
    # Nor does it change what is pasted next: an upgrade writes files that the service is to read.
    box.run(f"{NAMES}mask=$(umask)\n{COMMANDS['Backup']}[ $(umask) = $mask ]; {ASK_READY}")
    key = box.run("cat /root/key").stdout.strip()
    assert box.run(ask_with(key, f"/v1/responses/{stored}")).stdout == "200"


ALONE = {*STEPS, "Keys", "Backup"}


@pytest.mark.parametrize("title", [pytest.param(title, id=title) for title in COMMANDS if title not in ALONE])
def test_the_rest_of_the_page(box: Box, title: str) -> None:
    """In the page's order; the last sections take everything away again."""
    is_ready = f"systemctl is-active --quiet codex-gateway && {ASK_READY}"
    box.run(f"{is_ready} || true; set -x; {NAMES}{COMMANDS[title]}", within_s=120)
