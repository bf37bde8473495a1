#!/usr/bin/env python3
"""Holds real conversations with a Realtime server through LiveKit's agents and their OpenAI plug-in.

    pip install -r requirements-livekit.txt
    python livekit_client.py ws://127.0.0.1:8080 question.wav [--only NAME]…

A whole AgentSession with a microphone and a loudspeaker of its own; no LiveKit server. One line a
scenario; exit 0 when all passed, 1 when one did not, 2 on wrong arguments. The server must call
get_weather when it is on offer, and its answers must last three seconds or more.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from livekit import rtc
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.voice import io
from livekit.plugins.openai.realtime import RealtimeModel
from openai.types.realtime import AudioTranscription

from rig import RATE_HZ, Happenings, Microphone, Relay, Scenario, check, main


@function_tool
async def get_weather(city: str) -> str:
    """Tells the weather."""
    return f"sunny in {city}"


class Ear(io.AudioInput):
    """What the session hears: the frames that it is given."""

    def __init__(self) -> None:
        super().__init__(label="test")
        self._frames: asyncio.Queue[rtc.AudioFrame] = asyncio.Queue()

    async def hear(self, pcm: bytes) -> None:
        self._frames.put_nowait(rtc.AudioFrame(pcm, RATE_HZ, 1, len(pcm) // 2))

    async def __anext__(self) -> rtc.AudioFrame:
        return await self._frames.get()


class Loudspeaker(io.AudioOutput):
    """Plays in real time, to nobody."""

    def __init__(self, told: Happenings) -> None:
        capabilities = io.AudioOutputCapabilities(pause=False)
        super().__init__(label="test", capabilities=capabilities, sample_rate=RATE_HZ)
        self._told = told
        self._began: float | None = None
        self._buffered_s = 0.0
        self._end: asyncio.TimerHandle | None = None

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if self._began is None:
            self._began = time.time()
            self.on_playback_started(created_at=self._began)
        self._buffered_s += frame.duration
        self._told.add("audio", bytes(frame.data))

    def flush(self) -> None:
        super().flush()
        if self._began is not None:
            left_s = max(0.0, self._buffered_s - (time.time() - self._began))
            self._end = asyncio.get_running_loop().call_later(left_s, self._finish, False)

    def clear_buffer(self) -> None:
        if self._began is not None:
            self._finish(True)

    def _finish(self, interrupted: bool) -> None:
        if self._end is not None:
            self._end.cancel()
        assert self._began is not None
        played_s = min(time.time() - self._began, self._buffered_s)
        self._began, self._buffered_s, self._end = None, 0.0, None
        self.on_playback_finished(playback_position=played_s, interrupted=interrupted)


class Caller(Happenings):
    """One session of the package and all that it told."""

    def __init__(self, address: str, *, tools: list[Any] = [], written: bool = False) -> None:
        super().__init__()
        self._agent = Agent(instructions="Answer briefly.", tools=tools)
        self.model = RealtimeModel(
            model="default",
            modalities=["text"] if written else ["audio"],
            input_audio_transcription=AudioTranscription(model="default"),
            base_url=f"http://{address}/v1",
            api_key="any",
        )
        # There is no echo to get used to: the caller may speak at once.
        self.session: AgentSession = AgentSession(llm=self.model, aec_warmup_duration=None)
        self._ear = Ear()
        self.session.input.audio = self._ear
        self.session.output.audio = None if written else Loudspeaker(self)
        self._microphone: Microphone | None = None
        self.session.on("error", lambda event: self.add("(error)", event.error))
        self.session.on("conversation_item_added", lambda event: self.add("(item)", event.item))
        self.session.on("function_tools_executed", lambda event: self.add("(tools)", event))
        self.session.on("close", lambda event: self.add("(closed)", event))

    async def __aenter__(self) -> Caller:
        await self.session.start(self._agent, record=False)
        self.line.on("openai_server_event_received", lambda event: self.add(event["type"], event))
        self.line.on("session_reconnected", lambda _: self.add("(reconnected)"))
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._microphone is not None:
            self._microphone.close()
        await self.session.aclose()
        await self.model.aclose()

    @property
    def line(self) -> Any:
        return self._agent.realtime_llm_session

    def say(self, frames: list[bytes]) -> None:
        if self._microphone is None:
            self._microphone = Microphone(self._ear.hear)
        self._microphone.say(frames)

    async def item(self, role: str, since: int = 0, nth: int = 1) -> Any:
        """What this side said, as the session's history has it."""

        def found() -> list[Any]:
            items = self.of("(item)", since)
            return [item for item in items if item.type == "message" and item.role == role][nth - 1 :]

        return (await self.until(found, f"item {nth} of the {role}"))[0]

    def faultless(self) -> None:
        # A cancel is sent whenever the caller speaks, and an answer to it for nothing is looked over.
        told = [event["error"] for event in self.of("error")]
        told = [error for error in told if error["code"] != "response_cancel_not_active"]
        check(not told and not self.of("(error)"), f"errors: {told} {self.of('(error)')}")
        check(not self.of("(closed)"), "the session ended")


