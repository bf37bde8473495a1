#!/usr/bin/env python3
"""Checks Realtime server events against the models of the openai package (3.57.0).

Reads JSON lines from the files named, or from standard input. In a golden script of
fixtures/realtime only the lines that begin with "< " are events. Fails on the first event that a
model refuses, on unknown keys that a model has no place for, and when there was no event at all.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install openai==3.57.0
    /tmp/venv/bin/python tests/sdk/validate_events.py fixtures/realtime/*.script
"""

import json
import sys

import pydantic
from openai.types.realtime import RealtimeServerEvent

ADAPTER = pydantic.TypeAdapter(RealtimeServerEvent)
# What the models have no field for: the vendor's own server sends the first three (protocols 1.3),
# and the last is ours and shown only to clients that asked for it.
KNOWN_EXTRAS = {"session.object", "session.id", "session.expires_at", "session.floorkeeper"}


def extras(model, path=""):
    """Paths of all that a model took without having a field for it."""
    if isinstance(model, list):
        for entry in model:
            yield from extras(entry, path)
    if not isinstance(model, pydantic.BaseModel):
        return
    for key in model.model_extra or {}:
        yield f"{path}{key}"
    for key in type(model).model_fields:
        yield from extras(getattr(model, key, None), f"{path}{key}.")


def events(lines, name):
    scripted = name.endswith(".script")
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if scripted:
            if not line.startswith("< "):
                continue
            line = line[2:]
        if line:
            yield number, json.loads(line)


def check(event):
    kind = event.get("type", "")
    if kind.startswith("floorkeeper."):
        return None
    try:
        model = ADAPTER.validate_python(event, strict=True)
    except pydantic.ValidationError as fault:
        return str(fault)
    # The union is tried in order: a wrong member would show by its type.
    if getattr(model, "type", None) != kind:
        return f"taken for {getattr(model, 'type', None)}"
    unknown = set(extras(model)) - KNOWN_EXTRAS
    if unknown:
        return f"keys without a field: {sorted(unknown)}"
    return None


def main(names):
    checked = faults = 0
    for name in names or ["-"]:
        source = sys.stdin if name == "-" else open(name, encoding="utf-8")
        with source:
            for number, event in events(source, name):
                checked += 1
                fault = check(event)
                if fault:
                    faults += 1
                    print(f"{name}:{number}: {event.get('type')}: {fault}", file=sys.stderr)
    print(f"{checked} events checked, {faults} refused")
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
