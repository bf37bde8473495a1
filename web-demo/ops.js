// The operator page: live lists of handoffs and callbacks, by long poll, and buttons that ask the same API as everybody.
// A button changes nothing on the page itself: the list that follows does.

const WAIT_MS = 20000;
const RETRY_MS = 2000;
const AGE_MS = 1000;
const LEASE_MS = 300000;
const PAGE_MAX = 200;
const KEPT = { key: "floorkeeper.key", who: "floorkeeper.operator" };
const ENDED_MAX = 20;
const TITLE = "Floorkeeper: promises to keep";

const $ = (id) => document.getElementById(id);
/** Items whose state is remembered. */
const KNOWN_MAX = 2000;
const shown = new Set();
const states = new Map();
let skew = 0;
/** The card whose button was pressed: it has the focus again when it is drawn anew. */
let acting = "";

class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.message || `The server answered ${status}.`);
    this.status = status;
    this.code = body?.error?.code || "";
  }
}

async function ask(path, { body, signal } = {}) {
  const headers = {};
  const key = $("key").value.trim();
  if (key) headers.Authorization = `Bearer ${key}`;
  const options = { headers, signal, cache: "no-store" };
  if (body !== undefined) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const answer = await fetch(path, options);
  const said = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, said);
  return said;
}

// === lists that follow what is on record ===

class List {
  /** `path()` is asked again and again; `draw(list)` shows what came. */
  constructor(path, draw) {
    Object.assign(this, { path, draw, last: null });
    this.again();
  }

  /** Draws what came last once more. */
  redraw() {
    if (this.last) this.draw(this.last);
  }

  /** Asks anew from nothing, for example behind another filter or key. */
  again() {
    this.stop?.abort();
    this.stop = new AbortController();
    this.follow(this.stop.signal);
  }

