#!/usr/bin/env python3
"""Holds real conversations with a Realtime server over WebRTC, through `aiortc`.

    pip install -r requirements.txt
    python aiortc_client.py ws://127.0.0.1:8080 question.wav [--only NAME]…

One line a scenario; exit 0 when all passed, 1 when one did not, 2 on wrong arguments. The server must
call get_weather when it is on offer, and its answers must last three seconds or more.
"""

from __future__ import annotations

import array
import asyncio
import fractions
import json
import sys
import urllib.request
from typing import Any

from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from rig import FRAME_BYTES, RATE_HZ, SILENCE, Happenings, Relay, Scenario, check, main

TRANSCRIPTION = {"input": {"transcription": {"model": "default"}}}
LOUD = 500
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


class Mouth(MediaStreamTrack):
    """A frame every 20 ms: what is to be said, else silence."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._to_say: list[bytes] = []
        self._sent = 0
        self._began = 0.0

    def say(self, frames: list[bytes]) -> None:
        self._to_say.extend(frames)

    async def recv(self) -> AudioFrame:
        clock = asyncio.get_running_loop().time
        if self._sent == 0:
            self._began = clock()
        await asyncio.sleep(max(0.0, self._began + self._sent * 0.02 - clock()))
        samples = FRAME_BYTES // 2
        frame = AudioFrame("s16", "mono", samples)
        frame.planes[0].update(self._to_say.pop(0) if self._to_say else SILENCE)
        frame.sample_rate = RATE_HZ
        frame.time_base = fractions.Fraction(1, RATE_HZ)
        frame.pts = self._sent * samples
        self._sent += 1
        return frame


class Caller(Happenings):
    """One call: its events, and in "loud" every frame of the agent's voice."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._call = RTCPeerConnection()
        self._mouth = Mouth()
        self._ear: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Caller:
        self._call.addTrack(self._mouth)
        self._call.on("track", self._on_track)
        self._events = self._call.createDataChannel("oai-events")
        self._events.on("message", self._on_message)
        await self._call.setLocalDescription(await self._call.createOffer())
        sdp = await asyncio.to_thread(self._offer, self._call.localDescription.sdp)
        await self._call.setRemoteDescription(RTCSessionDescription(sdp, "answer"))
        await self.event("session.created")
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._ear is not None:
            self._ear.cancel()
        await self._call.close()

    def _offer(self, sdp: str) -> str:
        headers = {"Content-Type": "application/sdp", "Authorization": "Bearer any"}
        url = f"http://{self._address}/v1/realtime/calls?model=default"
        request = urllib.request.Request(url, sdp.encode(), headers)
        with urllib.request.urlopen(request) as reply:
            return reply.read().decode()

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._ear = asyncio.create_task(self._listen(track))

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                if max(array.array("h", bytes(frame.planes[0]))) > LOUD:
                    self.add("loud", frame.samples * 1000 // frame.sample_rate)
        except MediaStreamError:
            pass

    def _on_message(self, text: str) -> None:
        event = json.loads(text)
        self.add(event["type"], event)

    def send(self, kind: str, **fields: Any) -> None:
        self._events.send(json.dumps({"type": kind, **fields}))

    async def session(self, **changes: Any) -> None:
        since = len(self.all)
        self.send("session.update", session={"type": "realtime", **changes})
        await self.event("session.updated", since)

    def ask(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        self.send("response.create")

    def say(self, frames: list[bytes]) -> None:
        self._mouth.say(frames)

    async def loud(self, ms: int, since: int = 0) -> None:
        await self.until(lambda: sum(self.of("loud", since)) >= ms, f"{ms} ms of the agent's voice")

    def faultless(self) -> None:
        check(not self.of("error"), f"errors: {self.of('error')}")
        check(not self.of("response.output_audio.delta"), "sound in an event")


async def spoken_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        await caller.session(audio=TRANSCRIPTION)
        caller.say(wav)
        asked = await caller.event("conversation.item.input_audio_transcription.completed")
        await caller.completed()
        await caller.loud(200)
        said = await caller.event("response.output_audio_transcript.done")
        caller.faultless()
        return f"heard {asked['transcript']!r}, said {said['transcript'][:40]!r}"


async def barge_in(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        caller.ask("Tell me a long story.")
        await caller.loud(600)
        caller.say(wav)
        await caller.event("output_audio_buffer.cleared")
        await caller.event("conversation.item.truncated")
        response = (await caller.event("response.done"))["response"]
        reason = (response["status_details"] or {}).get("reason")
        check(reason == "turn_detected", f"response.done: {response}")
        await caller.completed()
        caller.faultless()
        return "the voice cut the answer and was answered"


async def function_call(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        await caller.session(tools=[WEATHER])
        caller.ask("What is the weather in Paris?")
        call = await caller.event("response.function_call_arguments.done")
        await caller.completed()
        item = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        caller.send("conversation.item.create", item=item)
        caller.send("response.create")
        response = await caller.completed(nth=2)
        check(response["output"][0]["type"] == "message", f"after the result: {response}")
        caller.faultless()
        return f"{call['name']}({call['arguments']}) and an answer to its result"


async def text_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        await caller.session(output_modalities=["text"])
        caller.ask("When are you open?")
        await caller.completed()
        text = (await caller.event("response.output_text.done"))["text"]
        await asyncio.sleep(1.0)  # sound would follow the words
        sounds = caller.of("loud") or caller.of("output_audio_buffer.started")
        check(text.strip() and not sounds, f"a written answer that sounds: {text!r}, {sounds}")
        caller.faultless()
        return f"read {text[:40]!r}"


async def error(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        caller.send("conversation.item.delete", item_id="no_such_item", event_id="wrong")
        told = (await caller.event("error"))["error"]
        check(told["event_id"] == "wrong", f"the error does not name its request: {told}")
        caller.all = [one for one in caller.all if one[0] != "error"]  # the one asked for
        caller.ask("And now?")
        await caller.completed()
        caller.faultless()
        return f"{told['message']!r}, and the next turn is answered"


async def reconnect(address: str, relay: Relay, wav: list[bytes]) -> str:
    """The library does not resume: its user hangs up and calls again."""
    async with Caller(address) as caller:
        caller.ask("Tell me a long story.")
        await caller.loud(200)
    return "hung up while it spoke; the next call: " + await spoken_turn(address, relay, wav)


SCENARIOS: list[Scenario] = [spoken_turn, barge_in, function_call, text_turn, error, reconnect]

if __name__ == "__main__":
    # Each encodes and decodes: more at once is late with its packets on a busy machine.
    sys.exit(main(__doc__.splitlines()[0], SCENARIOS, at_once=3))
