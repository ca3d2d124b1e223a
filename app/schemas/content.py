"""What messages of both dialects hold: their parts, and calls made long ago."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from app.lib.json_text import dump_json
from app.lib.request import ImagePart, Part, PastCall, TextPart
from app.schemas.tools import complain

Raw = dict[str, Any]

# Many write the one for the other.
JPG, JPEG = "data:image/jpg", "data:image/jpeg"
#: How the bytes of each kind begin.
IMAGE_TYPES = {
    "data:image/png": b"\x89PNG\r\n\x1a\n",
    JPEG: b"\xff\xd8\xff",
    JPG: b"\xff\xd8\xff",
    "data:image/gif": b"GIF8",
    "data:image/webp": b"RIFF",
}
IMAGE_RULE = "Must be a PNG, JPEG, GIF or WebP image as a base64 data URL; nothing is fetched."
CONTENT_RULE = "Must be a string or a non-empty list of parts."
NAMING_RULE = "Must be a non-empty string."
ARGUMENTS_RULE = "Must be a string or an object."
#: Parts that OpenAI takes and codex has no place for.
UNSERVED = dict.fromkeys(
    ("file", "input_file"), "Files are not served here; send their text, or images of their pages."
) | {"input_audio": "Audio is not served here."}


def build_call(call_id: str, function: Raw, *path: int | str) -> PastCall:
    # A name is not held to the rule of declared ones: it may be a slip of the model's, long past.
    name = read_naming(function, "name", *path)
    match function.get("arguments"):
        case None:
            return PastCall(call_id, name, "{}")
        case str(text):
            return PastCall(call_id, name, text)
        case dict(value) if written := dump_json(value):
            return PastCall(call_id, name, written)
        case _:
            raise complain(ARGUMENTS_RULE, *path, "arguments")


def read_naming(raw: Raw, key: str, *path: int | str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value:
        raise complain(NAMING_RULE, *path, key)
    return value


def read_optional(message: Raw, kinds: dict[str, PartReader], key: str = "content") -> tuple[Part, ...]:
    """Content that may as well be missing or empty."""
    return read_content(message, kinds, key) if message.get(key) not in (None, "", []) else ()


def read_content(message: Raw, kinds: dict[str, PartReader], key: str = "content") -> tuple[Part, ...]:
    match message.get(key):
        case str(text):
            return (TextPart(text),)
        case list(parts) if parts:
            return tuple(read_part(part, kinds, key, index) for index, part in enumerate(parts))
        case _:
            raise complain(CONTENT_RULE, key)


def read_part(part: Any, kinds: dict[str, PartReader], *path: int | str) -> Part:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        rule = f"Must be one of: {', '.join(kinds)}."
        raise complain(UNSERVED.get(str(kind), rule), *path, "type")
    return kinds[kind](part, *path)


def read_text_part(part: Raw, *path: int | str) -> Part:
    key = WORDS[part["type"]]
    if not isinstance(part.get(key), str):
        raise complain("Must be a string.", *path, key)
    return TextPart(part[key])


def read_image_part(part: Raw, *path: int | str) -> Part:
    match part.get("image_url"):
        case {"url": str(url)} | str(url) if is_image(url):
            return ImagePart(url.replace(JPG, JPEG, 1) if url.startswith(JPG) else url)
        case _:
            raise complain(IMAGE_RULE, *path, "image_url")


def is_image(url: str) -> bool:
    """Codex would put a remark of its own in the place of what it cannot decode."""
    head, _, data = url.partition(";base64,")
    try:
        return head in IMAGE_TYPES and base64.b64decode(data, validate=True).startswith(IMAGE_TYPES[head])
    except ValueError:
        return False


PartReader = Callable[..., Part]
#: The parts that are words, and where they stand.
WORDS = {"text": "text", "refusal": "refusal", "input_text": "text", "output_text": "text"}
INSTRUCTION_PARTS: dict[str, PartReader] = {"text": read_text_part, "input_text": read_text_part}
INPUT_PARTS: dict[str, PartReader] = INSTRUCTION_PARTS | {
    "image_url": read_image_part,
    "input_image": read_image_part,
}
ANSWER_PARTS: dict[str, PartReader] = {
    "text": read_text_part,
    "refusal": read_text_part,
    "output_text": read_text_part,
}
