#!/usr/bin/env python3
"""Holds real conversations with a server over SIP through pyVoIP.

    python pyvoip_phone.py http://127.0.0.1:8080 127.0.0.1:5060 question.wav WORDS interruption.wav

It registers before it calls, and cannot press keys. Its sound has 8 bits a sample.
"""

from __future__ import annotations

import audioop
import socket
import sys
import threading
import time
import wave
from pathlib import Path

from pyVoIP.VoIP import CallState, VoIPPhone

from rig import main, write_wav

FRAME_S = 0.02
FRAME = 160
NEVER_SENT = bytes(FRAME)
LISTENS_AFTER_S = 1.2  # its start returns earlier than it reads what comes
PORTS = (20_000, 21_000)


class PyvoipPhone:
    """pyVoIP, with a thread that hears."""

    name = "pyvoip"

    def __init__(self, server: str, folder: Path) -> None:
        host, port = server.split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            ours = free.getsockname()[1]
        ports = {"sipPort": ours, "rtpPortLow": PORTS[0], "rtpPortHigh": PORTS[1]}
        self._phone = VoIPPhone(host, int(port), self.name, "", myIP="127.0.0.1", **ports)
        self._phone.start()
        time.sleep(LISTENS_AFTER_S)

    def dial(self, number: str, heard: Path) -> None:
        self._call = self._phone.call(number)
        self._ear = threading.Thread(target=self._hear, args=(heard,))
        self._ear.start()

    def _hear(self, heard: Path) -> None:
        while self._call.state == CallState.DIALING:
            time.sleep(FRAME_S)
        sound = []
        due = time.monotonic()
        while self._call.state == CallState.ANSWERED:
            frame = self._call.read_audio(FRAME, blocking=False)
            # In silence nothing is sent. It puts nothing there, and would hear all that follows late.
            while frame == NEVER_SENT:
                frame = self._call.read_audio(FRAME, blocking=False)
            sound.append(frame)
            due += FRAME_S
            time.sleep(max(0.0, due - time.monotonic()))
        write_wav(heard, audioop.lin2lin(audioop.bias(b"".join(sound), 1, 128), 1, 2))

    def is_over(self) -> bool:
        return self._call.state == CallState.ENDED and not self._ear.is_alive()

    def say(self, recording: Path) -> None:
        with wave.open(str(recording)) as file:
            pcm = file.readframes(file.getnframes())
        self._call.write_audio(audioop.bias(audioop.lin2lin(pcm, 2, 1), 1, 128))

    def press(self, keys: str) -> None:
        raise NotImplementedError("it has no keys")

    def hang_up(self) -> None:
        self._call.hangup()

    def live(self, seconds: float) -> None:
        time.sleep(seconds)

    def note(self) -> str:
        return ""

    def close(self) -> None:
        self._phone.stop()


if __name__ == "__main__":
    sys.exit(main("pyVoIP", PyvoipPhone, leave_out="keys"))
