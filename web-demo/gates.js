// The occupancy of every gate, once a second while the page is looked at, and the switch that takes the model's room.

import { gateName } from "/call.js";

const POLL_MS = 1000;
const HOLD_MAX_S = 120;
const HELD = "Every free model slot is taken. Ask something now and listen to what the agent says.";

export class Gates {
  /** `key()` gives the server key, if any. */
  constructor({ body, message, toggle, help, key, onAnswer }) {
    Object.assign(this, { body, message, toggle, help, key, onAnswer });
    this.offer = help.textContent;
    this.rows = new Map();
    this.held = false;
    this.ticket = 0;
    toggle.addEventListener("click", () => this.hold(!this.held));
    document.addEventListener("visibilitychange", () => this.poll());
    window.addEventListener("pagehide", () => this.letGo());
    this.poll();
  }

  async poll() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    this.ticket += 1;
    const ticket = this.ticket;
    try {
      const view = await fetchAdmission(this.key());
      this.render(view);
      this.onAnswer(null, view);
    } catch (error) {
      this.body.parentElement.classList.add("stale");
      this.message.textContent =
        error.status === 401
          ? "This server wants a key: open “Server key” below."
          : "The server does not answer; these numbers are old.";
      this.onAnswer(error);
    }
    if (ticket === this.ticket) this.timer = setTimeout(() => this.poll(), POLL_MS);
  }

  render(view) {
    this.view = view;
    this.message.textContent = "";
    this.body.parentElement.classList.remove("stale");
    for (const gate of view.gates) this.row(gate);
    for (const [name, row] of this.rows) {
      if (view.gates.some((gate) => gate.gate === name)) continue;
      row.remove();
      this.rows.delete(name);
    }
    const model = view.gates.find((gate) => gate.gate === "model");
    const held = heldUnits(model);
    if (held !== null) this.show(held > 0);
    else if (this.held && performance.now() > this.heldUntil) this.show(false);
  }

  row(gate) {
    let row = this.rows.get(gate.gate);
    if (!row) {
      row = document.createElement("tr");
      row.innerHTML =
        '<th scope="row"></th><td><span class="bar" role="img"><i class="used"></i><i class="lost"></i></span></td><td class="num"></td><td class="num"></td>';
      this.rows.set(gate.gate, row);
      this.body.append(row);
    }
    const { active = 0, queued = 0, quarantined = 0 } = gate.live || {};
    const ceiling = ceilingOf(gate);
    const [name, barCell, used, waiting] = row.children;
    name.textContent = gateName(gate.gate);
    if (gate.mode && gate.mode !== "enforce") name.textContent += ` (${gate.mode})`;
    used.textContent = ceiling === Infinity ? `${active}` : ceiling === 0 ? "closed" : `${active} / ${ceiling}`;
    waiting.textContent = queued === 0 ? "0" : `${queued} (${((gate.live.oldest_age_ms || 0) / 1000).toFixed(1)} s)`;
    const bar = barCell.firstElementChild;
    bar.children[0].style.width = `${share(active, ceiling)}%`;
    bar.children[1].style.width = `${share(quarantined, ceiling)}%`;
    bar.classList.toggle("full", ceiling === 0 || active + quarantined >= ceiling);
    const limit = ceiling === Infinity ? "no limit" : `of ${ceiling}`;
    bar.setAttribute("aria-label", `${active} in use ${limit}, ${quarantined} quarantined`);
  }

  async hold(on) {
    this.toggle.disabled = true;
    try {
      const body = on ? JSON.stringify({ units: "all", max_s: HOLD_MAX_S }) : undefined;
      const method = on ? "PUT" : "DELETE";
      const reply = await fetch("/v1/admission/model/hold", { method, body, headers: headers(this.key(), on) });
      if (!reply.ok && !(reply.status === 404 && !on)) throw new Error(await reasonOf(reply));
      this.heldUntil = performance.now() + HOLD_MAX_S * 1000;
      this.show(on);
    } catch (error) {
      this.message.textContent = `The switch did not work: ${error.message}`;
    }
    this.toggle.disabled = false;
    this.poll();
  }

  show(held) {
    this.held = held;
    this.toggle.setAttribute("aria-checked", String(held));
    this.help.textContent = held ? HELD : this.offer;
  }

  /** Leaving the page gives the room back at once instead of after the server's own limit. */
  letGo() {
    if (!this.held) return;
    fetch("/v1/admission/model/hold", { method: "DELETE", keepalive: true, headers: headers(this.key(), false) });
  }
}

/** Reads every gate; a refusal by HTTP throws with its status. */
export async function fetchAdmission(key) {
  const reply = await fetch("/v1/admission", { headers: headers(key, false), cache: "no-store" });
  if (!reply.ok) {
    const error = new Error(await reasonOf(reply));
    error.status = reply.status;
    throw error;
  }
  return reply.json();
}

/** The room a gate has now, `Infinity` when it is not limited. */
export function ceilingOf(gate) {
  const ceiling = gate.live?.ceiling ?? gate.effective?.slots;
  return typeof ceiling === "number" ? ceiling : Infinity;
}

function heldUnits(gate) {
  const held = gate?.live?.held ?? gate?.hold?.units ?? gate?.held;
  return typeof held === "number" ? held : null;
}

function headers(key, json) {
  const fields = {};
  if (key) fields.Authorization = `Bearer ${key}`;
  if (json) fields["Content-Type"] = "application/json";
  return fields;
}

async function reasonOf(reply) {
  try {
    const body = await reply.json();
    return body.error?.message || `${reply.status} ${reply.statusText}`;
  } catch {
    return `${reply.status} ${reply.statusText}`;
  }
}

function share(part, ceiling) {
  if (part === 0) return 0;
  if (ceiling === Infinity || ceiling === 0) return 2;
  return Math.max(2, Math.min(100, (100 * part) / ceiling));
}
