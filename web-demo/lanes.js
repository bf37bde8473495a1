// The last 30 seconds as lanes: who sounded, where the floor changed hands, and which stage waited or worked.

const WINDOW_MS = 30000;
const STAGES = ["recognition", "model", "synthesis", "tool"];
const REFUSED = new Set(["overloaded", "expired", "stale", "out_of_order", "closed", "duplicate"]);

/** What happened, as spans and marks with page times; knows nothing of drawing. */
export class Timeline {
  constructor() {
    this.spans = []; // { lane, kind, from, to, key, how }
    this.fences = []; // { at, generation }
    this.marks = []; // { lane, at, kind }
    this.levels = { caller: [], agent: [] }; // { at, rms }
    this.changed = 0;
  }

  level(lane, rms) {
    if (rms > 0.001) this.levels[lane].push({ at: performance.now(), rms });
  }

  begin(lane, key, agoMs = 0) {
    if (this.spans.some((span) => span.lane === lane && span.to === null)) return;
    this.add({ lane, kind: "sound", key }, agoMs);
  }

  end(lane) {
    this.close((span) => span.lane === lane, "ended");
  }

  /** The agent was cut off here. */
  cut(lane) {
    this.close((span) => span.lane === lane, "cut");
    this.marks.push({ lane, at: performance.now(), kind: "cut" });
  }

  mark(kind) {
    this.marks.push({ lane: "caller", at: performance.now(), kind });
  }

  late(stage) {
    this.marks.push({ lane: stageOf(stage) || "agent", at: performance.now(), kind: "late" });
  }

  fence(generation, at = performance.now()) {
    this.fences.push({ at, generation });
    this.changed += 1;
  }

