// The Realtime events over WebRTC: the microphone as a track, the agent as a track, events on a data channel.

import { ticketOf } from "/kept.js";
import { parse } from "/realtime.js";

const CONNECT_MS = 3000; // what ICE has before UDP is taken to be blocked
const OPEN_MS = 8000; // what DTLS and the channel have behind it
const LOST_MS = 4000; // a connection that the browser finds silent may come back within this
const HANG_UP_MS = 2000; // a server that cannot be reached is waited for no longer
const HANG_UP_EVERY_MS = 50;
const TICK_MS = 50;
const AUDIBLE_RMS = 0.001;
const FAR_END_MS = 400; // what was sent before a clear has been played by then

/** Whether this browser has it at all. */
export function hasPeer() {
  return typeof window.RTCPeerConnection === "function";
}

/**
 * Calls over a peer connection, or takes up a kept call with its ticket. `hooks`: opened(), event(object), track(stream), shaky(bool),
 * closed({code, reason, opened, refusal, fallback}). `fallback` says why another path should be tried.
 */
export class Peer {
  constructor({ key, agent, track, ticket }, hooks) {
    this.hooks = hooks;
    this.resuming = ticket;
    this.opened = false;
    this.over = false;
    this.key = key;
    this.connection = new RTCPeerConnection();
    if (track) this.sender = this.connection.addTrack(track, new MediaStream([track]));
    else this.connection.addTransceiver("audio", { direction: "recvonly" });
    this.connection.ontrack = ({ track: heard }) => hooks.track(new MediaStream([heard]));
    this.connection.onconnectionstatechange = () => this.changed();
    this.connection.oniceconnectionstatechange = () => this.changed();
    this.channel = this.connection.createDataChannel("oai-events");
    this.channel.onopen = () => {
      this.opened = true;
      clearTimeout(this.timer);
      hooks.opened();
    };
    this.channel.onmessage = ({ data }) => {
      const event = parse(data);
      if (event?.type === "floorkeeper.resume") this.ticket = ticketOf(event);
      if (event) hooks.event(event);
    };
    this.channel.onclose = () => this.fail({ code: 1000 });
    this.dial(agent).catch((error) => this.fail({ fallback: error.message }));
  }

  async dial(agent) {
    await this.connection.setLocalDescription(await this.connection.createOffer());
    if (this.over) return;
    const url = new URL("/v1/realtime/calls", window.location.href);
    if (this.resuming) {
      url.searchParams.set("resume", this.resuming.token);
    } else {
      url.searchParams.set("model", agent || "default");
      url.searchParams.set("resumable", "true");
    }
    const headers = { "Content-Type": "application/sdp", ...this.authorization() };
    this.asking = new AbortController();
    const request = { method: "POST", headers, body: this.connection.localDescription.sdp, signal: this.asking.signal };
    let reply;
    try {
      reply = await fetch(url, request);
    } catch (error) {
      return this.fail({ code: 0, reason: error.message });
    }
    if (reply.status !== 201) return this.fail(await turnedDown(reply));
    this.place = reply.headers.get("location");
    // The next token: the one that was sent is used, whether the packets come through or not.
    if (this.resuming) this.ticket = { ...this.resuming, token: reply.headers.get("x-floorkeeper-resume") };
    const sdp = await reply.text();
    if (this.over) return this.hangUp();
    this.timer = setTimeout(() => this.unconnected(), CONNECT_MS);
    await this.connection.setRemoteDescription({ type: "answer", sdp });
  }

  unconnected() {
    if (!["connected", "completed"].includes(this.connection.iceConnectionState)) {
      this.fail({ fallback: "no UDP packet came back" });
      return;
    }
    this.timer = setTimeout(() => this.fail({ fallback: "the events' channel did not open" }), OPEN_MS);
  }

  changed() {
    const { connectionState, iceConnectionState } = this.connection;
    if (!this.opened) {
      if (iceConnectionState === "failed" || connectionState === "failed") {
        this.fail({ fallback: "no UDP packet came back" });
      }
      return;
    }
    if (connectionState === "failed") this.lost();
    else if (connectionState === "closed") this.fail({ code: 1000 });
    else if (connectionState === "disconnected") this.waver();
    else if (connectionState === "connected" && this.silent) {
      clearTimeout(this.silent);
      this.silent = null;
      this.hooks.shaky(false);
    }
  }

  waver() {
    if (this.silent) return;
    this.silent = setTimeout(() => this.lost(), LOST_MS);
    this.hooks.shaky(true);
  }

  lost() {
    this.fail({ code: 1006, reason: "nothing came from the server" });
  }

  /** The one end of the connection that is told. */
  fail(how) {
    if (this.over) return;
    const { opened } = this;
    this.release();
    // What the server holds for an answer that led nowhere is given back before another path asks for it.
    const leftOver = how.fallback || how.code === 1006;
    const free = this.place && leftOver && !this.ticket ? this.hangUp() : Promise.resolve();
    free.then(() => this.hooks.closed({ reason: "", opened, ...how }));
  }

