"""What every Realtime event and every sequence of them must obey, whoever sends it."""

from __future__ import annotations

from typing import Any, get_args

from openai.types.realtime import RealtimeServerEvent
from pydantic import BaseModel, TypeAdapter, ValidationError

Event = dict[str, Any]


def _models_by_type() -> dict[str, TypeAdapter]:
    """The package's own model of every event, by the event's type."""
    union = get_args(RealtimeServerEvent)[0]
    models: dict[str, TypeAdapter] = {}
    for model in get_args(union):
        for name in get_args(model.model_fields["type"].annotation):
            models[name] = TypeAdapter(model)
    return models


MODELS = _models_by_type()
# Keys of the session object that the protocol's own servers send and the package's models leave out.
SESSION_KEYS = {"id", "object", "expires_at"}


class Contract:
    """Sees every event once and keeps the faults."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.unknown_keys: set[str] = set()
        self._seen_ids: set[str] = set()
        self._count = 0
        self._items: set[str] = set()
        self._open_responses: dict[str, set[str]] = {}
        self._done_responses: set[str] = set()
        self._speech: str | None = None

    def see(self, raw: bytes, event: Event) -> None:
        self._count += 1
        kind = event.get("type", "(none)")
        model = MODELS.get(kind)
        if model is None:
            self.fault(kind, "is not an event of the GA protocol")
            return
        try:
            parsed = model.validate_json(raw, strict=True)
            self._note_unknown_keys(kind, parsed)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                where = ".".join(str(part) for part in detail["loc"])
                self.fault(kind, f"{where}: {detail['msg']}, got {detail.get('input')!r:.120}")
        self._common(kind, event)
        if kind.startswith("response."):
            self._response(kind, event)
        elif kind.startswith("input_audio_buffer."):
            self._input(kind, event)
        elif kind.startswith("conversation.item."):
            self._item(kind, event)
        elif kind.startswith("session."):
            self._session(kind, event)

    def fault(self, kind: str, what: str) -> None:
        self.faults.append(f"event {self._count} {kind}: {what}")

    def finish(self) -> None:
        for response, opened in self._open_responses.items():
            self.faults.append(f"{response} never ended (open: {sorted(opened) or 'nothing'})")

    def _note_unknown_keys(self, where: str, value: Any) -> None:
        if isinstance(value, BaseModel):
            known = SESSION_KEYS if where.endswith(".session") else set()
            for key in set(value.model_extra or {}) - known:
                self.unknown_keys.add(f"{where}.{key}")
            for key in type(value).model_fields:
                self._note_unknown_keys(f"{where}.{key}", getattr(value, key, None))
        elif isinstance(value, list):
            for entry in value:
                self._note_unknown_keys(where, entry)

    def _common(self, kind: str, event: Event) -> None:
        if self._count == 1 and kind != "session.created":
            self.fault(kind, "the first event must be session.created")
        event_id = event.get("event_id")
        if not isinstance(event_id, str) or not event_id:
            self.fault(kind, f"event_id must be a non-empty string, got {event_id!r}")
        elif event_id in self._seen_ids:
            self.fault(kind, f"event_id {event_id} was used before")
        else:
            self._seen_ids.add(event_id)

    def _session(self, kind: str, event: Event) -> None:
        session = event["session"]
        turns = session.get("audio", {}).get("input", {}).get("turn_detection")
        if turns is not None:
            for key in ("create_response", "interrupt_response"):
                if not isinstance(turns.get(key), bool):
                    self.fault(kind, f"turn_detection.{key} must be spelled out, got {turns}")
        voice = session.get("audio", {}).get("output", {}).get("voice")
        if not isinstance(voice, str):
            self.fault(kind, f"audio.output.voice must be a string, got {voice!r}")

    def _input(self, kind: str, event: Event) -> None:
        item = event.get("item_id")
        if kind.endswith("speech_started"):
            self._speech = item
        elif kind.endswith("speech_stopped") and item != self._speech:
            self.fault(kind, f"item_id {item} is not that of speech_started, {self._speech}")
        elif kind.endswith("committed") and self._speech and item != self._speech:
            self.fault(kind, f"item_id {item} is not that of speech_started, {self._speech}")
        if kind.endswith("committed"):
            self._speech = None

    def _item(self, kind: str, event: Event) -> None:
        item = event.get("item") or {}
        if kind.endswith(".added"):
            self._items.add(item.get("id"))
        elif kind.endswith(".done") and item.get("id") not in self._items:
            self.fault(kind, f"{item.get('id')} was never added")
        for part in item.get("content") or []:
            if part.get("type") == "input_audio" and "transcript" not in part:
                self.fault(kind, "input_audio content needs a transcript key (null will do)")
            if "audio" in part and not kind.endswith(".retrieved"):
                self.fault(kind, "audio bytes belong into no event but conversation.item.retrieved")

    def _response(self, kind: str, event: Event) -> None:
        if kind == "response.created":
            self._created(kind, event["response"])
            return
        response = event.get("response_id") or event.get("response", {}).get("id")
        if response in self._done_responses:
            self.fault(kind, f"comes after response.done of {response}")
            return
        if response not in self._open_responses:
            self.fault(kind, f"comes before response.created of {response}")
            return
        opened = self._open_responses[response]
        item = event.get("item_id") or event.get("item", {}).get("id")
        if kind == "response.output_item.added":
            opened.add(item)
        elif kind == "response.output_item.done":
            self._close(kind, opened, item)
        elif kind in ("response.content_part.added", "response.content_part.done"):
            self._part(kind, opened, item, event)
        elif kind == "response.done":
            self._done(kind, response, opened, event["response"])
        elif item not in opened:
            self.fault(kind, f"{item} is not open in {response}")

    def _created(self, kind: str, response: Event) -> None:
        self._open_responses[response["id"]] = set()
        voice = response.get("audio", {}).get("output", {}).get("voice")
        if voice is not None and not isinstance(voice, str):
            self.fault(kind, f"audio.output.voice must be a string, got {voice!r}")
        if response.get("output") != [] or response.get("status") != "in_progress":
            self.fault(kind, "a new response is in_progress with an empty output")

    def _part(self, kind: str, opened: set[str], item: str, event: Event) -> None:
        if item not in opened:
            self.fault(kind, f"{item} is not open")
        part = f"{item}#{event['content_index']}"
        if kind.endswith("added"):
            opened.add(part)
        else:
            self._close(kind, opened, part)
        if event["part"].get("type") not in ("audio", "text"):
            self.fault(kind, f"part.type is audio or text, got {event['part'].get('type')}")

    def _close(self, kind: str, opened: set[str], name: str) -> None:
        if name not in opened:
            self.fault(kind, f"{name} was not open")
        opened.discard(name)

    def _done(self, kind: str, response: str, opened: set[str], body: Event) -> None:
        if opened:
            self.fault(kind, f"left open: {sorted(opened)}")
        if body["status"] == "completed" and body.get("usage") is None:
            self.fault(kind, "a completed response states its usage")
        for item in body["output"]:
            if item["type"] == "message" and item["id"] not in self._items:
                if body.get("conversation_id") is not None:
                    self.fault(kind, f"{item['id']} was never added to the conversation")
        del self._open_responses[response]
        self._done_responses.add(response)
