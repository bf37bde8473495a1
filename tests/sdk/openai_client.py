#!/usr/bin/env python3
"""Holds real conversations with a Realtime server through the `openai` package.

    pip install -r requirements.txt
    python openai_client.py ws://127.0.0.1:8080/v1 question.wav [--only NAME]… [--tool get_weather]

Every event received is validated strictly against the package's own models and against the order that
the protocol promises (contract.py), but for those of the connection that `reconnect` has cut: there the
package reads by itself, as its users have it. One line a scenario; exit 0 when all passed, 1 when one did not,
2 on wrong arguments. The server must be able to call the tool, as with
`--set llm.provider=scripted --set 'llm.tool={name="get_weather",arguments={city="Paris"}}'`, and its
answers must last three seconds or more, so that there is something to cancel.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
import wave
from pathlib import Path
from typing import Any, Callable
from urllib.parse import urlsplit

from openai import AsyncOpenAI

from contract import Contract, Event
from rig import ANSWER_S, Failed, Happenings, Microphone, Relay, check, check_server, read_wav


def open_client(url: str, key: str) -> AsyncOpenAI:
    http = url.replace("ws", "http", 1)
    return AsyncOpenAI(api_key=key, base_url=http, websocket_base_url=url)


async def append(connection: Any, frame: bytes) -> None:
    await connection.input_audio_buffer.append(audio=base64.b64encode(frame).decode())


async def ask(connection: Any, text: str, **response: Any) -> None:
    content: Any = [{"type": "input_text", "text": text}]
    item: Any = {"type": "message", "role": "user", "content": content}
    await connection.conversation.item.create(item=item)
    await connection.response.create(response=response)


class Caller:
    """One connection: a microphone that never stops, and all events so far."""

    def __init__(self, url: str, key: str, connection: Any, contract: Contract) -> None:
        self.url = url
        self.key = key
        self.connection = connection
        self.events: list[Event] = []
        self._contract = contract
        self._news = asyncio.Condition()
        self._closed = False
        self._microphone: Microphone | None = None
        self._listener = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        try:
            while True:
                raw = await self.connection.recv_bytes()
                event = json.loads(raw)
                self._contract.see(raw, event)
                # The package's own reading of it must work as well.
                self.connection.parse_event(raw)
                async with self._news:
                    self.events.append(event)
                    self._news.notify_all()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # the connection's end, whatever its kind
            async with self._news:
                self._closed = True
                self.events.append({"type": "(closed)", "why": repr(error)})
                self._news.notify_all()

    async def wait(self, kind: str, since: int = 0, **wanted: Any) -> Event:
        """The first event of this type with these values, from position `since` on."""
        def found() -> Event | None:
            for event in self.events[since:]:
                matches = all(event.get(key) == value for key, value in wanted.items())
                if event["type"] == kind and matches:
                    return event
            return None

        try:
            async with self._news:
                await asyncio.wait_for(
                    self._news.wait_for(lambda: found() is not None or self._closed), ANSWER_S
                )
        except asyncio.TimeoutError:
            pass
        event = found()
        if event is None:
            tail = [event["type"] for event in self.events[since:]][-8:]
            raise Failed(f"no {kind} {wanted or ''} within {ANSWER_S:.0f} s; last events: {tail}")
        return event

    async def completed(self, since: int) -> Event:
        """The first response that came to its end: not one that its caller spoke into."""
        while True:
            done = await self.wait("response.done", since)
            body = done["response"]
            if body["status"] == "completed":
                return done
            reason = (body["status_details"] or {}).get("reason")
            check(reason == "turn_detected", f"response.done: {body}")
            since = self.events.index(done) + 1

    async def session(self, **changes: Any) -> Event:
        since = self.mark()
        await self.connection.session.update(session={"type": "realtime", **changes})
        return await self.wait("session.updated", since)

    def mark(self) -> int:
        return len(self.events)

    def open_microphone(self) -> None:
        self._microphone = Microphone(lambda frame: append(self.connection, frame))

    def say(self, frames: list[bytes]) -> None:
        assert self._microphone is not None
        self._microphone.say(frames)

    async def ask(self, text: str, **response: Any) -> tuple[int, str]:
        """Writes a line and asks for the answer; gives where its events begin and its id."""
        since = self.mark()
        await ask(self.connection, text, **response)
        created = await self.wait("response.created", since)
        return since, created["response"]["id"]

    def of(self, kind: str, since: int = 0) -> list[Event]:
        return [event for event in self.events[since:] if event["type"] == kind]

    def audio_ms(self, since: int = 0) -> int:
        deltas = self.of("response.output_audio.delta", since)
        return sum(len(base64.b64decode(event["delta"])) for event in deltas) // 48

    async def heard(self, ms: int, since: int) -> None:
        """Waits until this much sound has come."""
        async with self._news:
            await asyncio.wait_for(
                self._news.wait_for(lambda: self.audio_ms(since) >= ms or self._closed), ANSWER_S
            )
        check(self.audio_ms(since) >= ms, f"only {self.audio_ms(since)} ms of sound came, not {ms}")

    async def close(self) -> None:
        if self._microphone is not None:
            self._microphone.close()
        self._listener.cancel()


async def spoken_turn(caller: Caller, wav: list[bytes]) -> str:
    await caller.session(audio={"input": {"transcription": {"model": "whisper-1"}}})
    since = caller.mark()
    caller.open_microphone()
    caller.say(wav)
    started = await caller.wait("input_audio_buffer.speech_started", since)
    item = started["item_id"]
    await caller.wait("input_audio_buffer.speech_stopped", since)
    await caller.wait("input_audio_buffer.committed", since)
    done = await caller.completed(since)
    users = [event["item"]["id"] for event in caller.of("conversation.item.done", since)]
    check(item in users, f"the user item {item} of speech_started was never done: {users}")
    kind = "conversation.item.input_audio_transcription.completed"
    transcript = (await caller.wait(kind, since))["transcript"]
    check(transcript.strip(), "an empty transcript")
    check(caller.audio_ms(since) > 200, f"only {caller.audio_ms(since)} ms of answer")
    whole = {"response_id": done["response"]["id"]}
    said = await caller.wait("response.output_audio_transcript.done", since, **whole)
    said = said["transcript"]
    deltas = caller.of("response.output_audio_transcript.delta", since)
    check(said.strip(), "an answer without a transcript")
    last = [event for event in deltas if event["response_id"] == done["response"]["id"]]
    joined = "".join(event["delta"] for event in last)
    check(joined.strip().endswith(said.strip()[-10:]), f"deltas {joined!r} are not {said!r}")
    return f"heard {transcript!r}, said {said[:40]!r}, {caller.audio_ms(since)} ms"


async def text_turn(caller: Caller, wav: list[bytes]) -> str:
    await caller.session(output_modalities=["text"])
    since, _ = await caller.ask("When are you open?")
    done = await caller.wait("response.done", since)
    check(done["response"]["status"] == "completed", f"response.done: {done['response']}")
    text = (await caller.wait("response.output_text.done", since))["text"]
    joined = "".join(event["delta"] for event in caller.of("response.output_text.delta", since))
    check(text and joined == text, f"deltas {joined!r} are not {text!r}")
    content = done["response"]["output"][0]["content"]
    check(content[0]["type"] == "output_text", f"item content: {content}")
    check(caller.audio_ms(since) == 0, "a written answer that sounds")
    return f"read {text[:60]!r}"


async def function_call(caller: Caller, wav: list[bytes]) -> str:
    name = TOOL
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    await caller.session(
        output_modalities=["text"],
        tools=[{"type": "function", "name": name, "description": "Tells it.", "parameters": parameters}],
    )
    since, response = await caller.ask("What is the weather in Paris?")
    call = await caller.wait("response.function_call_arguments.done", since)
    check(call.get("name") == name, f"arguments.done names {call.get('name')!r}, not {name!r}")
    arguments = json.loads(call["arguments"])
    done = await caller.wait("response.done", since)
    outputs = [item for item in done["response"]["output"] if item["type"] == "function_call"]
    check(outputs and outputs[-1]["call_id"] == call["call_id"], f"output: {done['response']}")
    kinds = [event["type"] for event in caller.events[since:]]
    check(kinds.index("conversation.item.added") < kinds.index("response.done"), "no item.added")
    since = caller.mark()
    await caller.connection.conversation.item.create(
        item={
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": json.dumps({"weather": "sunny"}),
        }
    )
    await caller.wait("conversation.item.done", since)
    check(not caller.of("response.created", since), "an answer that nobody asked for")
    await caller.connection.response.create()
    done = await caller.wait("response.done", since)
    check(done["response"]["status"] == "completed", f"after the output: {done['response']}")
    check(done["response"]["id"] != response, "the same response again")
    return f"{name}({arguments}) and an answer to its result"


async def cancel(caller: Caller, wav: list[bytes]) -> str:
    since, response = await caller.ask("Tell me a long story.")
    await caller.heard(400, since)
    await caller.connection.response.cancel(response_id=response)
    done = await caller.wait("response.done", since)
    body = done["response"]
    details = body["status_details"] or {}
    check(body["status"] == "cancelled", f"status {body['status']}, not cancelled")
    check(details.get("reason") == "client_cancelled", f"status_details: {details}")
    check(body["output"][0]["status"] == "incomplete", f"item: {body['output'][0]['status']}")
    played = caller.audio_ms(since)
    since = caller.mark()
    await caller.connection.response.cancel(event_id="again")
    error = (await caller.wait("error", since))["error"]
    check(error["code"] == "response_cancel_not_active", f"second cancel: {error}")
    check(error["event_id"] == "again", f"the error does not name its request: {error}")
    check(error["message"].startswith("Cancellation failed"), f"message: {error['message']!r}")
    # The next answer is a normal one.
    since, _ = await caller.ask("Say it in writing.", output_modalities=["text"])
    done = await caller.wait("response.done", since)
    check(done["response"]["status"] == "completed", f"after the cancel: {done['response']}")
    return f"stopped after {played} ms; the next turn is answered"


async def truncate(caller: Caller, wav: list[bytes]) -> str:
    since, response = await caller.ask("Tell me a long story.")
    await caller.heard(1_500, since)
    await caller.connection.response.cancel()
    await caller.wait("response.done", since)
    done = await caller.wait("response.output_audio_transcript.done", since)
    item, whole = done["item_id"], done["transcript"]
    since = caller.mark()
    await caller.connection.conversation.item.truncate(
        item_id=item, content_index=0, audio_end_ms=700
    )
    cut = await caller.wait("conversation.item.truncated", since)
    check((cut["item_id"], cut["audio_end_ms"]) == (item, 700), f"truncated: {cut}")
    await caller.connection.conversation.item.retrieve(item_id=item)
    retrieved = (await caller.wait("conversation.item.retrieved", since))["item"]
    kept = retrieved["content"][0].get("transcript") or ""
    check(whole.startswith(kept.strip()), f"{kept!r} is no beginning of {whole!r}")
    check(len(kept) < len(whole), f"700 ms of 1500 ms keep all of {whole!r}")
    await caller.connection.conversation.item.truncate(
        item_id="no_such_item", content_index=0, audio_end_ms=1, event_id="wrong"
    )
    error = (await caller.wait("error", since))["error"]
    check(error["event_id"] == "wrong", f"the error does not name its request: {error}")
    return f"{whole[:40]!r} became {kept!r}"


async def barge_in(caller: Caller, wav: list[bytes]) -> str:
    await caller.session(audio={"input": {"transcription": {"model": "whisper-1"}}})
    caller.open_microphone()
    since, response = await caller.ask("Tell me a long story.")
    await caller.heard(600, since)
    caller.say(wav)
    started = await caller.wait("input_audio_buffer.speech_started", since)
    kinds = caller.events[since:]
    position = kinds.index(started)
    check(
        not any(e["type"] == "response.done" for e in kinds[:position]),
        "the answer ended before speech_started told the client to clear",
    )
    done = await caller.wait("response.done", since)
    details = done["response"]["status_details"] or {}
    check(details.get("reason") == "turn_detected", f"response.done: {done['response']}")
    sound = caller.of("response.output_audio.delta", since + position)
    late = [event for event in sound if event["response_id"] == response]
    check(not late, f"{len(late)} deltas of the old answer after speech_started")
    since = caller.events.index(done) + 1
    # The server does not know what was played, and the package leaves it to its user to say so.
    item = done["response"]["output"][0]["id"]
    await caller.connection.conversation.item.truncate(
        item_id=item, content_index=0, audio_end_ms=500
    )
    cut = await caller.wait("conversation.item.truncated", since)
    check((cut["item_id"], cut["audio_end_ms"]) == (item, 500), f"truncated: {cut}")
    await caller.completed(since)
    return "speech_started cut the answer; the interruption was answered"


async def error(caller: Caller, wav: list[bytes]) -> str:
    since = caller.mark()
    await caller.connection.conversation.item.delete(item_id="no_such_item", event_id="wrong")
    told = (await caller.wait("error", since))["error"]
    check(told["event_id"] == "wrong", f"the error does not name its request: {told}")
    since, _ = await caller.ask("And now?", output_modalities=["text"])
    done = await caller.wait("response.done", since)
    check(done["response"]["status"] == "completed", f"after the error: {done['response']}")
    return f"{told['message']!r}, and the next turn is answered"


async def reconnect(caller: Caller, wav: list[bytes]) -> str:
    """A second connection, whose line is cut: the package calls again when it is read as a stream."""
    relay = Relay(caller.url)
    await relay.open()
    told = Happenings()

    async def listen(connection: Any) -> None:
        async for event in connection:
            if event.type == "response.output_audio.delta":
                told.add("audio", base64.b64decode(event.delta))
            else:
                told.add(event.type, event)

    near = urlsplit(caller.url)._replace(netloc=relay.address).geturl()
    connecting = open_client(near, caller.key).realtime.connect(
        model="default", on_reconnecting=lambda event: told.add("(reconnecting)", event)
    )
    async with connecting as connection:
        listener = asyncio.create_task(listen(connection))
        await ask(connection, "Tell me a long story.")
        await told.heard(200)
        lost = len(told.all)
        relay.cut()
        await told.event("(reconnecting)", lost)
        await told.event("session.created", lost)
        microphone = Microphone(lambda frame: append(connection, frame))
        microphone.say(wav)
        whole = lambda: "completed" in [one.response.status for one in told.of("response.done", lost)]
        await told.until(whole, "a completed response")
        microphone.close()
        listener.cancel()
    relay.close()
    return f"cut while it spoke, called again, {told.audio_ms(lost)} ms of answer"


ALL: list[Callable] = [
    spoken_turn, text_turn, function_call, cancel, truncate, barge_in, error, reconnect
]
SCENARIOS = {scenario.__name__: scenario for scenario in ALL}
TOOL = "get_weather"


async def run(name: str, url: str, key: str, wav: list[bytes]) -> bool:
    contract = Contract()
    verdict, good = "", False
    caller = None
    try:
        async with open_client(url, key).realtime.connect(model="default") as connection:
            caller = Caller(url, key, connection, contract)
            await caller.wait("session.created")
            verdict = await SCENARIOS[name](caller, wav)
            good = True
            await caller.close()
    except Failed as failure:
        verdict = str(failure)
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
    if caller is not None and good:
        contract.finish()
    if contract.faults:
        good = False
    events = len(caller.events) if caller else 0
    print(f"{'ok  ' if good else 'FAIL'} {name}: {verdict} ({events} events)", flush=True)
    for fault in contract.faults[:20]:
        print(f"     {fault}")
    if contract.unknown_keys:
        print(f"     keys the package does not know: {', '.join(sorted(contract.unknown_keys))}")
    if not good and caller is not None:
        errors = [event["error"] for event in caller.of("error")]
        if errors:
            print(f"     server errors: {errors[:5]}")
    return good


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="as in ws://127.0.0.1:8080/v1")
    parser.add_argument("wav", type=Path, help="a question, 16-bit PCM")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), default=None)
    parser.add_argument("--tool", default=TOOL, help="the function the server's model calls")
    parser.add_argument("--key", default="any")
    args = parser.parse_args()
    url = args.url.rstrip("/").removesuffix("/realtime")
    check_server(parser, url, "ws://127.0.0.1:8080/v1")
    try:
        wav = read_wav(args.wav)
    except (OSError, ValueError, wave.Error) as error:
        parser.error(f"{args.wav}: {error}")
    globals()["TOOL"] = args.tool
    # All at once: each has a connection of its own, and most of its time is an answer being spoken.
    runs = [run(name, url, args.key, wav) for name in args.only or SCENARIOS]
    results = await asyncio.gather(*runs)
    print(f"{sum(results)} of {len(results)} scenarios passed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
