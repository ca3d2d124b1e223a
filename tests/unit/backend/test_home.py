"""The gateway's CODEX_HOME, made with the real binary."""

from __future__ import annotations

import json
import os
import pathlib
import tomllib
from typing import Any

import codex_cli_bin
import pytest

from app.backend.home import (
    AGENT_KEYS,
    BARE_CONFIG,
    BARE_MODEL,
    YOUNG_S,
    CodexHome,
    build_catalogue,
    find_binary,
    is_abandoned,
    merge,
    read_overrides,
    with_direct_loopback,
    write_atomically,
)
from app.lib.models import parse_model
from app.settings import Settings, SettingsError

OLD_S = 1_000_000_000


def a_model(slug: str, **more: Any) -> dict[str, Any]:
    return {"slug": slug, "display_name": slug.upper(), "visibility": "list", **more}


def bare(slug: str, **more: Any) -> dict[str, Any]:
    return a_model(slug) | BARE_MODEL | more


@pytest.mark.parametrize(
    ("bundled", "extra", "expected"),
    [
        pytest.param([a_model("one")], (), [bare("one")], id="one"),
        pytest.param(
            [
                a_model(
                    "one", **dict.fromkeys(AGENT_KEYS, "agent"), base_instructions="21 kB", context_window=1
                )
            ],
            (),
            [bare("one")],
            id="everything-of-an-agent-is-gone",
        ),
        pytest.param([a_model("one", other=1)], (), [bare("one", other=1)], id="the-rest-stays"),
        pytest.param(
            [a_model("one"), a_model("two", other=2)],
            ("mine", "one", "mine"),
            [
                bare("one"),
                bare("two", other=2),
                bare("two", other=2)
                | {"slug": "mine", "display_name": "mine", "description": "mine", "visibility": "hide"},
            ],
            id="an-unknown-id-gets-one-entry",
        ),
    ],
)
def test_build_catalogue(
    bundled: list[dict[str, Any]], extra: tuple[str, ...], expected: list[dict[str, Any]]
) -> None:
    assert json.loads(build_catalogue(bundled, extra)) == {"models": expected}


@pytest.mark.parametrize(
    ("base", "over", "expected"),
    [
        pytest.param({"a": 1}, {}, {"a": 1}, id="nothing-over"),
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="new-key"),
        pytest.param({"a": 1}, {"a": 2}, {"a": 2}, id="over-wins"),
        pytest.param(
            {"t": {"a": 1, "u": {"b": 2}}},
            {"t": {"u": {"c": 3}}},
            {"t": {"a": 1, "u": {"b": 2, "c": 3}}},
            id="table-by-table",
        ),
        pytest.param({"t": {"a": 1}}, {"t": 2}, {"t": 2}, id="a-value-over-a-table"),
        pytest.param({"t": 2}, {"t": {"a": 1}}, {"t": {"a": 1}}, id="a-table-over-a-value"),
        pytest.param({"l": [1, 2]}, {"l": [3]}, {"l": [3]}, id="lists-are-replaced"),
    ],
)
def test_merge(base: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]) -> None:
    before = json.dumps(base)
    assert (merge(base, over), json.dumps(base)) == (expected, before)


@pytest.fixture
def state_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "some" / "state"


def read_config(home: CodexHome) -> dict[str, Any]:
    return tomllib.loads((home.path / "config.toml").read_text("utf-8"))


def read_slugs(home: CodexHome) -> list[str]:
    return [model["slug"] for model in json.loads((home.path / "models.json").read_bytes())["models"]]


@pytest.mark.real
def test_prepare_makes_a_bare_home(state_dir: pathlib.Path) -> None:
    home = CodexHome(
        Settings(state_dir=state_dir, extra_models=(parse_model("fast=my-model:low"),), demo=True)
    )
    home.prepare()
    models = json.loads((home.path / "models.json").read_bytes())["models"]
    assert read_config(home) == BARE_CONFIG | {"model_catalog_json": str(home.path / "models.json")}
    assert read_slugs(home)[-2:] == ["my-model", "demo"]
    assert [model for model in models if set(AGENT_KEYS) & set(model)] == []
    assert [{key: model[key] for key in BARE_MODEL} for model in models] == [BARE_MODEL] * len(models)


