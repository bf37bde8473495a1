"""The conversations that every softphone holds. What the agent says is the server's script
(.ci/softphones)."""

from __future__ import annotations

import re
from pathlib import Path

from rig import LISTENS_S, Caller, Conversation, check, words, wrong_pct

GREETING = "Good morning. This is the keeper of the garden at the old mill."
STORY = (
    "There was a king who had three sons and a garden full of pears. "
    "Every night one pear was gone, and nobody knew who took it."
)
RIVER = "The river runs behind the old mill, and the road follows it down to the sea."


def quoted(line: str) -> str:
    return re.search('"(.*)"', line)[1]


def conversations(question: Path, asked: str, interruption: Path) -> list[Conversation]:
    """With a person's question of these words, and another's words over the answer."""

    def spoken_turn(caller: Caller) -> str:
        caller.dial()
        caller.told("turn-0 answered")
        caller.phone.say(question)
        wrong = wrong_pct([asked], [quoted(caller.told("transcribed"))])
        caller.told("turn-1 answered")
        caller.hang_up()
        heard = caller.understood(GREETING, STORY)
        return f"wrong words, spoken {wrong:.0f} %, heard {heard:.0f} %"

    def barge_in(caller: Caller) -> str:
        caller.dial()
        caller.told("turn-0 answered")
        caller.phone.say(question)
        caller.told("response-2 is audible")
        caller.pause(LISTENS_S)
        caller.phone.say(interruption)
        caller.told("turn-1 interrupted")
        caller.told("turn-2 answered")
        caller.hang_up()
        heard = cut_story(caller, nth=2)
        caller.understood(GREETING, heard, RIVER)
        return f"{len(words(heard))} words were heard of {len(words(STORY))}"

    def keys(caller: Caller) -> str:
        caller.dial()
        caller.told("turn-0 answered")
        caller.phone.say(question)
        caller.told("response-2 is audible")
        caller.pause(LISTENS_S)
        caller.phone.press("42#")
        caller.told("turn-1 interrupted")
        caller.told("turn-2 answered")
        caller.hang_up()
        pressed = [line.split()[-1] for line in caller.trace() if "<- key" in line]
        check(pressed == ["4", "2", "#"], f"the keys came as {pressed}")
        heard = cut_story(caller, nth=2)
        caller.understood(GREETING, heard, RIVER)
        return f"42#, after {len(words(heard))} words"

    def hang_up(caller: Caller) -> str:
        caller.dial("brief")
        caller.told("turn-0 answered")
        caller.is_gone()
        why = caller.record()["ended_why"]
        check(why == "idle", f"the server hung up because of {why}")
        return "by the server, whose caller was silent"

    return [spoken_turn, barge_in, keys, hang_up]


def cut_story(caller: Caller, nth: int) -> str:
    """What the record says was heard of the story: its beginning, and not all of it."""
    heard = quoted(caller.told('-> heard .*"', nth))
    check(STORY.startswith(heard), f"not the story's beginning: {heard}")
    check(len(words(heard)) < len(words(STORY)), "it was told to its end")
    return heard