  send(event) {
    if (this.channel.readyState === "open") this.channel.send(JSON.stringify(event));
  }

  /** The microphone goes as a track. */
  sound() {
    return true;
  }

  /** Another microphone, in the same call. */
  async replace(track) {
    await this.sender?.replaceTrack(track);
  }

  stats() {
    return this.opened && !this.over ? this.connection.getStats() : null;
  }

  close() {
    if (this.over) return;
    const tellsByItself = this.opened && !this.silent;
    this.asking?.abort();
    this.release();
    // A peer that never connected, or that nothing comes from, cannot tell the server that it closes.
    if (!tellsByItself && this.place) this.hangUp();
  }

  release() {
    this.over = true;
    clearTimeout(this.timer);
    clearTimeout(this.silent);
    this.connection.close();
  }

  /** Hangs up and waits until the server knows the call no more: its line is free then. */
  async hangUp() {
    const signal = AbortSignal.timeout(HANG_UP_MS);
    while (!signal.aborted) {
      const request = { method: "POST", headers: this.authorization(), keepalive: true, signal };
      const reply = await fetch(`${this.place}/hangup`, request).catch(() => null);
      if (!reply?.ok) return;
      await new Promise((done) => setTimeout(done, HANG_UP_EVERY_MS));
    }
  }

  authorization() {
    return this.key ? { Authorization: `Bearer ${this.key}` } : {};
  }
}

/** What an answer without SDP means: a refusal of admission, a missing key, or a server that cannot do this. */
async function turnedDown(reply) {
  const body = await reply.json().catch(() => ({}));
  const message = body.error?.message || `${reply.status} ${reply.statusText}`;
  if ([429, 503, 504].includes(reply.status)) {
    const { gate = "call", disposition, reason } = body;
    return { code: 1013, reason: message, refusal: { gate, disposition, reason, message } };
  }
  if (reply.status === 401) return { code: 0, reason: message };
  if (/^resume_/.test(body.error?.code)) return { code: 0, reason: message, stale: true };
  return { fallback: message.replace(/\.$/, "") };
}

/**
 * The agent's track in an audio element, and what of it is heard. The server plays out, so nothing is queued here:
 * it says what begins and ends, and this measures. `hooks` are those of the other players.
 */
export class TrackPlayer {
  constructor({ context, element, onBlocked }, hooks) {
    Object.assign(this, { context, element, onBlocked, hooks });
    this.playing = null; // { item, playedMs, audible }
    this.clearedAt = null;
    this.tickedAt = performance.now();
    this.timer = setInterval(() => this.tick(), TICK_MS);
  }

  /** The server knows what was played; it needs no word from here. */
  get served() {
    return true;
  }

  attach(stream) {
    this.element.srcObject = stream;
    this.element.play().catch((error) => {
      if (error.name === "NotAllowedError") this.onBlocked();
    });
    this.source = this.context.createMediaStreamSource(stream);
    this.analyser = this.context.createAnalyser();
    this.analyser.fftSize = 2048;
    this.wave = new Float32Array(this.analyser.fftSize);
    this.source.connect(this.analyser);
  }

  tick() {
    const now = performance.now();
    const ms = now - this.tickedAt;
    this.tickedAt = now;
    const rms = this.loudness();
    const { playing } = this;
    if (playing && rms > AUDIBLE_RMS) playing.audible = true;
    if (playing?.audible) playing.playedMs += ms;
    if (!playing && rms > AUDIBLE_RMS && this.clearedAt !== null && now - this.clearedAt > FAR_END_MS) this.hooks.late();
    this.hooks.progress({
      item: playing ? playing.item : null,
      playedMs: playing ? Math.round(playing.playedMs) : 0,
      queuedMs: 0,
      frames: Math.round((ms / 1000) * this.context.sampleRate),
      rms,
      audible: Boolean(playing?.audible),
    });
  }

  loudness() {
    if (!this.analyser) return 0;
    this.analyser.getFloatTimeDomainData(this.wave);
    let squares = 0;
    for (const sample of this.wave) squares += sample * sample;
    return Math.sqrt(squares / this.wave.length);
  }

  started(item) {
    this.clearedAt = null;
    this.playing = { item, playedMs: 0, audible: false };
  }

  stopped() {
    const { playing } = this;
    this.playing = null;
    if (playing) this.hooks.finished(playing.item, Math.round(playing.playedMs));
  }

  /** The server stopped sending; how much was heard is its word, not ours. */
  cleared() {
    const { playing } = this;
    this.playing = null;
    this.clearedAt = performance.now();
    this.hooks.cleared(playing ? [{ item: playing.item, playedMs: Math.round(playing.playedMs) }] : [], 0);
  }

  get busy() {
    return this.playing !== null;
  }

  // The server stops, pauses and goes on by itself.
  clear() {}
  pause() {}
  resume() {}
  push() {}
  end() {}

  latencyMs() {
    return 0;
  }

  close() {
    clearInterval(this.timer);
    this.source?.disconnect();
    this.element.srcObject = null;
  }
}