@pytest.mark.real
def test_nobody_else_may_look(state_dir: pathlib.Path) -> None:
    state_dir.mkdir(mode=0o755, parents=True)
    home = CodexHome(Settings(state_dir=state_dir))
    home.prepare()
    folder, stderr = home.make_process_folder()
    stderr.close()
    modes = {
        path.name: oct(path.stat().st_mode & 0o777)
        for path in (state_dir, home.path, home.processes, home.work, folder)
    }
    files = {path.name: oct(path.stat().st_mode & 0o777) for path in home.path.iterdir()}
    assert modes == dict.fromkeys(("state", "codex-home", "processes", "empty", folder.name), "0o700")
    assert {name: files[name] for name in ("config.toml", "models.json", "models.stamp")} == dict.fromkeys(
        ("config.toml", "models.json", "models.stamp"), "0o600"
    )


@pytest.mark.real
def test_the_catalogue_is_made_anew_when_the_models_change(state_dir: pathlib.Path) -> None:
    CodexHome(Settings(state_dir=state_dir)).prepare()
    home = CodexHome(Settings(state_dir=state_dir, extra_models=(parse_model("mine"),)))
    home.prepare()
    assert read_slugs(home)[-1] == "mine"


@pytest.mark.real
def test_the_catalogue_is_kept_when_nothing_changed(state_dir: pathlib.Path) -> None:
    home = CodexHome(Settings(state_dir=state_dir))
    home.prepare()
    (home.path / "models.json").write_bytes(b"kept")
    home.prepare()
    assert (home.path / "models.json").read_bytes() == b"kept"


