"""What may go wrong while somebody logs in, on the stand-in: every login ends, and nothing of it is left."""

import json
import logging
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from app.backend.account_desk import PACES, AccountDesk, Paces
from app.backend.codex import CodexBackend
from app.backend.drain import Drain
from app.backend.home import CodexHome
from app.backend.lending import borrow
from app.backend.line import Wish
from app.backend.pool import Pool
from app.lib.account import Account, AccountReport, AccountState, LoginCode, LoginDone, LoginFailed
from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.errors import (
    BackendRefused,
    BackendTimeout,
    ClientGone,
    GatewayBusy,
    GatewayStopping,
    ProcessFailed,
    ProxyError,
)
from app.settings import Settings
from tests.support.gateway import wait_until, write_stand_in
from tests.support.processes import find_children
from tests.support.stand_in_account import USER_CODE, VERIFICATION_URL
from tests.support.visitor import BOUND_S, Visitor, read_code, read_end, read_step, run_backend

pytestmark = pytest.mark.real

OUT = Account(AccountState.OUT)
IN = Account(AccountState.IN, "chatgpt", "plus", "someone@example.org")
UNKNOWN = Account(AccountState.UNKNOWN)
#: What the stand-in tells of a ChatGPT account.
LIMITS = AccountLimits(None, LimitWindow(12, 300, 1_800_000_000))
HELD = {"PROXY_MAX_PROCESSES": "1"}
IMPATIENT = Paces(patience_s=0.3, fresh_s=0)
GONE = LoginFailed("The client closed the connection.")
STOPPING = LoginFailed("The gateway is stopping; log in again in a moment.")
REPLACED = LoginFailed("Another login was begun, which ends this one.")