  async follow(signal) {
    let since = "";
    while (!signal.aborted) {
      try {
        const path = this.path();
        const glue = path.includes("?") ? "&" : "?";
        const list = await ask(since === "" ? path : `${path}${glue}since=${since}&wait_ms=${WAIT_MS}`, { signal });
        if (signal.aborted) return;
        since = list.version;
        skew = list.now_ms - Date.now();
        health(list);
        this.last = list;
        this.draw(list);
        quiet("link");
      } catch (error) {
        if (signal.aborted) return;
        since = "";
        broken(error);
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
  }
}

function broken(error) {
  if (error.status === 401 || error.status === 403) {
    $("key-box").open = true;
    notify("link", error.status === 401 ? "This server wants a key: enter it under “Server key” below." : error.message);
  } else if (error.code === "no_store") {
    $("store").textContent = "none";
    notify("link", "This server has no store, so it promises nothing.");
  } else {
    notify("link", error.status ? error.message : "The server does not answer; what is shown is old.");
  }
}

let noticeOf = null;

function notify(of, text) {
  noticeOf = of;
  if ($("notice-text").textContent !== text) $("notice-text").textContent = text;
  $("notice").hidden = false;
}

/** What was wrong is over. */
function quiet(of) {
  if (noticeOf !== of) return;
  noticeOf = null;
  $("notice").hidden = true;
}

function health(list) {
  $("store").textContent = list.store;
  $("store").classList.toggle("sealed", list.store !== "open");
  const { counts } = list;
  if (list.callbacks === undefined) return;
  $("count-open").textContent = counts ? counts.open : list.callbacks.length;
  $("count-dead").textContent = counts ? counts.dead : "–";
  const oldest = counts?.oldest_age_ms;
  $("count-oldest").textContent = oldest === null || oldest === undefined ? "–" : span(oldest);
}

// === drawing ===

function el(tag, props = {}, ...children) {
  const made = Object.assign(document.createElement(tag), props);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return `${s} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 129600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

const now = () => Date.now() + skew;

/** A time that goes on by itself: “4 s”, or with `left` what is left until then. */
function clock(at, left = false) {
  const time = el("time", { dateTime: new Date(at).toISOString() });
  time.dataset[left ? "until" : "since"] = at;
  tick(time);
  return time;
}

function tick(time) {
  const text = time.dataset.since ? span(now() - Number(time.dataset.since)) : span(Number(time.dataset.until) - now());
  if (time.textContent !== text) time.textContent = text;
}

setInterval(() => document.querySelectorAll("time").forEach(tick), AGE_MS);

const words = (text) => text.replaceAll("_", " ");

/** A number, all but its last three digits hidden until it is clicked. */
function number(id, destination) {
  const masked = mask(destination);
  const button = el("button", { className: "number", type: "button" });
  const draw = () => {
    const open = shown.has(id);
    button.textContent = open ? destination : masked;
    button.setAttribute("aria-pressed", String(open));
    button.setAttribute("aria-label", open ? `${destination}, hide it` : `ends in ${masked.slice(-3)}, show it`);
  };
  button.addEventListener("click", () => {
    if (!shown.delete(id)) shown.add(id);
    draw();
  });
  draw();
  return button;
}

function mask(destination) {
  const last = destination.slice(-3);
  return destination.slice(0, -3).replace(/[A-Za-z0-9]/g, "•") + last;
}

function act(label, what, { main = false, confirm = "" } = {}) {
  const button = el("button", { className: `quiet-button${main ? " main" : ""}`, type: "button", textContent: label });
  button.dataset.act = label;
  button.addEventListener("click", async () => {
    if (confirm && !window.confirm(confirm)) return;
    // Until it is answered; a card that is drawn anew meanwhile has buttons of its own.
    for (const other of button.parentElement.children) other.disabled = true;
    acting = button.closest(".item").id;
    try {
      await what();
      quiet("act");
    } catch (error) {
      notify("act", `“${label}” was refused: ${error.message}`);
    } finally {
      for (const other of button.parentElement?.children || []) other.disabled = false;
    }
  });
  return button;
}

/** Draws the items that changed and keeps the others, with the focus where it was. */
function fill(list, items, draw) {
  const focused = document.activeElement?.closest?.(".item")?.id || acting;
  const label = document.activeElement?.dataset?.act;
  const before = new Map([...list.children].map((child) => [child.id, child]));
  const after = items.map((item) => {
    const print = JSON.stringify([item, me()]);
    const known = before.get(item.id);
    if (known && known.dataset.print === print) return known;
    const fresh = draw(item);
    fresh.id = item.id;
    fresh.dataset.print = print;
    announce(item);
    return fresh;
  });
  // What did not move stays in the document: moving it would take the focus away.
  const same = after.length === list.children.length && after.every((child, at) => child === list.children[at]);
  if (same) return;
  list.replaceChildren(...after);
  if (!focused || !(before.has(focused))) return;
  const again = document.getElementById(focused);
  const button = again && ([...again.querySelectorAll("button")].find((b) => b.dataset.act === label) || again.querySelector(".actions button"));
  (button || list.closest("section").querySelector("h2")).focus();
  acting = "";
}

function announce(item) {
  if (states.get(item.id) === item.state) return;
  const what = item.id.startsWith("ho_") ? "Handoff" : "Callback";
  if (states.has(item.id) || item.state === "offered") {
    $("announcer").append(el("p", { textContent: `${what}: ${words(item.state)}` }));
    while ($("announcer").children.length > 10) $("announcer").firstChild.remove();
  }
  // The newest last, and no more than anybody has on one page.
  states.delete(item.id);
  states.set(item.id, item.state);
  for (const id of states.keys()) {
    if (states.size <= KNOWN_MAX) break;
    states.delete(id);
    shown.delete(id);
  }
}

function card(kind, title, badge, facts, buttons) {
  const head = el("div", { className: "item-head" }, el("h3", {}, ...title), el("span", { className: "badge", textContent: badge }));
  const lines = facts.map((fact) => el("p", { className: "facts" }, ...fact));
  const actions = buttons.length ? el("div", { className: "actions" }, ...buttons) : null;
  return el("li", { className: `item ${kind}` }, head, ...lines, actions);
}

// === handoffs ===

function handoff(item) {
  const at = `/v1/handoffs/${item.id}`;
  const buttons = [];
  if (item.state === "offered") {
    buttons.push(act("Take the call", async () => ask(`${at}/acknowledge`, { body: { by: who() } }), { main: true }));
    buttons.push(act("Decline", () => ask(`${at}/end`, { body: { outcome: "declined" } })));
  } else if (item.state === "acknowledged" && item.by === me()) {
    buttons.push(act("Connected", () => ask(`${at}/connected`, { body: {} }), { main: true }));
    buttons.push(act("No answer", () => ask(`${at}/end`, { body: { outcome: "no_answer" } })));
    buttons.push(act("Busy", () => ask(`${at}/end`, { body: { outcome: "busy" } })));
  }
  const by = item.by ? [` · taken by ${item.by}`] : [];
  const facts = [
    ["waits for ", clock(item.born_ms), ` · ${item.call} · ${item.language || "?"}`, ...by],
    item.why ? [`because: ${words(item.why)}`] : [],
  ];
  if (item.state === "offered") facts.push(["to be taken within ", clock(item.acknowledge_by_ms, true)]);
  if (item.state === "acknowledged") facts.push(["to be connected within ", clock(item.connect_by_ms, true)]);
  if (!item.open) facts[0] = [`${item.call} · ended `, clock(item.changed_ms), " ago", ...by];
  const kind = { offered: "hot", acknowledged: "live" }[item.state] || "";
  return card(kind, [`For ${item.target}`], words(item.state), facts.filter((fact) => fact.length), buttons);
}

const me = () => $("who").value.trim();

function who() {
  if (me()) return me();
  $("who").focus();
  throw new Error("say who you are first, above.");
}

function drawHandoffs(list) {
  const open = list.handoffs.filter((item) => item.open);
  const ended = $("handoffs-all").checked ? list.handoffs.filter((item) => !item.open).slice(0, ENDED_MAX) : [];
  $("count-handoffs").textContent = open.length;
  document.title = open.length ? `(${open.length}) ${TITLE}` : TITLE;
  const items = [...open.sort((a, b) => a.born_ms - b.born_ms), ...ended];
  $("handoffs-empty").hidden = items.length > 0;
  fill($("handoffs"), items, handoff);
}

// === callbacks ===

function callback(item) {
  const at = `/v1/callbacks/${item.id}`;
  const { epoch } = item;
  const settle = (outcome) => () => ask(`${at}/settle`, { body: { epoch, outcome } });
  const buttons = [];
  // Two people who both dial are two calls: only who holds it is given the buttons.
  const mine = item.worker === me();
  if (item.state === "claimed" && mine) {
    buttons.push(act("Dial now", () => ask(`${at}/start_dialling`, { body: { epoch } }), { main: true }));
    buttons.push(act("Give it back", () => ask(`${at}/settle`, { body: { epoch, outcome: "not_dialled", retry_at_ms: Math.round(now()) } })));
  } else if (item.state === "dialling" && mine) {
    buttons.push(act("Connected", settle("connected"), { main: true }));
    buttons.push(act("No answer", settle("no_answer")), act("Failed", settle("failed")));
  } else if (item.state === "unknown_dial" && item.shelf === "dead") {
    const resolve = (outcome) => () => ask(`${at}/resolve`, { body: { outcome } });
    buttons.push(act("It was reached", resolve("connected")), act("It was not", resolve("no_answer")));
  }
  if (item.shelf === "dead") buttons.push(act("Try once more", () => ask(`${at}/replay`, { body: {} })));
  if (["accepted", "due", "claimed"].includes(item.state)) {
    const confirm = "Cancel this callback? The caller was promised it.";
    buttons.push(act("Cancel", () => ask(`${at}/cancel`, { body: {} }), { confirm }));
  }
  const facts = [
    ["asked ", clock(item.born_ms), ` ago · attempt ${item.attempts} of ${item.attempts_max} · ${item.language || "?"}`],
    [`because: ${words(item.why || "not said")}`, item.tenant ? ` · ${item.tenant}` : ""],
  ];
  if (item.state === "accepted") facts.push(["not before ", clock(item.due_ms, true), " from now"]);
  if (item.worker) facts.push([`held by ${item.worker} for another `, clock(item.lease_until_ms, true)]);
  if (item.shelf === "open") facts.push(["worth something for another ", clock(item.expires_ms, true)]);
  if (item.detail) facts.push([`last: ${words(item.detail)}`]);
  const kind = { due: "soon", claimed: "live", dialling: "live", unknown_dial: "hot", failed: "hot", no_answer: "hot", voicemail: "hot" }[item.state] || "";
  return card(kind, [number(item.id, item.destination)], words(item.state), facts, buttons);
}

function drawCallbacks(list) {
  $("callbacks-empty").hidden = list.callbacks.length > 0;
  $("callbacks-more").hidden = list.callbacks.length < PAGE_MAX;
  fill($("callbacks"), list.callbacks, callback);
}

// === the page ===

$("key").value = sessionStorage.getItem(KEPT.key) || "";
$("who").value = sessionStorage.getItem(KEPT.who) || "";
$("who").addEventListener("input", () => sessionStorage.setItem(KEPT.who, me()));
$("who").addEventListener("change", () => lists.forEach((list) => list.redraw()));
for (const form of ["key-form", "who-form"]) $(form).addEventListener("submit", (event) => event.preventDefault());

const lists = [
  new List(() => "/v1/handoffs", drawHandoffs),
  new List(() => `/v1/callbacks?shelf=${$("shelf").value}&limit=${PAGE_MAX}`, drawCallbacks),
];
$("shelf").addEventListener("change", () => lists[1].again());
$("handoffs-all").addEventListener("change", () => lists[0].redraw());
$("key").addEventListener("change", () => {
  sessionStorage.setItem(KEPT.key, $("key").value.trim());
  for (const list of lists) list.again();
});

$("claim").addEventListener("click", async () => {
  $("claim").disabled = true;
  try {
    const { callbacks: claimed } = await ask("/v1/callbacks/claim", { body: { worker: who(), lease_ms: LEASE_MS, max: 1 } });
    if (claimed.length) quiet("act");
    else notify("act", "Nothing is due now.");
  } catch (error) {
    notify("act", `Nothing was claimed: ${error.message}`);
  } finally {
    $("claim").disabled = false;
  }
});
