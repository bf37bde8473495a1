#!/usr/bin/env python3
"""Holds real conversations with a server over SIP through PJSIP (`pjsua2-python`).

    python pjsip_phone.py http://127.0.0.1:8080 127.0.0.1:5060 question.wav WORDS interruption.wav

It sends no packets in silence (its default), and keys as telephone events of payload type 121.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pjsua2 as pj

from rig import check, main

SILENT_LEAST = 0.8  # of a call in which mostly the agent speaks


class Call(pj.Call):
    """One call: its recorder hears from the moment there is sound."""

    def __init__(self, account: pj.Account, heard: Path) -> None:
        super().__init__(account)
        self.is_over = False
        self.packets = self.seconds = 0
        self._heard = str(heard)
        self._recorder: pj.AudioMediaRecorder | None = None
        self._player: pj.AudioMediaPlayer | None = None

    def onCallSdpCreated(self, prm: pj.OnCallSdpCreatedParam) -> None:
        self.offer = prm.sdp.wholeSdp

    def onCallMediaState(self, prm: pj.OnCallMediaStateParam) -> None:
        if self._recorder is None and self.getInfo().state == pj.PJSIP_INV_STATE_CONFIRMED:
            self._recorder = pj.AudioMediaRecorder()
            self._recorder.createRecorder(self._heard)
            self.getAudioMedia(-1).startTransmit(self._recorder)

    def onCallState(self, prm: pj.OnCallStateParam) -> None:
        self.onCallMediaState(prm)
        info = self.getInfo()
        if info.state == pj.PJSIP_INV_STATE_DISCONNECTED:
            self.is_over = True
            self._recorder = self._player = None

    def onStreamDestroyed(self, prm: pj.OnStreamDestroyedParam) -> None:
        self.packets = self.getStreamStat(0).rtcp.txStat.pkt
        self.seconds = self.getInfo().connectDuration.sec

    def say(self, recording: Path) -> None:
        self._player = pj.AudioMediaPlayer()
        self._player.createPlayer(str(recording), pj.PJMEDIA_FILE_NO_LOOP)
        self._player.startTransmit(self.getAudioMedia(-1))


class PjsipPhone:
    """PJSIP without a sound card, driven by whoever waits for something."""

    name = "pjsip"

    def __init__(self, server: str, folder: Path) -> None:
        self._server = server
        self._endpoint = pj.Endpoint()
        self._endpoint.libCreate()
        config = pj.EpConfig()
        config.uaConfig.threadCnt = 0
        config.uaConfig.mainThreadOnly = True
        config.logConfig.level = config.logConfig.consoleLevel = 0
        config.medConfig.noVad = False
        self._endpoint.libInit(config)
        transport = pj.TransportConfig()
        transport.boundAddress = transport.publicAddress = "127.0.0.1"
        self._endpoint.transportCreate(pj.PJSIP_TRANSPORT_UDP, transport)
        self._endpoint.libStart()
        self._endpoint.audDevManager().setNullDev()
        self._account = pj.Account()
        account = pj.AccountConfig()
        account.idUri = f"sip:{self.name}@127.0.0.1"
        media = account.mediaConfig.transportConfig
        media.boundAddress = media.publicAddress = "127.0.0.1"
        self._account.create(account)
        self._call: Call | None = None

    def dial(self, number: str, heard: Path) -> None:
        self._call = Call(self._account, heard)
        self._call.makeCall(f"sip:{number}@{self._server}", pj.CallOpParam(True))
        check("a=rtpmap:121 telephone-event/8000" in self._call.offer, "keys are of type 121")

    def is_over(self) -> bool:
        return self._call.is_over

    def say(self, recording: Path) -> None:
        self._call.say(recording)

    def press(self, keys: str) -> None:
        self._call.dialDtmf(keys)

    def hang_up(self) -> None:
        self._call.hangup(pj.CallOpParam())

    def note(self) -> str:
        sent, most = self._call.packets, self._call.seconds * 50
        check(sent < most * SILENT_LEAST, f"{sent} packets of {most}: sound was sent in silence")
        return f"; {sent} packets sent of {most}"

    def live(self, seconds: float) -> None:
        self._endpoint.libHandleEvents(int(seconds * 1000))

    def close(self) -> None:
        self._call = self._account = None
        self._endpoint.libDestroy()


if __name__ == "__main__":
    sys.exit(main("PJSIP", PjsipPhone))
