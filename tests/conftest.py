"""The gateway in process, on a scripted backend; other settings by parametrizing `gateway_settings`."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Iterator

import flask
import pytest

from app import create_app
from app.handlers.logs import REQUEST_ID
from app.settings import Settings
from tests.support.scripted_backend import ScriptedBackend


@pytest.fixture
def gateway_settings() -> Settings:
    return Settings()


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend()


@pytest.fixture
def app(
    gateway_settings: Settings, backend: ScriptedBackend, tmp_path: pathlib.Path
) -> Iterator[flask.Flask]:
    gateway = create_app(dataclasses.replace(gateway_settings, state_dir=tmp_path), backend)
    yield gateway
    gateway.extensions["lifecycle"].close()
    REQUEST_ID.set(None)  # of a reply that the test never closed


class Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged(app: flask.Flask) -> Iterator[list[logging.LogRecord]]:
    """What the gateway's own loggers wrote; they do not propagate, so `caplog` sees nothing."""
    recorder = Recorder()
    loggers = [logging.getLogger(name) for name in ("app", "access")]
    for logger in loggers:
        logger.addHandler(recorder)
    yield recorder.records
    for logger in loggers:
        logger.removeHandler(recorder)
