#!/usr/bin/env python3
"""Holds real conversations with a Realtime server through `openai-agents`.

    pip install -r requirements.txt
    python agents_python_client.py ws://127.0.0.1:8080 question.wav [--only NAME]…

One line a scenario; exit 0 when all passed, 1 when one did not, 2 on wrong arguments. The server must
call get_weather when it is on offer, and its answers must last three seconds or more.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeModelSendRawMessage, RealtimeRunner

from rig import Failed, Happenings, Microphone, Relay, Scenario, check, main


@function_tool
def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"sunny in {city}"


class Caller(Happenings):
    """One session of the package and all that it told."""

    def __init__(self, address: str, tools: list[Any]) -> None:
        super().__init__()
        self.history: list[Any] = []
        self._address = address
        self._tools = tools
        self._microphone: Microphone | None = None

    async def __aenter__(self) -> Caller:
        agent = RealtimeAgent(name="test", instructions="Answer briefly.", tools=self._tools)
        settings = {"model_name": "default", "input_audio_transcription": {"model": "default"}}
        runner = RealtimeRunner(agent, config={"model_settings": settings})
        url = f"ws://{self._address}/v1/realtime?model=default"
        self.session = await runner.run(model_config={"api_key": "any", "url": url})
        await self.session.enter()
        self._listener = asyncio.create_task(self._listen())
        await self.event("session.updated")
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._microphone is not None:
            self._microphone.close()
        self._listener.cancel()
        await self.session.close()

    async def _listen(self) -> None:
        try:
            async for event in self.session:
                if event.type == "raw_model_event":
                    if event.data.type == "raw_server_event":
                        self.add(event.data.data["type"], event.data.data)
                elif event.type == "audio":
                    self.add("audio", event.audio.data)
                elif event.type in ("history_updated", "history_added"):
                    self.history = self.session._history
                    self.add("(history)")
                else:
                    self.add(f"({event.type})", event)
            self.add("(ended)")
        except Exception as error:  # the connection's end, whatever its kind
            self.add("(ended)", error)

    def say(self, frames: list[bytes]) -> None:
        if self._microphone is None:
            self._microphone = Microphone(self.session.send_audio)
        self._microphone.say(frames)

    async def words(self, role: str) -> str:
        """What this side said, as the package's history has it."""

        def found() -> str:
            for item in self.history:
                if item.type == "message" and item.role == role:
                    parts = (
                        getattr(part, "transcript", None) or getattr(part, "text", None) or ""
                        for part in item.content
                    )
                    if words := " ".join(parts).strip():
                        return words
            return ""

        return await self.until(found, f"words of the {role} in the history")

    def faultless(self) -> None:
        errors = [event.error for event in self.of("(error)")]
        check(not errors, f"errors: {errors}")
        check(not self.of("(ended)"), f"the session ended: {self.of('(ended)')}")


async def spoken_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, []) as caller:
        caller.say(wav)
        await caller.completed()
        check(caller.audio_ms() > 200, f"only {caller.audio_ms()} ms of answer")
        asked, said = await caller.words("user"), await caller.words("assistant")
        caller.faultless()
        return f"history: {asked!r} -> {said[:40]!r}"


async def barge_in(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, []) as caller:
        await caller.session.send_message("Tell me a long story.")
        await caller.heard(600)
        caller.say(wav)
        await caller.event("(audio_interrupted)")
        response = (await caller.event("response.done"))["response"]
        reason = (response["status_details"] or {}).get("reason")
        check(reason == "turn_detected", f"response.done: {response}")
        await caller.event("conversation.item.truncated")
        await caller.event("conversation.item.retrieved")
        await caller.completed()
        caller.faultless()
        return "the voice cut the answer and was answered"


async def function_call(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, [get_weather]) as caller:
        await caller.session.send_message("What is the weather in Paris?")
        ended = await caller.event("(tool_end)")
        check(ended.output == "sunny in Paris", f"the tool gave {ended.output!r}")
        response = await caller.completed(nth=2)
        check(response["output"][0]["type"] == "message", f"after the tool: {response}")
        check(len(caller.of("(tool_end)")) == 1, "the tool ran more than once")
        caller.faultless()
        return f"{ended.tool.name}({ended.arguments}) and an answer to its result"


async def text_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, []) as caller:
        await caller.session.send_message("When are you open?")
        await caller.completed()
        asked, said = await caller.words("user"), await caller.words("assistant")
        check(asked == "When are you open?", f"the question became {asked!r}")
        caller.faultless()
        return f"history: {said[:40]!r}"


async def error(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, []) as caller:
        wrong = {"type": "conversation.item.delete", "other_data": {"item_id": "no_such_item"}}
        await caller.session.model.send_event(RealtimeModelSendRawMessage(message=wrong))
        told = (await caller.event("(error)")).error
        caller.all = [one for one in caller.all if one[0] != "(error)"]  # the one asked for
        await caller.session.send_message("And now?")
        await caller.completed()
        caller.faultless()
        return f"{told.message!r}, and the next turn is answered"


async def reconnect(address: str, relay: Relay, wav: list[bytes]) -> str:
    """The package tells that the line is lost and leaves the new session to its user."""
    async with Caller(address, []) as caller:
        await caller.session.send_message("Tell me a long story.")
        await caller.heard(200)
        relay.cut()
        lost = await caller.event("(ended)")
        if lost is None:
            raise Failed("the loss of the line looked like an orderly end")
    return f"told {type(lost).__name__}; the next session: " + await spoken_turn(address, relay, wav)


SCENARIOS: list[Scenario] = [spoken_turn, barge_in, function_call, text_turn, error, reconnect]

if __name__ == "__main__":
    set_tracing_disabled(True)
    sys.exit(main(__doc__.splitlines()[0], SCENARIOS))
