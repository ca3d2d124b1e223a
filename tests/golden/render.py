"""Answers as goldens: what a client gets over HTTP, with numbers in the place of everything random."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from werkzeug.test import TestResponse

from app import create_app
from app.handlers.chat import MODE_HEADER
from tests.golden.cases import CASES, Case
from tests.support.scripted_backend import ScriptedBackend

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures" / "golden"
OVERVIEW = "overview.txt"
# What is random stands behind these. Whatever was equal gets one number, and whatever was not, two.
RANDOM = {
    re.compile(r"(?<=chatcmpl-)[0-9a-f]{24}"): "<{}>",
    re.compile(r"(?<=req_)[0-9a-f]{24}"): "<{}>",
    re.compile(r"(?<=tool_\d_\d_)[0-9a-f]{8}"): "<{}>",
    # One for a response and all its items.
    re.compile(r"(?<=_)[0-9a-f]{32}"): "<{}>",
    re.compile(r'(?<="created":)\d+'): "{}",
    re.compile(r'(?<="created_at":)\d+'): "{}",
    re.compile(r'(?<="completed_at":)\d+'): "{}",
}
# It counts the bytes of what was random too.
UNTOLD_HEADERS = ("content-length",)


@dataclass(frozen=True, slots=True)
class Reply:
    case: Case
    asks: dict[str, object]
    response: TestResponse

    @property
    def file_name(self) -> str:
        if self.response.mimetype == "text/event-stream":
            return f"{self.case.name}.sse"
        return f"{self.case.name}.stream.json" if self.asks["stream"] else f"{self.case.name}.json"

    def render(self) -> str:
        """A stream as it is on the wire, a body spread over lines."""
        text = mask(self.response.get_data(as_text=True))
        if self.file_name.endswith(".sse"):
            return text
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2) + "\n"

    def describe(self) -> Iterator[str]:
        """How it was asked for, and what stands above its body."""
        yield f"== {self.file_name}"
        yield f"asked: {self.case.path}"
        yield f"asked: {json.dumps(self.asks, ensure_ascii=False)}"
        if self.case.mode:
            yield f"asked: {MODE_HEADER}: {self.case.mode.value}"
        yield from (f"setting: {name}={value}" for name, value in self.case.settings.items())
        yield self.response.status
        told = sorted((name.lower(), value) for name, value in self.response.headers)
        yield from (f"{name}: {mask(value)}" for name, value in told if name not in UNTOLD_HEADERS)


def mask(text: str) -> str:
    for pattern, form in RANDOM.items():
        numbers = {found: index + 1 for index, found in enumerate(dict.fromkeys(pattern.findall(text)))}
        text = pattern.sub(lambda match, form=form, numbers=numbers: form.format(numbers[match[0]]), text)
    return text


def ask(case: Case, stream: bool) -> Reply:
    asks = {"stream": stream, **case.asks, **(case.stream_asks if stream else {})}
    headers = {MODE_HEADER: case.mode.value} if case.mode else {}
    client = create_app(case.build_settings(), ScriptedBackend(case.script)).test_client()
    response = client.post(case.path, json=case.question | asks, headers=headers, buffered=True)
    return Reply(case, asks, response)


def render_all(cases: Iterable[Case] = CASES) -> dict[str, str]:
    """Every golden by its file's name."""
    replies = [ask(case, stream) for case in cases for stream in (True, False)]
    files = {reply.file_name: reply.render() for reply in replies}
    assert len(files) == len(replies), "two goldens of one name"
    overview = "\n\n".join("\n".join(reply.describe()) for reply in replies) + "\n"
    return files | {OVERVIEW: overview}


def write_all(folder: pathlib.Path = FOLDER) -> None:
    """Make the folder hold the goldens and nothing else."""
    files = render_all()
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