class Scene:
    """A stand-in whose logins end as `end` says."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder

    def end(self, how: str) -> None:
        whole = self._folder / "whole"
        whole.write_text(how)
        whole.rename(self._folder / "login")

    def count(self, method: str) -> int:
        """How often codex was called this."""
        path = self._folder / "pipe.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return sum(json.loads(line)["msg"].get("method") == method for line in lines)


class Box(Scene):
    """With a backend on it."""

    def __init__(self, backend: CodexBackend, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.backend = backend

    def settle(self) -> None:
        """Until nobody owns a process."""
        wait_until(lambda: self.backend.census().owned == self.backend.census().ending == 0)


class Counter(Scene):
    """With a pool on it that nobody keeps, and the desk."""

    def __init__(self, settings: Settings, paces: Paces, folder: pathlib.Path) -> None:
        super().__init__(folder)
        self.home = CodexHome(settings)
        self.home.prepare()
        self.pool = Pool(self.home, settings)
        self.desk = AccountDesk(self.pool, self.home, Drain(), paces)

    def __enter__(self) -> "Counter":
        return self

    def __exit__(self, *error: object) -> None:
        self.pool.close()
        assert self.pool.census().owned == 0

    def change_login(self, session: str) -> None:
        """As somebody else does it, on this box."""
        login = {"auth_mode": "chatgpt", "tokens": {"account_id": session}}
        whole = self.home.path / "whole"
        whole.write_text(json.dumps(login))
        whole.rename(self.home.path / "auth.json")

    def read(self) -> AccountReport:
        return self.desk.read_account(Visitor())

    def settle(self) -> None:
        """Until nobody owns a process, or waits for one."""
        wait_until(lambda: (census := self.pool.census()).owned == census.ending == census.queued == 0)


StartBox = Callable[..., Box]
StartCounter = Callable[..., Counter]


def write_binary(folder: pathlib.Path, **faults: Any) -> dict[str, str]:
    """The settings of a gateway on a stand-in that people can log in to."""
    told = {"login": str(folder / "login"), "log": str(folder / "pipe.jsonl")}
    binary = write_stand_in(folder, **(told | faults))
    return {"PATH": os.environ["PATH"], "CODEX_BIN": binary, "PROXY_STATE_DIR": str(folder / "state")}


@pytest.fixture
def start_box(tmp_path: pathlib.Path) -> Iterator[StartBox]:
    with ExitStack() as stack:

        def start(faults: dict[str, Any] | None = None, **environ: str) -> Box:
            told = write_binary(tmp_path, **(faults or {}))
            return Box(stack.enter_context(run_backend(**(told | environ))), tmp_path)

        yield start


@pytest.fixture
def start_counter(tmp_path: pathlib.Path) -> Iterator[StartCounter]:
    with ExitStack() as stack:

        def start(faults: dict[str, Any] | None = None, paces: Paces = PACES, **environ: str) -> Counter:
            told = write_binary(tmp_path, **(faults or {})) | {"PROXY_WARM_PROCESSES": "0"}
            return stack.enter_context(Counter(Settings.from_env(told | environ), paces, tmp_path))

        yield start


@pytest.mark.parametrize(
    ("how", "expected", "account"),
    [
        pytest.param("done", LoginDone(), IN, id="entered"),
        pytest.param("Too late.", LoginFailed("Too late."), OUT, id="expired"),
        pytest.param("No, url: http://10.0.0.1/x", LoginFailed("No"), OUT, id="an-address"),
        pytest.param("No eyJhbGciOiJIUzI1.e30.s", LoginFailed("No [redacted]"), OUT, id="a-token"),
        pytest.param("die", LoginFailed("The codex process ended."), OUT, id="death"),
    ],
)
def test_how_a_login_ends(
    start_box: StartBox, how: str, expected: LoginDone | LoginFailed, account: Account
) -> None:
    box = start_box()
    steps = box.backend.log_in(Visitor())
    assert read_code(steps) == LoginCode(VERIFICATION_URL, USER_CODE)
    box.end(how)
    assert read_end(steps) == expected
    assert box.backend.account(Visitor()).account == account
    box.settle()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param("die", ProcessFailed, id="death"),
        pytest.param("garbage", ProcessFailed, id="garbage"),
        pytest.param("hang", BackendTimeout, id="silence"),
    ],
)
def test_what_goes_wrong_before_there_is_a_code_is_raised(
    start_box: StartBox, fault: str, expected: type[ProxyError]
) -> None:
    box = start_box({"on": {"account/login/start": fault}}, PROXY_RPC_TIMEOUT_MS="400")
    with pytest.raises(expected):
        read_step(box.backend.log_in(Visitor()))
    assert box.backend.account(Visitor()).account == OUT
    box.settle()


def test_a_login_that_codex_refuses(start_box: StartBox) -> None:
    box = start_box({"on": {"account/login/start": "error"}})
    pids = find_children(os.getpid())
    end = read_end(box.backend.log_in(Visitor()))
    assert end == LoginFailed("Codex refused account/login/start: the stand-in was told to fail here")
    box.settle()
    assert find_children(os.getpid()) >= pids


def test_a_login_of_an_unknown_shape(start_box: StartBox) -> None:
    box = start_box({"verification_url": "javascript:alert(1)"})
    with pytest.raises(BackendRefused):
        read_step(box.backend.log_in(Visitor()))
    box.settle()


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(None, id="taken"),
        pytest.param("error", id="refused"),
        pytest.param("die", id="death"),
    ],
)
def test_a_login_that_is_closed_is_cancelled(start_box: StartBox, fault: str | None) -> None:
    box = start_box({"on": {"account/login/cancel": fault}} if fault else None)
    steps = box.backend.log_in(Visitor())
    read_code(steps)
    steps.close()
    wait_until(lambda: box.count("account/login/cancel") == 1)
    box.settle()
    box.end("done")
    assert box.backend.account(Visitor()).account == OUT


def test_a_login_that_is_closed_before_its_code(start_box: StartBox) -> None:
    box = start_box({"on": {"account/login/start": "hang"}}, PROXY_SSE_KEEPALIVE_MS="400")
    steps = box.backend.log_in(Visitor())
    wait_until(lambda: next(steps) is None and box.count("account/login/start"))
    steps.close()
    box.settle()


def test_one_that_was_never_asked_for_anything_holds_nothing(start_box: StartBox) -> None:
    box = start_box()
    box.backend.log_in(Visitor()).close()
    assert box.backend.census().owned == 0


def test_the_client_leaves(start_box: StartBox) -> None:
    box, visitor = start_box(), Visitor()
    steps = box.backend.log_in(visitor)
    read_code(steps)
    visitor.left = True
    assert read_end(steps) == GONE
    wait_until(lambda: box.count("account/login/cancel") == 1)


def test_the_client_leaves_before_the_code(start_box: StartBox) -> None:
    box, visitor = start_box({"on": {"account/login/start": "hang"}}), Visitor()
    visitor.left = True
    with pytest.raises(ClientGone):
        read_step(box.backend.log_in(visitor))
    box.settle()


def test_a_worker_that_stops_ends_it(start_box: StartBox) -> None:
    box = start_box()
    steps = box.backend.log_in(Visitor())
    read_code(steps)
    box.backend.drain(time.monotonic() + 60)
    assert read_end(steps) == STOPPING
    wait_until(lambda: box.count("account/login/cancel") == 1)


def test_a_worker_that_stops_begins_none(start_box: StartBox) -> None:
    box = start_box({"on": {"account/login/start": "hang"}})
    box.backend.drain(time.monotonic() + 60)
    with pytest.raises(GatewayStopping):
        read_step(box.backend.log_in(Visitor()))


def test_a_pool_that_closes_ends_it(start_box: StartBox) -> None:
    box = start_box()
    steps = box.backend.log_in(Visitor())
    read_code(steps)
    with ThreadPoolExecutor(1) as executor:
        closing = executor.submit(box.backend.close)
        assert isinstance(read_end(steps), LoginFailed)
        closing.result(10)


def test_a_code_that_nobody_enters(start_counter: StartCounter) -> None:
    counter = start_counter(paces=Paces(login_timeout_s=1.5))
    steps = counter.desk.log_in(Visitor())
    read_code(steps)
    assert read_end(steps) == LoginFailed("The code was not entered in time.")
    counter.settle()


def test_a_login_takes_no_more_than_its_process(start_box: StartBox) -> None:
    """Neither the right to start turns, nor the account from those who ask."""
    box = start_box(PROXY_MAX_STARTING="1", PROXY_MAX_PROCESSES="2")
    steps = box.backend.log_in(Visitor())
    read_code(steps)
    assert box.backend.account(Visitor()).account == OUT
    steps.close()


def test_every_process_is_taken(start_box: StartBox) -> None:
    box = start_box(PROXY_MAX_PROCESSES="1")
    steps = box.backend.log_in(Visitor())
    read_code(steps)
    began_s = time.monotonic()
    assert box.backend.account(Visitor()).account == UNKNOWN
    assert time.monotonic() - began_s < 4
    box.end("done")
    assert read_end(steps) == LoginDone()
    wait_until(lambda: box.backend.account(Visitor()).account == IN)


def test_the_later_login_is_the_one(start_box: StartBox) -> None:
    """A reload: the first has the process, and the gateway has not noticed that its page is gone."""
    box = start_box(PROXY_MAX_PROCESSES="1")
    first, second = box.backend.log_in(Visitor()), box.backend.log_in(Visitor())
    read_code(first)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(read_code, second)
        assert read_end(first) == REPLACED
        assert waiting.result(BOUND_S) == LoginCode(VERIFICATION_URL, USER_CODE)
    box.end("done")
    assert read_end(second) == LoginDone()
    assert box.count("account/login/cancel") == 1


def test_there_is_one_login_at_a_time(start_box: StartBox) -> None:
    """However fast they follow each other, and however many processes there are."""
    box = start_box(PROXY_MAX_PROCESSES="8")
    first = box.backend.log_in(Visitor())
    read_code(first)
    later = [box.backend.log_in(Visitor()) for _ in range(6)]
    for steps in later:
        assert next(steps) is None
    assert (box.backend.census().owned, box.count("account/login/start")) == (1, 1)
    for steps in later[:-1]:
        with pytest.raises(BackendRefused) as caught:
            read_step(steps)
        assert (caught.value.code, caught.value.may_retry) == ("login_replaced", False)
    first.close()
    read_code(later[-1])
    assert box.count("account/login/start") == 2
    later[-1].close()


def test_a_login_that_does_not_let_go(start_box: StartBox) -> None:
    box = start_box()
    first = box.backend.log_in(Visitor())
    read_code(first)
    with pytest.raises(GatewayBusy, match="Another login is under way"):
        read_step(box.backend.log_in(Visitor(patience_s=0.1)))
    first.close()
    again = box.backend.log_in(Visitor())
    read_code(again)
    again.close()


def test_codex_is_slow_to_tell_its_account(start_box: StartBox) -> None:
    """It is not known in time, is no less well for that, and is known soon."""
    box = start_box({"on": {"account/read": "late:2.4"}})
    pids = find_children(os.getpid())
    assert box.backend.account(Visitor()).account == UNKNOWN
    wait_until(lambda: box.backend.account(Visitor()).account == OUT)
    assert find_children(os.getpid()) >= pids


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param({}, LIMITS, id="told"),
        pytest.param({"limits": {}}, None, id="nothing-told"),
        pytest.param({"on": {"account/rateLimits/read": "error"}}, None, id="refused"),
        pytest.param({"on": {"account/rateLimits/read": "die"}}, None, id="death"),
        pytest.param({"on": {"account/rateLimits/read": "hang"}}, None, id="silence"),
    ],
)
def test_limits(start_box: StartBox, fault: dict[str, Any], expected: AccountLimits | None) -> None:
    box = start_box({"account": {"type": "chatgpt", "planType": "plus"}, "login": None} | fault)
    began_s = time.monotonic()
    told = box.backend.account(Visitor())
    assert time.monotonic() - began_s < 2.9
    account = Account(AccountState.IN, "chatgpt", "plus")
    told_at_s = pytest.approx(time.time(), abs=10) if expected else None
    assert (told.account, told.limits, told.told_at_s) == (account, expected, told_at_s)


def test_limits_that_never_come(start_counter: StartCounter) -> None:
    """They cost a process, once in a while: it is no failure of the process, and the account is known."""
    paces = Paces(BOUND_S, fresh_s=0, limits_timeout_s=0.3)
    counter = start_counter({"on": {"account/rateLimits/read": "hang"}}, paces)
    counter.change_login("1")
    for _ in range(3):
        assert counter.read() == AccountReport(IN)
        counter.settle()
    assert (counter.count("account/rateLimits/read"), counter.pool.census().process_starts) == (1, 2)
    assert counter.pool.is_ready
    counter.change_login("2")  # whose limits may come
    assert counter.read() == AccountReport(IN)
    counter.settle()
    assert counter.count("account/rateLimits/read") == 2


def test_after_a_while_they_are_asked_for_again(start_counter: StartCounter) -> None:
    paces = Paces(BOUND_S, fresh_s=0, limits_timeout_s=0.3, limits_pause_s=0)
    counter = start_counter({"on": {"account/rateLimits/read": "hang"}}, paces)
    counter.change_login("1")
    for asked in (1, 2):
        assert counter.read() == AccountReport(IN)
        counter.settle()
        assert counter.count("account/rateLimits/read") == asked


def test_what_is_known_stays_true(start_counter: StartCounter) -> None:
    """While every process is busy, for this login; of another one nothing is known yet."""
    counter = start_counter(paces=IMPATIENT, **HELD)
    counter.change_login("1")
    known = wait_until(lambda: (told := counter.read()).limits and told)
    assert known == AccountReport(IN, LIMITS, known.told_at_s)
    counter.settle()
    with borrow(counter.pool, Wish(1)):
        assert [counter.read(), counter.read()] == [known, known]
        counter.change_login("2")
        assert counter.read() == AccountReport(UNKNOWN)
    later = wait_until(lambda: (told := counter.read()).limits and told)
    assert (later.account, later.limits) == (IN, LIMITS)


def test_a_question_lets_requests_pass(start_counter: StartCounter) -> None:
    """Those too that came after it."""
    counter = start_counter(paces=IMPATIENT, **HELD)
    counter.change_login("1")

    def serve() -> int:
        with borrow(counter.pool, Wish(BOUND_S)):
            return counter.count("account/read")

    with ThreadPoolExecutor(1) as executor:
        with borrow(counter.pool, Wish(1)):
            asked = counter.count("account/read")
            assert counter.read() == AccountReport(UNKNOWN)
            request = executor.submit(serve)
            wait_until(lambda: counter.pool.census().queued == 2)
        assert request.result(BOUND_S) == asked
    wait_until(lambda: counter.read().account == IN)


def test_a_question_that_outlived_its_login(start_counter: StartCounter) -> None:
    """Whoever waits for it is not told of the next one; that one is asked about by itself."""
    counter = start_counter(paces=Paces(BOUND_S, fresh_s=0), **HELD)
    with ThreadPoolExecutor(1) as executor:
        with borrow(counter.pool, Wish(1)):
            waiting = executor.submit(counter.read)
            wait_until(lambda: counter.pool.census().queued == 1)
            counter.change_login("1")
        assert waiting.result(BOUND_S) == AccountReport(UNKNOWN)
    assert counter.read().account == IN


def test_a_key_has_no_limits(start_box: StartBox) -> None:
    box = start_box({"account": {"type": "apiKey"}, "login": None})
    assert box.backend.account(Visitor()) == AccountReport(Account(AccountState.IN, "api_key"))
    assert box.count("account/rateLimits/read") == 0


def test_many_who_ask_at_once_are_one_question(start_box: StartBox) -> None:
    box = start_box({"account": {"type": "chatgpt"}, "login": None})
    with ThreadPoolExecutor(8) as executor:
        told = list(executor.map(lambda _: box.backend.account(Visitor()), range(8)))
    assert [(each.account.state, each.limits) for each in told] == [(AccountState.IN, LIMITS)] * 8
    assert box.count("account/rateLimits/read") == 1


def test_who_asks_leaves(start_box: StartBox) -> None:
    box, visitor = start_box({"on": {"account/read": "late:0.7"}}), Visitor()
    visitor.left = True
    with pytest.raises(ClientGone):
        box.backend.account(visitor)


def test_a_logout_that_codex_refuses(start_box: StartBox) -> None:
    box = start_box({"on": {"account/logout": "error"}})
    box.end("done")
    steps = box.backend.log_in(Visitor())
    read_code(steps)
    assert read_end(steps) == LoginDone()
    with pytest.raises(BackendRefused):
        box.backend.log_out(Visitor())
    assert box.backend.account(Visitor()).account == IN


def test_no_code_is_logged(start_box: StartBox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    loggers = logging.getLogger("app")
    loggers.addHandler(caplog.handler)
    try:
        box = start_box()
        for how in ("done", "cancelled", "die"):
            steps = box.backend.log_in(Visitor())
            read_code(steps)
            if how == "cancelled":
                steps.close()
            else:
                box.end(how)
                read_end(steps)
        box.settle()
    finally:
        loggers.removeHandler(caplog.handler)
    told = " ".join(str(record.__dict__) for record in caplog.records)
    assert (USER_CODE in told, told.count("a login by device code has ended") > 0) == (False, True)
