#!/usr/bin/env python3
"""Holds real conversations with a Realtime server through pipecat and its OpenAI service.

    pip install -r requirements-pipecat.txt
    python pipecat_client.py ws://127.0.0.1:8080 question.wav [--only NAME]…

A whole pipeline with a microphone and a loudspeaker of its own. One line a scenario; exit 0 when all
passed, 1 when one did not, 2 on wrong arguments. The server must call get_weather when it is on
offer, and its answers must last three seconds or more.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMRunFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.workers.runner import WorkerRunner

from rig import RATE_HZ, Happenings, Microphone, Relay, Scenario, check, main

WEATHER = FunctionSchema(
    name="get_weather",
    description="Tells the weather.",
    properties={"city": {"type": "string"}},
    required=["city"],
)


class Ear(BaseInputTransport):
    """What the pipeline hears: the frames that it is given."""

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def hear(self, pcm: bytes) -> None:
        await self.push_audio_frame(InputAudioRawFrame(pcm, RATE_HZ, 1))


class Loudspeaker(BaseOutputTransport):
    """Plays in real time, to nobody."""

    def __init__(self, params: TransportParams, told: Happenings) -> None:
        super().__init__(params)
        self._told = told
        self._free_at = 0.0

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: Any) -> bool:
        self._told.add("audio", frame.audio)
        clock = asyncio.get_running_loop().time
        self._free_at = max(self._free_at, clock()) + len(frame.audio) / 2 / RATE_HZ
        await asyncio.sleep(self._free_at - clock())
        return True


class Turns(BaseObserver):
    """Tells who stops talking, each time once: a frame is pushed on by every processor."""

    NAMES = {InterruptionFrame: "(interruption)", BotStoppedSpeakingFrame: "(still)"}

    def __init__(self, told: Happenings) -> None:
        super().__init__()
        self._told = told
        self._seen: set[int] = set()

    async def on_push_frame(self, data: FramePushed) -> None:
        name = self.NAMES.get(type(data.frame))
        if name and data.frame.id not in self._seen:
            self._seen.add(data.frame.id)
            self._told.add(name)


class Caller(Happenings):
    """One pipeline and all that it told."""

    def __init__(self, address: str, asks: str = "", tools: bool = False, written: bool = False) -> None:
        super().__init__()
        messages: Any = [{"role": "user", "content": asks}] if asks else []
        self.context = LLMContext(messages, **({"tools": [WEATHER]} if tools else {}))
        hears = events.AudioInput(transcription=events.InputAudioTranscription(model="default"))
        session = events.SessionProperties(
            output_modalities=["text" if written else "audio"],
            audio=events.AudioConfiguration(input=hears),
        )
        self.llm = OpenAIRealtimeLLMService(
            api_key="any",
            base_url=f"ws://{address}/v1/realtime",
            settings=OpenAIRealtimeLLMService.Settings(model="default", session_properties=session),
        )
        self.llm.register_function("get_weather", self._weather)
        self.llm.event_handler("on_conversation_item_updated")(self._item)
        user, assistant = LLMContextAggregatorPair(self.context)
        user.event_handler("on_user_turn_message_added")(self._user)
        assistant.event_handler("on_assistant_turn_stopped")(self._assistant)
        params = TransportParams(
            audio_in_enabled=True,
            audio_in_sample_rate=RATE_HZ,
            audio_out_enabled=not written,
            audio_out_sample_rate=RATE_HZ,
        )
        self._ear = Ear(params)
        stages = [self._ear, user, self.llm, Loudspeaker(params, self), assistant]
        self.worker = PipelineWorker(
            Pipeline(stages),
            params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
            observers=[Turns(self)],
            enable_rtvi=False,
        )
        self.worker.event_handler("on_pipeline_started")(self._started)
        self.worker.event_handler("on_pipeline_error")(self._error)
        self._microphone: Microphone | None = None

    async def _weather(self, params: FunctionCallParams) -> None:
        self.add("(tool)", dict(params.arguments))
        await params.result_callback({"sky": "clear"})

    async def _item(self, _: Any, item_id: str, item: Any) -> None:
        if item is not None:
            self.add("(item)", item)

    async def _user(self, _: Any, message: Any) -> None:
        self.add("(user)", message.content)

    async def _assistant(self, _: Any, message: Any) -> None:
        self.add("(assistant)", message.content)

    async def _started(self, *_: Any) -> None:
        self.add("(started)")

    async def _error(self, _: Any, frame: Any) -> None:
        self.add("(error)", frame.error)

    async def __aenter__(self) -> Caller:
        self._runner = WorkerRunner(handle_sigint=False)
        await self._runner.add_workers(self.worker)
        self._running = asyncio.create_task(self._runner.run())
        await self.event("(started)")
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._microphone is not None:
            self._microphone.close()
        await self._runner.cancel()
        await self._running

    async def ask(self) -> None:
        """Has what is in the context answered."""
        await self.worker.queue_frame(LLMRunFrame())

    def say(self, frames: list[bytes]) -> None:
        if self._microphone is None:
            self._microphone = Microphone(self._ear.hear)
        self._microphone.say(frames)

    def faultless(self) -> None:
        check(not self.of("(error)"), f"errors: {self.of('(error)')}")


async def spoken_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address) as caller:
        caller.say(wav)
        asked, said = await caller.event("(user)"), await caller.event("(assistant)")
        check(caller.audio_ms() > 200, f"only {caller.audio_ms()} ms of answer")
        check(asked.strip() and said.strip(), f"the context has {asked!r}, {said!r}")
        caller.faultless()
        return f"context: {asked!r} -> {said[:40]!r}"


async def barge_in(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, "Tell me a long story.") as caller:
        await caller.ask()
        await caller.heard(600)
        caller.say(wav)
        await caller.event("(interruption)")

        def cut() -> list[Any]:
            return [item for item in caller.of("(item)") if item.status == "incomplete"]

        await caller.until(cut, "an answer that is incomplete")
        kept = await caller.event("(assistant)")
        # Each answer is the same here, so that the next whole one is longer than what was kept.
        longer = lambda: [said for said in caller.of("(assistant)") if len(said) > len(kept)]
        whole = (await caller.until(longer, f"an answer longer than {kept!r}"))[0]
        check(whole.startswith(kept.strip()), f"{kept!r} is no beginning of {whole!r}")
        caller.faultless()
        return "the voice cut the answer and was answered"


async def function_call(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, "What is the weather in Paris?", tools=True) as caller:
        await caller.ask()
        arguments = await caller.event("(tool)")
        await caller.heard(200)
        await caller.event("(assistant)")
        check(len(caller.of("(tool)")) == 1, "the tool ran more than once")
        caller.faultless()
        return f"get_weather({arguments}) and an answer to its result"


async def text_turn(address: str, _: Relay, wav: list[bytes]) -> str:
    async with Caller(address, "When are you open?", written=True) as caller:
        await caller.ask()
        said = await caller.event("(assistant)")
        check(said.strip(), "an empty answer in the context")
        caller.faultless()
        return f"context: {said[:40]!r}"


async def error(address: str, _: Relay, wav: list[bytes]) -> str:
    """The one error that the package gives back and goes on from; all others end its connection."""
    async with Caller(address, "And now?") as caller:
        told = ""
        try:
            await caller.llm.retrieve_conversation_item("no_such_item")
        except Exception as error:
            told = str(error)
        check("no_such_item" in told, f"the retrieval told {told!r}")
        await caller.ask()
        await caller.event("(assistant)")
        caller.faultless()
        return f"{told!r}, and the next turn is answered"


async def reconnect(address: str, relay: Relay, wav: list[bytes]) -> str:
    """The package tells nobody that a line is lost: its user notices, and has it call again.

    Not before the loudspeaker is still, or the package truncates an answer of the old session in the
    new one, and takes the error it gets for the end.
    """
    async with Caller(address, "Tell me a long story.") as caller:
        await caller.ask()
        await caller.heard(200)
        relay.cut()
        await caller.event("(still)")
        await caller.llm.reset_conversation()
        lost = len(caller.all)
        caller.say(wav)
        asked = await caller.event("(user)", lost)
        await caller.heard(200, lost)
        await caller.event("(assistant)", lost)
        caller.faultless()
        return f"cut while it spoke, called again, heard {asked!r}"


SCENARIOS: list[Scenario] = [spoken_turn, barge_in, function_call, text_turn, error, reconnect]

if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    sys.exit(main(__doc__.splitlines()[0], SCENARIOS))
