"""The clients' examples in the documentation, run as they stand against a real gateway."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.support.gateway import ROOT, Gateway

pytestmark = pytest.mark.real

PAGES = ("README.md", "docs/clients.md", "docs/api/responses.md")
ADDRESS = "http://127.0.0.1:11435"
#: An example, and what it prints if the page shows that.
EXAMPLE = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
#: What no two answers share.
OWN = re.compile(r"(?<=chatcmpl-)[0-9a-f]{24}|(?<=tool_\d_\d_)[0-9a-f]{8}|(?<=\"created\":)\d+")


@dataclass(frozen=True, slots=True)
class Example:
    language: str
    program: str
    output: str | None

    @property
    def is_installed(self) -> bool:
        """Whether what it runs is there: LangChain is no dependency of ours, and `curl` is the system's."""
        if self.language == "sh":
            return shutil.which("curl") is not None
        return "langchain" not in self.program or importlib.util.find_spec("langchain_openai") is not None


def read_examples(page: str) -> list[tuple[str, Example]]:
    """A page's examples that need a gateway, each with where it stands."""
    text = (ROOT / page).read_text("utf-8")
    return [
        (f"{page}:{text.count(chr(10), 0, found.start()) + 1}", Example(*found.groups()))
        for found in EXAMPLE.finditer(text)
        if found[1] == "python" or found[2].startswith("curl")
    ]


EXAMPLES = [pytest.param(each, id=place) for page in PAGES for place, each in read_examples(page)]
INSTALLED = [param for param in EXAMPLES if param.values[0].is_installed]


def run(example: Example, gateway: Gateway, folder: pathlib.Path) -> str:
    interpreter = [sys.executable, "-"] if example.language == "python" else ["sh", "-e"]
    done = subprocess.run(
        interpreter,
        input=example.program.replace(ADDRESS, gateway.base_url),
        capture_output=True,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"},
        timeout=60,
        check=False,
        encoding="utf-8",
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("example", INSTALLED)
def test_an_example_does_what_the_page_says(
    example: Example, gateway: Gateway, tmp_path: pathlib.Path
) -> None:
    """Where the page does not show what is printed, it is a stream that ends as it should."""
    printed = OWN.sub("…", run(example, gateway, tmp_path)).strip()
    if example.output is None:
        assert printed.endswith('"finish_reason":"stop"}]}\n\ndata: [DONE]')
    else:
        assert printed == OWN.sub("…", example.output).strip()


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_is_for_the_address_on_the_page(example: Example) -> None:
    """Also those that cannot be run here are looked at."""
    assert example.program.count(ADDRESS) == 1
    if example.language == "python":
        compile(example.program, "<example>", "exec")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_examples_of_both_kinds(page: str) -> None:
    assert {example.language for _, example in read_examples(page)} == {"python", "sh"}
