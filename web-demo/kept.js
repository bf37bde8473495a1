// A lost call that the server keeps for this page: with what it is taken up again, and until when.

export class Kept {
  constructor() {
    this.forget();
  }

  /** The connection with this ticket was lost; one without a ticket leaves nothing to come back to. */
  lose(ticket) {
    this.ticket = ticket?.token ? ticket : null;
    this.until = this.ticket ? performance.now() + ticket.keptMs : 0;
  }

  /** The ticket to come back with, while there is a call to come back to. */
  get() {
    if (this.ticket && performance.now() >= this.until) this.forget();
    return this.ticket;
  }

  forget() {
    this.ticket = null;
    this.until = 0;
  }

  /** Nobody comes back: the server need not keep it. */
  giveUp(key) {
    const ticket = this.get();
    this.forget();
    if (!ticket) return;
    const headers = key ? { Authorization: `Bearer ${key}` } : {};
    fetch(`${ticket.place}/hangup`, { method: "POST", headers, keepalive: true }).catch(() => {});
  }
}

/** What `floorkeeper.resume` says, for the connection it came on. */
export function ticketOf(event) {
  return { token: event.token, keptMs: event.kept_ms, place: `/v1/realtime/calls/${event.call_id}` };
}
