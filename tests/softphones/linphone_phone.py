#!/usr/bin/env python3
"""Holds real conversations with a server over SIP through linphonec (Debian's `linphone-cli`).

    python linphone_phone.py http://127.0.0.1:8080 127.0.0.1:5060 question.wav WORDS interruption.wav

It is driven by what one types into it, a line a second, with files in place of a sound card.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import wave
from pathlib import Path

from rig import RATE_HZ, main, write_wav

CLOSES_S = 10
# What it plays it plays again and again: no call may last until the end of a recording.
SILENCE = bytes(2 * RATE_HZ * 180)


class LinphonePhone:
    """linphonec behind pipes: one call after another."""

    name = "linphone"

    def __init__(self, server: str, folder: Path) -> None:
        self._server = server
        self._is_over = True
        self._folder = folder
        self._silence = folder / "silence.wav"
        write_wav(self._silence, SILENCE)
        home = folder / "linphone"
        home.mkdir()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # Without an address of its own it takes the machine's; bind_address would break its sound.
        (home / "settings").write_text(
            f"[sip]\nsip_port={port}\nsip_tcp_port=0\nsip_tls_port=0\nguess_hostname=0\n"
            f"contact=sip:{self.name}@127.0.0.1\n[sound]\nechocancellation=0\n"
        )
        environment = {**os.environ, "HOME": str(home)}
        command = ["linphonec", "-c", str(home / "settings")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._phone = subprocess.Popen(command, env=environment, text=True, bufsize=1, **pipes)
        threading.Thread(target=self._listen, daemon=True).start()
        self._type("ipv6 disable")  # it offers an IPv6 address also to a server that has none
        self._type("soundcard use files")

    def _listen(self) -> None:
        for line in self._phone.stdout:
            if " ended" in line or " error" in line:
                self._is_over = True

    def _type(self, line: str) -> None:
        self._phone.stdin.write(line + "\n")
        self._phone.stdin.flush()

    def dial(self, number: str, heard: Path) -> None:
        self._is_over = False
        self._type(f"play {self._silence}")
        self._type(f"record {heard}")
        self._type(f"call sip:{number}@{self._server}")

    def is_over(self) -> bool:
        return self._is_over

    def say(self, recording: Path) -> None:
        with wave.open(str(recording)) as file:
            said = file.readframes(file.getnframes())
        longer = self._folder / f"longer-{recording.name}"
        write_wav(longer, said + SILENCE)
        self._type(f"play {longer}")

    def press(self, keys: str) -> None:
        for key in keys:
            self._type(key)

    def hang_up(self) -> None:
        self._type("terminate")

    def live(self, seconds: float) -> None:
        time.sleep(seconds)

    def note(self) -> str:
        return ""

    def close(self) -> None:
        self._type("quit")
        try:
            self._phone.wait(CLOSES_S)
        except subprocess.TimeoutExpired:
            self._phone.kill()


if __name__ == "__main__":
    sys.exit(main("linphonec", LinphonePhone))
