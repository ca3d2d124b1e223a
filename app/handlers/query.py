"""What stands behind the `?` of a route."""

from __future__ import annotations

import flask

from app.lib.errors import InvalidRequest

FLAGS = {"true": True, "false": False}


def read_number(name: str, default: int) -> int:
    text = flask.request.args.get(name)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise InvalidRequest(f"{name}: Must be a whole number.", param=name)
    return int(text)


def read_flag(name: str) -> bool:
    text = flask.request.args.get(name, "false").lower()
    if text not in FLAGS:
        raise InvalidRequest(f"{name}: Must be true or false.", param=name)
    return FLAGS[text]
