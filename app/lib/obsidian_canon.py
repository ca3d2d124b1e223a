"""The tools of Obsidian Copilot: which parameters each takes, in the order its prompt shows them.

Taken from the prompt and the schemas of 3.1.x; `writeFile` and `editFile` are what later versions call
`writeToFile` and (with other parameters) `replaceInFile`. What Copilot fills in itself is left out
(`_preExpandedQuery`, `_userMessageContent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a parameter's value is, and so how its element's text is read."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    OBJECT = "object"
    #: The content of a file: an object stands right behind the opener, a string that looks like one on
    #: lines of its own.
    STRING_OR_OBJECT = "string or object"


@dataclass(frozen=True, slots=True)
class Parameter:
    #: All names it goes by; the one in the arguments is kept.
    spellings: tuple[str, ...]
    kind: Kind = Kind.STRING
    required: bool = True


def _required(*spellings: str, kind: Kind = Kind.STRING) -> Parameter:
    return Parameter(spellings, kind)


def _optional(*spellings: str, kind: Kind = Kind.STRING) -> Parameter:
    return Parameter(spellings, kind, required=False)


_WRITE_FILE = (
    _required("path"),
    _required("content", kind=Kind.STRING_OR_OBJECT),
    _optional("confirmation", kind=Kind.BOOLEAN),
)

#: AC 22
CANON: Mapping[str, tuple[Parameter, ...]] = {
    "localSearch": (
        _required("query"),
        _required("salientTerms", kind=Kind.ARRAY),
        _optional("timeRange", kind=Kind.OBJECT),
    ),
    "webSearch": (_required("query"), _required("chatHistory", kind=Kind.ARRAY)),
    "getCurrentTime": (_optional("timezoneOffset"),),
    "convertTimeBetweenTimezones": (_required("time"), _required("fromOffset"), _required("toOffset")),
    "getTimeInfoByEpoch": (_required("epoch", kind=Kind.NUMBER),),
    "getTimeRangeMs": (_required("timeExpression"),),
    # The story says `path`, Copilot's prompt and schema `notePath`.
    "readNote": (_required("path", "notePath"), _optional("chunkIndex", kind=Kind.NUMBER)),
    "writeToFile": _WRITE_FILE,
    "replaceInFile": (_required("path"), _required("diff")),
    "youtubeTranscription": (),
    "getFileTree": (),
    "getTagList": (
        _optional("includeInline", kind=Kind.BOOLEAN),
        _optional("maxEntries", kind=Kind.NUMBER),
    ),
    "updateMemory": (_required("statement"),),
    "writeFile": _WRITE_FILE,
    "editFile": (_required("path"), _required("oldText"), _required("newText")),
}


def find_kind(tool: str, spelling: str) -> Kind | None:
    """A parameter's kind; `None` for one the canon does not know."""
    parameters = CANON.get(tool, ())
    return next((each.kind for each in parameters if spelling in each.spellings), None)
