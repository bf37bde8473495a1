// The transcript of both sides; the part of an answer that nobody heard is marked as such.

const CHARS_PER_S = 14.5; // a speaking rate, used only until the server has said what was heard

export class Transcript {
  constructor({ list, empty, announcer }) {
    this.list = list;
    this.empty = empty;
    this.announcer = announcer;
    this.entries = new Map();
    this.box = list.parentElement;
    this.pinned = true;
    this.box.addEventListener("scroll", () => {
      this.pinned = this.box.scrollTop + this.box.clientHeight > this.box.scrollHeight - 40;
    });
    new ResizeObserver(() => this.scroll()).observe(this.box);
  }

  // --- the caller --------------------------------------------------------------------------------------------------

  caller(id, delta) {
    const entry = this.entry(id, "caller");
    if (entry.done) return;
    entry.text += delta;
    this.render(entry);
  }

  callerDone(id, text) {
    const entry = this.entry(id, "caller");
    entry.text = (text || "").trim();
    entry.done = true;
    this.render(entry);
    this.announce(entry.text ? `You: ${entry.text}` : "");
  }

  // --- the agent ---------------------------------------------------------------------------------------------------

  agent(id, delta) {
    const entry = this.entry(id, "agent");
    entry.text += delta;
    this.render(entry);
  }

  /** The text as the server closes it; after a cancel that may be less than what was streamed. */
  agentDone(id, text) {
    const entry = this.entry(id, "agent");
    if ((text || "").length > entry.text.length) entry.text = text;
    entry.done = true;
    this.render(entry);
    if (!entry.sounded) this.announceAgent(entry);
  }

  /** Sound of the answer arrived. */
  audio(id, ms) {
    const entry = this.entry(id, "agent");
    entry.sounded = true;
    entry.receivedMs += ms;
  }

  firstSound(id, ms) {
    const entry = this.entry(id, "agent");
    entry.meta = `first sound after ${(ms / 1000).toFixed(2)} s`;
    this.render(entry);
  }

  finished(id) {
    const entry = this.entry(id, "agent");
    entry.finished = true;
    this.announceAgent(entry);
  }

  /** The caller took the floor after `heardMs` of this answer. */
  cut(id, heardMs) {
    const entry = this.entry(id, "agent");
    entry.cutMs = heardMs;
    entry.done = true;
    entry.heardChars = wordEnd(entry.text, Math.round((heardMs / 1000) * CHARS_PER_S));
    this.render(entry);
    clearTimeout(entry.timer);
    entry.timer = setTimeout(() => this.announceAgent(entry), 600);
  }

  /** The server's word on what was heard replaces the estimate. */
  heard(id, prefix) {
    const entry = this.entry(id, "agent");
    if (entry.cutMs === null) return;
    const count = wordsOf(prefix).length;
    let end = 0;
    for (const match of [...entry.text.matchAll(/\S+/g)].slice(0, count)) end = match.index + match[0].length;
    entry.heardChars = end;
    this.render(entry);
  }

  note(text, tone) {
    this.empty.hidden = true;
    const item = document.createElement("li");
    item.className = `note note-${tone}`;
    item.textContent = text;
    this.list.append(item);
    this.scroll();
    this.announce(text);
  }

  endAll() {
    for (const entry of this.entries.values()) {
      if (!entry.done) {
        entry.done = true;
        this.render(entry);
      }
    }
  }

  /** Everything said so far, for tests and for the page's own debug state. */
  all() {
    return [...this.entries.values()].map(({ id, side, text, heardChars, cutMs }) => ({
      id,
      side,
      text,
      heard: cutMs === null ? text : text.slice(0, heardChars),
      cutMs,
    }));
  }

  // --- drawing -----------------------------------------------------------------------------------------------------

  entry(id, side) {
    const known = this.entries.get(id);
    if (known) return known;
    const item = document.createElement("li");
    item.className = `said said-${side}`;
    const who = element("span", "who", side === "caller" ? "You" : "Agent");
    const text = element("p", "words", "");
    const meta = element("span", "meta", "");
    item.append(who, text, meta);
    this.empty.hidden = true;
    this.list.append(item);
    const entry = { id, side, item, nodes: { text, meta }, text: "", meta: "", done: false, sounded: false };
    Object.assign(entry, { receivedMs: 0, cutMs: null, heardChars: 0, finished: false, announced: false });
    this.entries.set(id, entry);
    return entry;
  }

  render(entry) {
    const { text, meta } = entry.nodes;
    entry.item.classList.toggle("open", !entry.done);
    if (entry.cutMs === null) {
      text.textContent = entry.text || (entry.done ? "(nothing recognised)" : "…");
    } else {
      const heard = entry.text.slice(0, entry.heardChars);
      const rest = entry.text.slice(entry.heardChars).trim();
      text.replaceChildren(heard);
      if (rest) text.append(unheard(rest));
    }
    const cut = entry.cutMs === null ? "" : `interrupted after ${(entry.cutMs / 1000).toFixed(1)} s`;
    meta.textContent = [entry.meta, cut].filter(Boolean).join(" · ");
    this.scroll();
  }

  /** Follows the newest words unless the reader has scrolled up. */
  scroll() {
    if (this.pinned) this.box.scrollTop = this.box.scrollHeight;
  }

  /** Read out once, when the sound is over, so that a screen reader does not talk over the agent. */
  announceAgent(entry) {
    if (entry.announced || !entry.text) return;
    entry.announced = true;
    if (entry.cutMs === null) this.announce(`Agent: ${entry.text}`);
    else this.announce(`Agent, interrupted: ${entry.text.slice(0, entry.heardChars)} (the rest was not heard)`);
  }

  announce(text) {
    if (!text) return;
    const line = element("p", "", text);
    this.announcer.append(line);
    while (this.announcer.childElementCount > 20) this.announcer.firstElementChild.remove();
  }
}

function unheard(text) {
  const part = document.createDocumentFragment();
  const tag = element("span", "unheard-tag", "not heard");
  const words = element("s", "unheard", text);
  part.append(" ", tag, " ", words);
  return part;
}

function wordEnd(text, chars) {
  if (chars >= text.length) return text.length;
  const space = text.lastIndexOf(" ", chars);
  return Math.max(0, space);
}

function wordsOf(text) {
  return text.trim().split(/\s+/).filter(Boolean);
}

function element(name, className, text) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}
