"""What codex says of its account and of logins."""

from __future__ import annotations

from typing import Any

import pytest

from app.backend.account import (
    read_account,
    read_account_limits,
    read_code,
    read_login_end,
    read_version,
)
from app.backend.jsonrpc import Notification
from app.lib.account import Account, AccountState, LoginCode, LoginDone, LoginEnd, LoginFailed
from app.lib.account_limits import AccountLimits, LimitWindow
from app.lib.errors import BackendRefused

CHATGPT = {"type": "chatgpt", "email": "a@example.org", "planType": "plus"}


@pytest.mark.parametrize(
    ("account", "needs_one", "expected"),
    [
        pytest.param(None, True, Account(AccountState.OUT), id="out"),
        pytest.param(None, False, Account(AccountState.UNNEEDED), id="unneeded"),
        pytest.param(None, None, Account(AccountState.UNNEEDED), id="nothing-said"),
        pytest.param(
            CHATGPT, True, Account(AccountState.IN, "chatgpt", "plus", "a@example.org"), id="chatgpt"
        ),
        pytest.param(
            CHATGPT, False, Account(AccountState.IN, "chatgpt", "plus", "a@example.org"), id="in-all-the-same"
        ),
        pytest.param(
            CHATGPT | {"planType": "unknown", "email": None},
            True,
            Account(AccountState.IN, "chatgpt"),
            id="a-plan-without-a-name",
        ),
        pytest.param({"type": "apiKey"}, True, Account(AccountState.IN, "api_key"), id="a-key"),
        pytest.param(
            {"type": "amazonBedrock", "usesCodexManagedCredentials": True},
            True,
            Account(AccountState.IN, "amazonBedrock"),
            id="another",
        ),
        pytest.param({}, True, Account(AccountState.IN), id="of-no-kind"),
        pytest.param("chatgpt", True, Account(AccountState.IN), id="no-object"),
        pytest.param({"type": 1, "planType": 2}, True, Account(AccountState.IN), id="no-texts"),
    ],
)
def test_read_account(account: Any, needs_one: bool | None, expected: Account) -> None:
    assert read_account({"account": account, "requiresOpenaiAuth": needs_one}) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(
            {
                "rateLimits": {
                    "planType": "plus",
                    "primary": {"usedPercent": 12, "windowDurationMins": 300, "resetsAt": 1_800_000_000},
                    "secondary": None,
                }
            },
            AccountLimits("plus", LimitWindow(12, 300, 1_800_000_000)),
            id="told",
        ),
        pytest.param({"rateLimits": {"primary": None}}, None, id="nothing-in-it"),
        pytest.param({"rateLimits": []}, None, id="no-object"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_read_account_limits(answer: dict[str, Any], expected: AccountLimits | None) -> None:
    assert read_account_limits(answer) == expected


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        pytest.param("codex_gateway/0.163.0 (Debian 12.0.0; x86_64) unknown (x; 0.1.0)", "0.163.0", id="all"),
        pytest.param("codex_gateway/0.164.0-alpha.2", "0.164.0-alpha.2", id="ahead"),
        pytest.param("codex", None, id="no-number"),
        pytest.param("my codex/0.163.0", None, id="another-form"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_read_version(agent: str | None, expected: str | None) -> None:
    assert read_version({"userAgent": agent}) == expected


CODE = {"loginId": "1", "verificationUrl": "https://auth.example.org/device", "userCode": "ABCD-EFGH"}


def test_read_code() -> None:
    expected = "1", LoginCode("https://auth.example.org/device", "ABCD-EFGH")
    assert read_code({"type": "chatgptDeviceCode"} | CODE) == expected


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="nothing"),
        pytest.param(CODE | {"loginId": None}, id="no-id"),
        pytest.param(CODE | {"verificationUrl": "javascript:alert(1)"}, id="no-page"),
    ],
)
def test_a_code_of_an_unknown_shape(answer: dict[str, Any]) -> None:
    with pytest.raises(BackendRefused):
        read_code(answer)


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        pytest.param("completed", {"loginId": "1", "success": True}, LoginDone(), id="done"),
        pytest.param(
            "completed", {"loginId": "1", "success": False, "error": "No."}, LoginFailed("No."), id="failed"
        ),
        pytest.param(
            "completed", {"loginId": "1"}, LoginFailed("Codex did not say why."), id="without-a-word"
        ),
        pytest.param(
            "completed",
            {"loginId": "1", "error": "eyJhbGciOiJIUzI1NiJ9.e30, url: https://10.0.0.1/token"},
            LoginFailed("[redacted]"),
            id="a-secret-and-an-address",
        ),
        pytest.param("completed", {"loginId": "2", "success": True}, None, id="another-login"),
        pytest.param("completed", {"success": True}, None, id="of-no-login"),
        pytest.param("started", {"loginId": "1", "success": True}, None, id="something-else"),
    ],
)
def test_read_login_end(method: str, params: dict[str, Any], expected: LoginEnd | None) -> None:
    assert read_login_end(Notification(f"account/login/{method}", params), "1") == expected