async def spoken_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        caller.say(wav)
        asked, said = await caller.item("user"), await caller.item("assistant")
        check(caller.audio_ms() > 200, f"only {caller.audio_ms()} ms of answer")
        caller.faultless()
        return f"history: {asked.text_content!r} -> {said.text_content[:40]!r}"


async def barge_in(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        caller.session.generate_reply(user_input="Tell me a long story.")
        await caller.heard(600)
        caller.say(wav)
        cut = await caller.item("assistant")
        check(cut.interrupted, f"the answer is not marked interrupted: {cut}")
        await caller.event("conversation.item.truncated")
        response = (await caller.event("response.done"))["response"]
        reason = (response["status_details"] or {}).get("reason")
        check(reason == "turn_detected", f"response.done: {response}")
        await caller.completed()
        caller.faultless()
        return f"kept {cut.text_content!r}, answered the voice"


async def function_call(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, tools=[get_weather]) as caller:
        caller.session.generate_reply(user_input="What is the weather in Paris?")
        done = await caller.event("(tools)")
        call, output = done.function_calls[0], done.function_call_outputs[0]
        check(output.output == "sunny in Paris", f"the tool gave {output}")
        await caller.item("assistant")
        check(len(caller.of("(tools)")) == 1, "the tool ran more than once")
        caller.faultless()
        return f"{call.name}({call.arguments}) and an answer to its result"


async def text_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, written=True) as caller:
        caller.session.generate_reply(user_input="When are you open?")
        said = await caller.item("assistant")
        check(caller.of("response.output_text.done"), "the answer was not a written one")
        caller.faultless()
        return f"history: {said.text_content[:40]!r}"


async def error(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        caller.line.send_event({"type": "conversation.item.delete", "item_id": "no_such_item"})
        told = await caller.event("(error)")
        check(told.recoverable, f"not recoverable: {told}")
        caller.all = [one for one in caller.all if one[0] not in ("(error)", "error")]
        caller.session.generate_reply(user_input="And now?")
        await caller.item("assistant")
        caller.faultless()
        return f"{told.error.body.message!r}, and the next turn is answered"


async def reconnect(address: str, relay: Relay, wav: list[bytes]) -> str:
    """The package calls again by itself, and writes down in the new session what was said."""
    async with Caller(address) as caller:
        caller.session.generate_reply(user_input="Tell me a long story.")
        await caller.heard(200)
        lost = len(caller.all)
        relay.cut()
        await caller.event("(reconnected)", lost)
        retold = await caller.event("conversation.item.added", lost)
        check(retold["item"]["role"] == "user", f"retold {retold}")
        caller.say(wav)
        asked = await caller.item("user", lost)
        await caller.completed(lost)
        caller.all = [one for one in caller.all if one[0] != "(error)" or not one[1].recoverable]
        caller.faultless()
        return f"cut while it spoke, called again, heard {asked.text_content!r}"


SCENARIOS: list[Scenario] = [spoken_turn, barge_in, function_call, text_turn, error, reconnect]

if __name__ == "__main__":
    sys.exit(main(__doc__.splitlines()[0], SCENARIOS))