  /** Takes a `floorkeeper.admission` event; true when it says that work was refused. */
  stage({ gate, disposition, reason, turn }) {
    if (reason === "claim") return false; // held for words yet to come: neither waiting nor work
    const lane = stageOf(gate);
    const word = String(disposition).split(/[{:( ]/)[0];
    const open = this.openSpan(gate, turn ?? null, word === "admitted");
    if (word === "queued" || word === "admitted") {
      if (!lane) return false;
      if (word === "admitted" && open?.kind === "waiting") this.close((span) => span === open, "ended");
      this.add({ lane, kind: word === "queued" ? "waiting" : "working", gate, turn: turn ?? null });
      return false;
    }
    const refused = REFUSED.has(word) && open?.kind !== "working";
    if (open) this.close((span) => span === open, word);
    if (lane && refused) this.marks.push({ lane, at: performance.now(), kind: "refused" });
    if (refused) this.changed += 1;
    return refused;
  }

  /** The open span that an event about this gate and turn means; an end may come under a later generation. */
  openSpan(gate, turn, waiting) {
    const open = this.spans.filter((span) => span.to === null && span.gate === gate);
    const fitting = waiting ? open.filter((span) => span.kind === "waiting") : open;
    return fitting.find((span) => span.turn === turn) ?? fitting[0];
  }

  add(span, agoMs = 0) {
    this.spans.push({ ...span, from: performance.now() - agoMs, to: null, how: null });
    this.changed += 1;
    this.forget();
  }

  close(which, how) {
    for (const span of this.spans) {
      if (span.to !== null || !which(span)) continue;
      span.to = performance.now();
      span.how = how;
      this.changed += 1;
    }
  }

  endAll() {
    this.close(() => true, "ended");
  }

  forget() {
    const old = performance.now() - WINDOW_MS - 1000;
    this.spans = this.spans.filter((span) => span.to === null || span.to > old);
    this.fences = this.fences.filter((fence) => fence.at > old);
    this.marks = this.marks.filter((mark) => mark.at > old);
    for (const lane of ["caller", "agent"]) {
      this.levels[lane] = this.levels[lane].filter((level) => level.at > old);
    }
  }

  /** The same story as sentences, newest last. */
  sentences() {
    const now = performance.now();
    const ago = (at) => `${((now - at) / 1000).toFixed(1)} s ago`;
    const story = this.spans.map((span) => ({ at: span.from, text: spanSentence(span, now, ago) }));
    for (const fence of this.fences) {
      story.push({ at: fence.at, text: `${ago(fence.at)}: the floor changed hands, generation ${fence.generation}` });
    }
    for (const mark of this.marks) {
      story.push({ at: mark.at, text: `${ago(mark.at)}: ${markSentence(mark)}` });
    }
    return story
      .filter((line) => line.at > now - WINDOW_MS)
      .sort((a, b) => a.at - b.at)
      .map((line) => line.text);
  }
}

function spanSentence(span, now, ago) {
  const lasted = span.to === null ? "still going" : `for ${((span.to - span.from) / 1000).toFixed(1)} s`;
  const what = { sound: { caller: "you spoke", agent: "the agent was audible" }[span.lane] };
  what.waiting = `${span.gate} waited for room`;
  what.working = `${span.gate} worked`;
  const how = span.how && span.how !== "ended" ? `, ${span.how}` : "";
  return `${ago(span.from)}: ${what[span.kind]}, ${lasted}${how}`;
}

function markSentence({ lane, kind }) {
  if (kind === "cut") return "the agent's audio was cleared";
  if (kind === "typed") return "you sent a typed turn";
  if (kind === "late") return `late output of ${lane} was suppressed`;
  return `${lane} was refused`;
}

function stageOf(gate) {
  const name = String(gate || "").split(":")[0];
  return STAGES.includes(name) ? name : null;
}

const ROWS = [
  { lane: "caller", label: "You", tall: true },
  { lane: "agent", label: "Agent", tall: true },
  { lane: "recognition", label: "Recognition" },
  { lane: "model", label: "Model" },
  { lane: "synthesis", label: "Synthesis" },
  { lane: "tool", label: "Tools" },
];

/** Draws a timeline on a canvas and keeps its text twin. */
export class Lanes {
  constructor({ canvas, text, timeline }) {
    Object.assign(this, { canvas, text, timeline });
    this.still = window.matchMedia("(prefers-reduced-motion: reduce)");
    this.scheme = window.matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", () => this.readColours());
    this.readColours();
    this.drawnAt = 0;
    this.toldAt = 0;
    requestAnimationFrame(() => this.frame());
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["ink", "muted", "line", "caller", "agent", "wait", "work", "bad", "lane", "card"];
    this.colour = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.font = style.getPropertyValue("--font") || "sans-serif";
    this.hatch = {};
  }

  frame() {
    requestAnimationFrame(() => this.frame());
    const now = performance.now();
    // With reduced motion the picture steps once a second instead of flowing.
    if (now - this.drawnAt < (this.still.matches ? 1000 : 33)) return;
    this.drawnAt = now;
    this.draw(now);
    if (now - this.toldAt > 1000) {
      this.toldAt = now;
      this.timeline.forget();
      this.tell();
    }
  }

  tell() {
    const lines = this.timeline.sentences().slice(-14);
    if (lines.length === 0) lines.push("Nothing has happened in the last 30 seconds.");
    this.text.replaceChildren(
      ...lines.map((line) => {
        const item = document.createElement("li");
        item.textContent = line;
        return item;
      }),
    );
  }

  draw(now) {
    const { canvas } = this;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    const density = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
      canvas.width = Math.round(width * density);
      canvas.height = Math.round(height * density);
      this.hatch = {};
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    pen.clearRect(0, 0, width, height);
    const left = width < 420 ? 80 : 90;
    const area = { left, right: width - 4, top: 16, bottom: height - 20 };
    const x = (at) => area.right - ((now - at) / WINDOW_MS) * (area.right - area.left);
    const rows = layOut(area);
    this.drawGrid(pen, area, rows, x, now);
    pen.save();
    pen.beginPath();
    pen.rect(area.left, 0, area.right - area.left, height);
    pen.clip();
    for (const span of this.timeline.spans) this.drawSpan(pen, rows[span.lane], span, x, now);
    this.drawLevels(pen, rows.caller, this.timeline.levels.caller, this.colour.caller, x);
    this.drawLevels(pen, rows.agent, this.timeline.levels.agent, this.colour.agent, x);
    for (const mark of this.timeline.marks) this.drawMark(pen, rows[mark.lane], mark, x(mark.at));
    this.drawFences(pen, area, x);
    pen.restore();
  }

  drawGrid(pen, area, rows, x, now) {
    pen.font = `12px ${this.font}`;
    pen.textBaseline = "middle";
    for (const { lane, label } of ROWS) {
      const row = rows[lane];
      pen.fillStyle = this.colour.lane;
      pen.fillRect(area.left, row.top, area.right - area.left, row.height);
      pen.fillStyle = this.colour.ink;
      pen.textAlign = "left";
      pen.fillText(label, 0, row.top + row.height / 2);
    }
    pen.fillStyle = this.colour.muted;
    pen.strokeStyle = this.colour.line;
    pen.lineWidth = 1;
    for (const seconds of [30, 20, 10, 0]) {
      const at = Math.round(x(now - seconds * 1000)) + (seconds === 0 ? -0.5 : 0.5);
      line(pen, at, area.top, area.bottom);
      pen.textAlign = seconds === 0 ? "right" : seconds === 30 ? "left" : "center";
      pen.fillText(seconds === 0 ? "now" : `−${seconds} s`, at, area.bottom + 11);
    }
  }

  drawSpan(pen, row, span, x, now) {
    const from = x(span.from);
    const width = Math.max(2, x(span.to ?? now) - from);
    const inset = span.kind === "sound" ? 0 : 4;
    const top = row.top + inset;
    const height = row.height - 2 * inset;
    if (span.kind === "sound") {
      pen.globalAlpha = 0.22;
      pen.fillStyle = this.colour[span.lane];
      pen.fillRect(from, top, width, height);
      pen.globalAlpha = 1;
      pen.fillRect(from, row.top + row.height - 2, width, 2);
    } else if (span.kind === "waiting") {
      pen.fillStyle = this.hatched(pen, this.colour.wait);
      pen.fillRect(from, top, width, height);
      pen.strokeStyle = this.colour.wait;
      pen.lineWidth = 1;
      pen.strokeRect(from + 0.5, top + 0.5, Math.max(1, width - 1), height - 1);
    } else {
      pen.fillStyle = this.colour.work;
      pen.fillRect(from, top, width, height);
      if (["cancelled", "failed", "quarantined"].includes(span.how)) {
        pen.fillStyle = this.colour.bad;
        pen.fillRect(from + width - 3, row.top + 1, 3, row.height - 2);
      }
    }
  }

  hatched(pen, colour) {
    if (this.hatch[colour]) return this.hatch[colour];
    const tile = document.createElement("canvas");
    tile.width = 6;
    tile.height = 6;
    const brush = tile.getContext("2d");
    brush.strokeStyle = colour;
    brush.lineWidth = 1.6;
    for (const shift of [-6, 0, 6]) {
      brush.beginPath();
      brush.moveTo(shift, 6);
      brush.lineTo(shift + 6, 0);
      brush.stroke();
    }
    this.hatch[colour] = pen.createPattern(tile, "repeat");
    return this.hatch[colour];
  }

  drawLevels(pen, row, levels, colour, x) {
    const middle = row.top + row.height / 2;
    pen.fillStyle = colour;
    for (const { at, rms } of levels) {
      // Loudness in decibels, -50 dBFS is nothing and -10 dBFS fills the lane.
      const share = Math.max(0.04, Math.min(1, (20 * Math.log10(rms) + 50) / 40));
      const half = (share * (row.height - 6)) / 2;
      pen.fillRect(x(at), middle - half, 1.4, 2 * half);
    }
  }

  drawMark(pen, row, mark, at) {
    const middle = row.top + row.height / 2;
    if (mark.kind === "cut") {
      pen.fillStyle = this.colour.bad;
      pen.fillRect(at - 1.5, row.top, 3, row.height);
      return;
    }
    pen.lineWidth = 2.5;
    pen.lineCap = "round";
    if (mark.kind === "typed") {
      pen.fillStyle = this.colour.caller;
      pen.beginPath();
      pen.arc(at, middle, 4, 0, 7);
      pen.fill();
      return;
    }
    pen.strokeStyle = mark.kind === "late" ? this.colour.muted : this.colour.bad;
    pen.beginPath();
    pen.moveTo(at - 4, middle - 4);
    pen.lineTo(at + 4, middle + 4);
    pen.moveTo(at + 4, middle - 4);
    pen.lineTo(at - 4, middle + 4);
    pen.stroke();
  }

  drawFences(pen, area, x) {
    pen.strokeStyle = this.colour.ink;
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    const labels = []; // fences too close for a label each share one
    for (const { at, generation } of this.timeline.fences) {
      const place = x(at);
      line(pen, Math.round(place) + 0.5, area.top - 2, area.bottom);
      const last = labels.at(-1);
      if (last && place - last.place < 24) last.text = `${last.text},${generation}`;
      else labels.push({ place, text: `g${generation}` });
    }
    pen.setLineDash([]);
    pen.font = `600 11px ${this.font}`;
    pen.textAlign = "center";
    pen.fillStyle = this.colour.ink;
    for (const { place, text } of labels) pen.fillText(text, Math.min(place, area.right - 12), 7);
  }
}

function layOut(area) {
  const gap = 5;
  const weight = ROWS.reduce((sum, row) => sum + (row.tall ? 1.7 : 1), 0);
  const unit = (area.bottom - area.top - gap * (ROWS.length - 1)) / weight;
  const rows = {};
  let top = area.top;
  for (const { lane, tall } of ROWS) {
    const height = unit * (tall ? 1.7 : 1);
    rows[lane] = { top, height };
    top += height + gap;
  }
  return rows;
}

function line(pen, x, top, bottom) {
  pen.beginPath();
  pen.moveTo(x, top);
  pen.lineTo(x, bottom);
  pen.stroke();
}
