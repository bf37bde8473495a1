// The Realtime event protocol over one WebSocket: opening, sending, and handing on what arrives.

/** Opens the socket. `hooks`: opened(), event(object), closed({code, reason, opened}). */
export class Realtime {
  constructor({ key, agent }, hooks) {
    const url = new URL("/v1/realtime", window.location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("model", agent || "default");
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
      if (event) hooks.event(event);
    };
    this.socket.onclose = ({ code, reason }) => hooks.closed({ code, reason, opened: this.opened });
  }

  send(event) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(event));
  }

  /** Bytes the browser has not put on the wire yet; a stalled link must not grow without bound. */
  backlog() {
    return this.socket.bufferedAmount;
  }

  close() {
    this.socket.close(1000);
  }
}

function parse(data) {
  try {
    const event = JSON.parse(data);
    return typeof event.type === "string" ? event : null;
  } catch {
    return null;
  }
}
