"""What the conversations of the softphones share: a caller, what the server says of it, a report."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import re
import struct
import tempfile
import time
import urllib.request
import wave
from pathlib import Path
from typing import Any, Callable, Protocol, TypeVar

import websockets

RATE_HZ = 8_000
RECOGNISED_RATE_HZ = 24_000
ANSWER_S = 40.0
WRONG_PCT = 15.0
TAIL_S = 0.5  # what was sent is on its way for so long
LISTENS_S = 2.5  # to an answer, before it is interrupted
LOUD = 300
FRAME_S = 0.02
APART_S = 0.8  # pauses of one speaker are shorter
FEW_S = 0.1  # a click is no utterance
Found = TypeVar("Found")


class Failed(Exception):
    """A conversation did not go as it must."""


def check(condition: object, what: str) -> None:
    if not condition:
        raise Failed(what)


class Phone(Protocol):
    """A softphone that places one call after another, and writes what it hears to a file each."""

    name: str  # what the server knows it by: the user of its address

    def dial(self, number: str, heard: Path) -> None: ...
    def is_over(self) -> bool: ...
    def say(self, recording: Path) -> None: ...
    def press(self, keys: str) -> None: ...
    def hang_up(self) -> None: ...
    def live(self, seconds: float) -> None: ...
    def note(self) -> str: ...  # what there is to say of the last call
    def close(self) -> None: ...


def read_wav(path: Path) -> tuple[int, list[int]]:
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            raise ValueError(f"{path}: 16-bit PCM is right")
        channels, rate = file.getnchannels(), file.getframerate()
        data = file.readframes(file.getnframes())
    data = data[: len(data) // 2 * 2]
    return rate, list(struct.unpack(f"<{len(data) // 2}h", data)[::channels])


def is_written(path: Path) -> bool:
    """A phone closes its recording in its own time, and writes the length then."""
    try:
        return bool(read_wav(path)[1])
    except (OSError, EOFError, wave.Error):
        return False


def resampled(samples: list[int], rate: int, to: int) -> bytes:
    last = len(samples) - 1
    at = [index * rate / to for index in range(len(samples) * to // rate)]
    between = [(samples[int(t)], samples[min(int(t) + 1, last)], t % 1) for t in at]
    return struct.pack(f"<{len(at)}h", *(round(a + (b - a) * part) for a, b, part in between))


def write_wav(path: Path, pcm: bytes) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(pcm)


def utterances(path: Path) -> list[bytes]:
    """What is loud in a recording, silence between, at the recogniser's rate."""
    rate, samples = read_wav(path)
    size = int(rate * FRAME_S)
    found: list[list[int]] = []
    for at in range(0, len(samples), size):
        if max(map(abs, samples[at : at + size])) < LOUD:
            continue
        if found and at - found[-1][1] < rate * APART_S:
            found[-1][1] = at + size
        else:
            found.append([at, at + size])
    around = int(rate * FRAME_S * 5)
    return [
        resampled(samples[max(0, start - around) : end + around], rate, RECOGNISED_RATE_HZ)
        for start, end in found
        if end - start > rate * FEW_S
    ]


def wrong_words(said: str, heard: str) -> int:
    """Words to change, add or remove to make `heard` from `said`."""
    wanted, got = words(said), words(heard)
    row = list(range(len(got) + 1))
    for nth, word in enumerate(wanted, 1):
        following = [nth]
        for at, other in enumerate(got):
            following.append(min(row[at] + (word != other), row[at + 1] + 1, following[at] + 1))
        row = following
    return row[-1]


def wrong_pct(said: list[str], heard: list[str]) -> float:
    """Of all words that were said; utterance by utterance, in their order."""
    heard = [text for text in heard if words(text)]  # Linphone records the tones of its own keys
    check(len(heard) == len(said), f"{len(said)} utterances were said, heard were {heard}")
    wrong = sum(map(wrong_words, said, heard))
    pct = 100 * wrong / sum(len(words(one)) for one in said)
    check(pct < WRONG_PCT, f"{pct:.0f} % of the words are wrong in {heard}")
    return pct


def words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower().replace("’", "'"))


class Server:
    """What it tells an operator, and its own recogniser."""

    def __init__(self, http: str) -> None:
        self._http = http

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(self._http + path, timeout=10) as reply:
            return reply.read().decode()

    def living(self) -> int:
        living = r'^floorkeeper_sip_dialogs{state="living"} (\d+)'
        found = re.search(living, self._get("/metrics"), re.M)
        check(found, "no metric of the living dialogs")
        return int(found[1])

    def call(self, name: str) -> Any:
        return json.loads(self._get(f"/v1/calls/{name}"))

    def calls(self) -> set[str]:
        calls = json.loads(self._get("/v1/calls"))["calls"]
        return {call["id"] for call in calls if call["transport"] == "sip"}

    async def recognised(self, pcm: bytes) -> str:
        address = self._http.replace("http", "ws", 1) + "/v1/realtime?model=default"
        async with websockets.connect(address) as socket:

            async def send(kind: str, **fields: Any) -> None:
                await socket.send(json.dumps({"type": kind, **fields}))

            heard = {"transcription": {"model": "default"}, "turn_detection": None}
            await send("session.update", session={"type": "realtime", "audio": {"input": heard}})
            for at in range(0, len(pcm), 96_000):
                piece = base64.b64encode(pcm[at : at + 96_000]).decode()
                await send("input_audio_buffer.append", audio=piece)
            await send("input_audio_buffer.commit")
            async with asyncio.timeout(ANSWER_S):
                async for message in socket:
                    event = json.loads(message)
                    kind = event["type"].removeprefix("conversation.item.input_audio_transcription.")
                    check(kind not in ("error", "failed"), message)
                    if kind == "completed":
                        return event["transcript"]
        raise Failed("the recogniser hung up")


