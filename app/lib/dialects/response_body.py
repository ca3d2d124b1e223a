"""The response object, which events and bodies tell of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from app.lib.errors import InvalidRequest, NotFound, ProxyError, RateLimited
from app.lib.usage import Usage

Body = dict[str, Any]

CANCELLED = {"code": "server_error", "message": "The response was cancelled."}


@dataclass(frozen=True, slots=True)
class ResponseIdentity:
    """What every event that holds the response repeats."""

    #: A random one: it makes the ids of the response and its items unique.
    suffix: str
    created_at: int
    model: str
    #: What the response says of its request.
    echo: dict[str, Any] = field(default_factory=dict)
    #: Whether the client gets the reasoning that only the model can read.
    shows_encrypted: bool = False
    #: Whether it begins as one of a queue.
    is_queued: bool = False

    @property
    def id(self) -> str:
        return f"resp_{self.suffix}"


def build_response(identity: ResponseIdentity, status: str) -> Body:
    """The whole object; what is not known yet is null, and what the request said stands as it does there."""
    return {
        "id": identity.id,
        "object": "response",
        "created_at": identity.created_at,
        "completed_at": None,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": identity.model,
        "output": [],
        "usage": None,
        **identity.echo,
    }


def name_error(error: ProxyError) -> str:
    """A response knows fewer codes than an error does."""
    match error:
        case RateLimited():
            return "rate_limit_exceeded"
        case InvalidRequest() | NotFound():
            return "invalid_prompt"
        case _:
            return "server_error"


def build_failure(error: ProxyError) -> Body:
    """Why a response failed, as it says itself."""
    return {"code": name_error(error), "message": error.message}


def tell_end(final: Body) -> tuple[str, Body]:
    """The last event's name and the response it holds; none is named for one that was cancelled."""
    if final["status"] != "cancelled":
        return f"response.{final['status']}", final
    return "response.failed", final | {"status": "failed", "error": CANCELLED}


def build_error(error: ProxyError) -> Body:
    """What an `error` event says, in both shapes that clients look for."""
    nested = error.to_dict()["error"]
    return {"code": nested["code"], "message": nested["message"], "param": nested["param"], "error": nested}


def hide_encrypted(response: Body) -> Body:
    """The response for a client that did not ask for the model's own reasoning."""
    return response | {"output": [hide_in_item(item) for item in response["output"]]}


def hide_in_item(item: Body) -> Body:
    return {key: value for key, value in item.items() if key != "encrypted_content"}


def build_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        # Codex does not tell what was written to the cache; the SDK's type wants the key.
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