@pytest.mark.real
def test_an_operators_file_is_laid_over(state_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "over.toml"
    file.write_text('model = "local"\nweb_search = "live"\n[features]\ngoals = true\n')
    home = CodexHome(Settings(state_dir=state_dir, codex_config_file=str(file)))
    home.prepare()
    expected = BARE_CONFIG | {
        "model_catalog_json": str(home.path / "models.json"),
        "model": "local",
        "web_search": "live",
        "features": BARE_CONFIG["features"] | {"goals": True},
    }
    assert (read_config(home), home.configured_models(), read_slugs(home)[-1]) == (
        expected,
        ("local",),
        "local",
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(None, "No such file or directory", id="missing"),
        pytest.param(b"a = = 1", "Invalid value", id="not-toml"),
        pytest.param(b"a = '\xff'", "can't decode byte 0xff", id="not-utf-8"),
    ],
)
def test_an_operators_file_that_cannot_be_read(
    tmp_path: pathlib.Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "over.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=f"^PROXY_CODEX_CONFIG_FILE={file}: .*{complaint}"):
        read_overrides(str(file))


def test_no_operators_file(state_dir: pathlib.Path) -> None:
    assert (read_overrides(""), CodexHome(Settings(state_dir=state_dir)).configured_models()) == ({}, ())


@pytest.mark.parametrize(
    ("codex_bin", "expected"),
    [
        pytest.param("", str(codex_cli_bin.bundled_codex_path()), id="the-installed-one"),
        pytest.param("/opt/codex", "/opt/codex", id="the-operator's"),
        pytest.param("~/codex", str(pathlib.Path.home() / "codex"), id="at-home"),
    ],
)
def test_find_binary(codex_bin: str, expected: str) -> None:
    assert find_binary(Settings(codex_bin=codex_bin)) == pathlib.Path(expected)


def test_a_process_inherits_nothing_of_ours(state_dir: pathlib.Path) -> None:
    state_dir.parent.mkdir(parents=True, exist_ok=True)
    provider = state_dir.parent / "provider.toml"
    provider.write_text(
        '[model_providers.own]\nenv_key = "OWN_KEY"\nenv_http_headers = { team = "OWN_TEAM" }\n'
    )
    environ = {"PATH": "/bin", "no_proxy": "x", "OWN_KEY": "k", "OWN_TEAM": "t", "PROXY_API_KEY": "secret"}
    home = CodexHome(Settings(state_dir=state_dir, codex_config_file=str(provider), environ=environ))
    assert home.environment(pathlib.Path("/own")) == {
        "PATH": "/bin",
        "no_proxy": "x,localhost,127.0.0.1,::1",
        "NO_PROXY": "x,localhost,127.0.0.1,::1",
        "OWN_KEY": "k",
        "OWN_TEAM": "t",
        "HOME": str(state_dir / "codex-home"),
        "CODEX_HOME": str(state_dir / "codex-home"),
        "CODEX_SQLITE_HOME": "/own",
        "RUST_LOG": "error",
    }


@pytest.mark.parametrize(
    ("environ", "added"),
    [
        pytest.param({}, {}, id="no-proxy-at-all"),
        pytest.param(
            {"HTTPS_PROXY": "http://proxy:3128"},
            dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
            id="a-proxy",
        ),
        pytest.param(
            {"http_proxy": "http://proxy:3128", "NO_PROXY": ".lan", "no_proxy": ".home"},
            dict.fromkeys(("NO_PROXY", "no_proxy"), ".lan,.home,localhost,127.0.0.1,::1"),
            id="and-what-goes-around-it",
        ),
    ],
)
def test_loopback_goes_around_a_proxy(environ: dict[str, str], added: dict[str, str]) -> None:
    assert with_direct_loopback(environ) == environ | added


def test_write_atomically(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and longer")
    write_atomically(path, b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file": b"new"}


def make_old(folder: pathlib.Path) -> None:
    os.utime(folder, (OLD_S, OLD_S))


@pytest.mark.parametrize(
    ("held", "old", "expected"),
    [
        pytest.param(True, True, False, id="its-process-lives"),
        pytest.param(True, False, False, id="its-process-lives-and-is-young"),
        pytest.param(False, True, True, id="its-process-is-gone"),
        pytest.param(False, False, False, id="too-young-to-tell"),
    ],
)
def test_is_abandoned(state_dir: pathlib.Path, held: bool, old: bool, expected: bool) -> None:
    home = CodexHome(Settings(state_dir=state_dir))
    home.processes.mkdir(parents=True)
    folder, stderr = home.make_process_folder()
    with stderr:
        if old:
            make_old(folder)
        if not held:
            stderr.close()
        assert is_abandoned(folder) is expected


def test_a_folder_whose_process_never_began_is_abandoned_after_a_minute(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "process-1"
    folder.mkdir()
    young = is_abandoned(folder)
    made_s = folder.stat().st_mtime
    os.utime(folder, (made_s - YOUNG_S, made_s - YOUNG_S))
    assert (young, is_abandoned(folder), is_abandoned(tmp_path / "gone")) == (False, True, True)


def test_sweep_removes_the_abandoned_only(state_dir: pathlib.Path) -> None:
    home = CodexHome(Settings(state_dir=state_dir))
    home.processes.mkdir(parents=True)
    living, stderr = home.make_process_folder()
    dead, dead_stderr = home.make_process_folder()
    dead_stderr.close()
    with stderr:
        make_old(living)
        make_old(dead)
        home.sweep()
        assert list(home.processes.iterdir()) == [living]


def test_sweep_stumbles_over_nothing(state_dir: pathlib.Path) -> None:
    """A stray file among the folders must not keep the gateway from starting."""
    home = CodexHome(Settings(state_dir=state_dir))
    home.processes.mkdir(parents=True)
    stray = home.processes / ".DS_Store"
    stray.touch()
    make_old(stray)
    home.sweep()
