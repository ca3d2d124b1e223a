"""Log lines."""

from __future__ import annotations

import json
import logging
import pathlib
import sys

from app.handlers.logs import JsonFormatter


def test_a_line_is_one_json_object() -> None:
    record = logging.LogRecord("access", logging.INFO, __file__, 1, "said %s", ("a\nb",), None)
    record.fields = {"status": 200, "path": pathlib.Path("/x")}
    line = JsonFormatter().format(record)
    told = json.loads(line)
    assert told.pop("time")
    assert (told, "\n" in line) == (
        {"level": "info", "logger": "access", "message": "said a\nb", "status": 200, "path": "/x"},
        False,
    )


def test_an_exception_is_part_of_the_line() -> None:
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError:
        record = logging.LogRecord("app", logging.ERROR, __file__, 1, "broke", (), sys.exc_info())
    line = JsonFormatter().format(record)
    assert (json.loads(line)["exception"].splitlines()[-1], "\n" in line) == (
        "ZeroDivisionError: oops",
        False,
    )
