"""One answer of an OpenAI-style server, read event by event. Inconsistent answers are refused."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from appliance.adapters import json_answers
from appliance.text import quoted

MOST_PER_EVENT = 16
"""Tokens of one event that are believed; servers send one, or a few with speculative decoding."""
NO_ANSWER = "the server's answer is invalid: "


class Refused(Exception):
    """The reason why an answer does not count, in a few words that name no request."""


@dataclass
class StreamedAnswer:
    """``times``: s since the request, of each event that carried text. ``prompt`` and ``tokens``: the server's own counts."""

    times: list[float] = field(default_factory=list)
    prompt: int | None = None
    tokens: int | None = None
    ended: bool = False

    def take(self, line: bytes, at: float) -> None:
        """One line of a stream of server-sent events. Raises Refused."""
        if not line.startswith(b"data:"):
            return
        text = line[5:].strip()
        if text == b"[DONE]":
            self.ended = True
            return
        event = _object(text)
        if event.get("error"):
            raise Refused(f"the server reports {quoted(event['error'])}")
        choices = _choices(event)
        if any(map(_text, choices)):
            self.times.append(at)
        # Not every server sends [DONE]: transformers serve (5.24) ends with a reason alone.
        self.ended |= any(isinstance(choice.get("finish_reason"), str) for choice in choices)
        if isinstance(usage := event.get("usage"), dict):
            self.prompt, self.tokens = (
                _count(usage, "prompt_tokens"),
                _count(usage, "completion_tokens"),
            )

    def counted(self, most: int) -> int:
        """Number of its tokens: the server's count if it is plausible, otherwise one per event. Raises Refused."""
        if not self.ended:
            raise Refused("the stream ended early")
        events = len(self.times)
        if not events:
            raise Refused("the answer has no text")
        if self.tokens is None:
            return events
        if not events <= self.tokens <= min(most, events * MOST_PER_EVENT):
            raise Refused(
                f"it counts {self.tokens} tokens and sent {events} events; the request was for {most}"
            )
        return self.tokens


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json_answers.parsed(text.decode())
    except ValueError:
        raise Refused(NO_ANSWER + quoted(text[:40])) from None
    if not isinstance(found, dict):
        raise Refused(NO_ANSWER + quoted(text[:40]))
    return found


def _choices(event: dict[str, Any]) -> list[dict[str, Any]]:
    choices = event.get("choices")
    if not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
        raise Refused(NO_ANSWER + "an event without choices")
    return choices


def _text(choice: dict[str, Any]) -> bool:
    """Completions have ``text``, chats ``delta`` with content or, before an answer, its reasoning."""
    delta = choice.get("delta")
    inner = delta if isinstance(delta, dict) else {}
    said: Iterable[Any] = (choice.get("text"), inner.get("content"), inner.get("reasoning_content"))
    return any(isinstance(text, str) and text for text in said)


def _count(usage: dict[str, Any], name: str) -> int | None:
    value = usage.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused(f"{name} is {quoted(value)}")
    return value