class Caller:
    """One call of a phone, and the server's record of it."""

    def __init__(self, phone: Phone, server: Server, heard: Path) -> None:
        self.phone = phone
        self.heard = heard
        self._server = server
        self._name = ""

    def dial(self, number: str = "agent") -> None:
        before = self._server.calls()

        def ours() -> str | None:
            news = self._server.calls() - before
            sender = f"sip:{self.phone.name}@"
            of_us = [one for one in news if sender in self._server.call(one)["metadata"]["from"]]
            return of_us[0] if of_us else None

        self.phone.dial(number, self.heard)
        self._name = self.until(ours, "call on the server")

    def until(self, look: Callable[[], Found], what: str) -> Found:
        """Waits until `look` gives something true, and gives that."""
        end = time.monotonic() + ANSWER_S
        while not (found := look()):
            if time.monotonic() > end:
                last = self.trace()[-8:] if self._name else []
                raise Failed(f"no {what} within {ANSWER_S:.0f} s; last: {last}")
            self.phone.live(0.1)
        return found

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.phone.live(min(left, 0.1))

    def record(self) -> Any:
        return self._server.call(self._name)

    def trace(self) -> list[str]:
        return [line.split("ms", 1)[1].strip() for line in self.record()["trace"]]

    def told(self, what: str, nth: int = 1) -> str:
        """The n-th line of the call's trace in which that is found."""

        def found() -> list[str]:
            return [line for line in self.trace() if re.search(what, line)][nth - 1 : nth]

        return self.until(found, f"{what} number {nth}")[0]

    def hang_up(self) -> None:
        """By the phone; nothing is left of the call behind it."""
        self.pause(TAIL_S)
        self.phone.hang_up()
        self.is_gone()

    def is_gone(self) -> None:
        self.until(self.phone.is_over, "end of the call on the phone")
        self.until(lambda: self.record()["ended_ms"] is not None, "end of the call's record")
        self.until(lambda: self._server.living() == 0, "dialog of which nothing is left")
        self.until(lambda: is_written(self.heard), "whole recording")

    def give_up(self) -> None:
        if self._name and not self.phone.is_over():
            self.phone.hang_up()
            self.until(self.phone.is_over, "end of the call")

    def understood(self, *said: str) -> float:
        """What was recorded is recognised as these utterances, in their order."""
        pieces = utterances(self.heard)
        heard = [asyncio.run(self._server.recognised(piece)) for piece in pieces]
        return wrong_pct(list(said), heard)


# A conversation gets its caller, and says what is known of it.
Conversation = Callable[[Caller], str]


def run(conversation: Conversation, phone: Phone, server: Server, folder: Path) -> bool:
    name = conversation.__name__
    caller = Caller(phone, server, folder / f"{phone.name}-{name}.wav")
    began = time.monotonic()
    good, verdict = False, ""
    try:
        verdict = conversation(caller)
        good = True
        verdict += phone.note()
    except Failed as failure:
        good, verdict = False, str(failure)
    except Exception as error:
        good, verdict = False, f"{type(error).__name__}: {error}"
    caller.give_up()
    took = time.monotonic() - began
    print(f"{'ok  ' if good else 'FAIL'} {name}: {verdict} ({took:.0f} s)", flush=True)
    return good


def main(title: str, open_phone: Callable[[str, Path], Phone], leave_out: str = "") -> int:
    """Holds the conversations one after another, but for one that the phone cannot hold."""
    from conversations import conversations

    parser = argparse.ArgumentParser(description=f"Conversations over SIP through {title}")
    parser.add_argument("http", help="the server, as in http://127.0.0.1:8080")
    parser.add_argument("sip", help="where it is rung, as in 127.0.0.1:5060")
    parser.add_argument("question", type=Path, help="a person's question, 16-bit PCM")
    parser.add_argument("words", help="what they say in it")
    parser.add_argument("interruption", type=Path, help="what is said over an answer")
    parser.add_argument("--only", action="append")
    args = parser.parse_args()
    server = Server(args.http)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        spoken = []
        for path in (args.question, args.interruption):
            rate, samples = read_wav(path)
            spoken.append(folder / f"said-{path.name}")
            write_wav(spoken[-1], resampled(samples, rate, RATE_HZ))
        held = conversations(spoken[0], args.words, spoken[1])
        held = [one for one in held if one.__name__ in (args.only or [one.__name__])]
        held = [one for one in held if one.__name__ != leave_out]
        phone = open_phone(args.sip, folder)
        try:
            results = [run(conversation, phone, server, folder) for conversation in held]
        finally:
            phone.close()
    print(f"{sum(results)} of {len(results)} conversations passed")
    return 0 if all(results) else 1
