"""What the conversations of the Python clients share: a microphone, a network that fails, a report."""

from __future__ import annotations

import argparse
import asyncio
import struct
import wave
from pathlib import Path
from typing import Any, Awaitable, Callable, TypeVar
from urllib.parse import urlsplit

RATE_HZ = 24_000
FRAME_BYTES = RATE_HZ // 50 * 2
SILENCE = bytes(FRAME_BYTES)
ANSWER_S = 30.0
Found = TypeVar("Found")


class Failed(Exception):
    """A scenario did not go as it must."""


def check(condition: object, what: str) -> None:
    if not condition:
        raise Failed(what)


def read_wav(path: Path) -> list[bytes]:
    """The recording as frames of 20 ms, 24 kHz mono."""
    with wave.open(str(path)) as file:
        if file.getsampwidth() != 2:
            raise ValueError(f"{path}: 16-bit PCM is right")
        channels, rate = file.getnchannels(), file.getframerate()
        data = file.readframes(file.getnframes())
    samples = struct.unpack(f"<{len(data) // 2}h", data)[::channels]
    count = len(samples) * RATE_HZ // rate
    at = [index * rate / RATE_HZ for index in range(count)]
    last = len(samples) - 1
    resampled = [
        round(samples[int(t)] + (samples[min(int(t) + 1, last)] - samples[int(t)]) * (t % 1))
        for t in at
    ]
    pcm = struct.pack(f"<{count}h", *resampled)
    pcm += bytes(-len(pcm) % FRAME_BYTES)
    return [pcm[i : i + FRAME_BYTES] for i in range(0, len(pcm), FRAME_BYTES)]


def check_server(parser: argparse.ArgumentParser, address: str, like: str) -> None:
    """Refuses what is no address, and TLS: a relay's address is in nobody's certificate."""
    try:
        parts = urlsplit(address)
        good = parts.scheme == "ws" and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        parser.error(f"{address}: an address like {like} is right")


class Microphone:
    """Hands a frame on every 20 ms: what is to be said, else silence."""

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._to_say: list[bytes] = []
        self._task = asyncio.create_task(self._speak())

    async def _speak(self) -> None:
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            await self._send(self._to_say.pop(0) if self._to_say else SILENCE)
            due += 0.02
            await asyncio.sleep(max(0.0, due - clock()))

    def say(self, frames: list[bytes]) -> None:
        self._to_say.extend(frames)

    def close(self) -> None:
        self._task.cancel()


class Happenings:
    """What happened in a conversation, in order, and waiting for it."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Any]] = []
        self._news = asyncio.Event()

    def add(self, kind: str, what: Any = None) -> None:
        self.all.append((kind, what))
        self._news.set()

    def of(self, kind: str, since: int = 0) -> list[Any]:
        return [what for name, what in self.all[since:] if name == kind]

    async def until(self, look: Callable[[], Found], what: str) -> Found:
        """Waits until `look` gives something true, and gives that."""

        async def found() -> Found:
            while not (value := look()):
                self._news.clear()
                await self._news.wait()
            return value

        try:
            return await asyncio.wait_for(found(), ANSWER_S)
        except asyncio.TimeoutError:
            last = [name for name, _ in self.all if name != "audio"][-10:]
            raise Failed(f"no {what} within {ANSWER_S:.0f} s; last: {last}") from None

    async def event(self, kind: str, since: int = 0, nth: int = 1) -> Any:
        """The n-th of that kind, counted from position `since`."""
        found = await self.until(lambda: self.of(kind, since)[nth - 1 : nth], f"{kind} number {nth}")
        return found[0]

    async def completed(self, since: int = 0, nth: int = 1) -> Any:
        """The n-th response that came to its end: not those that their caller spoke into.

        A caller who pauses in mid-sentence may do that without meaning to, and is answered behind it.
        """

        def found() -> list[Any]:
            responses = [event["response"] for event in self.of("response.done", since)]
            wrong = [one for one in responses if one["status"] in ("failed", "incomplete")]
            check(not wrong, f"response.done: {wrong}")
            return [one for one in responses if one["status"] == "completed"][nth - 1 : nth]

        return (await self.until(found, f"completed response {nth}"))[0]

    def audio_ms(self, since: int = 0) -> int:
        return sum(len(sound) for sound in self.of("audio", since)) // 48

    async def heard(self, ms: int, since: int = 0) -> None:
        await self.until(lambda: self.audio_ms(since) >= ms, f"{ms} ms of sound")


class Relay:
    """Passes connections on to the server and cuts them when told."""

    def __init__(self, server: str) -> None:
        to = urlsplit(server)
        self._to = (to.hostname, to.port or 80)
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self.address = ""

    async def open(self) -> None:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = "127.0.0.1:{}".format(self._listener.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._to)
        self._writers |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._copy(source, target))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def close(self) -> None:
        self.cut()
        self._listener.close()


# A scenario gets the relay's HOST:PORT, the relay, and the frames of a spoken question.
Scenario = Callable[[str, Relay, "list[bytes]"], Awaitable[str]]


async def _run(name: str, scenario: Scenario, server: str, wav: list[bytes]) -> bool:
    relay = Relay(server)
    await relay.open()
    good, verdict = False, ""
    try:
        verdict = await asyncio.wait_for(scenario(relay.address, relay, wav), 4 * ANSWER_S)
        good = True
    except Failed as failure:
        verdict = str(failure)
    except Exception as error:
        verdict = f"{type(error).__name__}: {error}"
    relay.close()
    print(f"{'ok  ' if good else 'FAIL'} {name}: {verdict}", flush=True)
    return good


def main(what: str, scenarios: list[Scenario], at_once: int = 6) -> int:
    """Runs so many at once, each over a connection of its own: most of the time an answer is spoken."""
    named = {scenario.__name__: scenario for scenario in scenarios}
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("server", help="as in ws://127.0.0.1:8080")
    parser.add_argument("wav", type=Path, help="a question, 16-bit PCM")
    parser.add_argument("--only", action="append", choices=list(named), default=None)
    args = parser.parse_args()
    check_server(parser, args.server, "ws://127.0.0.1:8080")
    try:
        wav = read_wav(args.wav)
    except (OSError, ValueError, wave.Error) as error:
        parser.error(f"{args.wav}: {error}")

    async def all_of_them() -> list[bool]:
        turns = asyncio.Semaphore(at_once)

        async def run(name: str) -> bool:
            async with turns:
                return await _run(name, named[name], args.server, wav)

        return await asyncio.gather(*(run(name) for name in args.only or named))

    results = asyncio.run(all_of_them())
    print(f"{sum(results)} of {len(results)} scenarios passed")
    return 0 if all(results) else 1
