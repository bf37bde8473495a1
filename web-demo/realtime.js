// The Realtime event protocol over one WebSocket: opening, sending, and handing on what arrives.

import { toBase64 } from "/audio.js";
import { ticketOf } from "/kept.js";

const MAX_BACKLOG_BYTES = 256 * 1024; // about five seconds of microphone

/** Opens the socket, to a kept call with its ticket. `hooks`: opened(), event(object), closed({code, reason, opened}). */
export class Realtime {
  constructor({ key, agent, ticket }, hooks) {
    const url = new URL("/v1/realtime", window.location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (ticket) {
      url.searchParams.set("resume", ticket.token);
    } else {
      url.searchParams.set("model", agent || "default");
      url.searchParams.set("resumable", "true");
    }
    const protocols = ["realtime"];
    if (key) protocols.push(`openai-insecure-api-key.${key}`);
    this.socket = new WebSocket(url, protocols);
    this.opened = false;
    this.socket.onopen = () => {
      this.opened = true;
      hooks.opened();
    };
    this.socket.onmessage = ({ data }) => {
      const event = parse(data);
      if (event?.type === "floorkeeper.resume") this.ticket = ticketOf(event);
      if (event) hooks.event(event);
    };
    this.socket.onclose = ({ code, reason }) => hooks.closed({ code, reason, opened: this.opened });
  }

  send(event) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(event));
  }

  /** Sends a chunk of microphone; false when it was dropped, as a stalled link must not grow without bound. */
  sound(pcm) {
    if (this.socket.bufferedAmount > MAX_BACKLOG_BYTES) return false;
    this.send({ type: "input_audio_buffer.append", audio: toBase64(pcm) });
    return true;
  }

  /** Chunks of any microphone will do. */
  async replace() {}

  /** A browser measures nothing of a WebSocket. */
  stats() {
    return null;
  }

  close() {
    this.socket.close(1000);
  }
}

/** The event in a message; null for what is none. */
export function parse(data) {
  try {
    const event = JSON.parse(data);
    return typeof event.type === "string" ? event : null;
  } catch {
    return null;
  }
}
