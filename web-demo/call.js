// One call from the page's side: what each event means for the loudspeaker, the transcript and the lanes.

import { fromBase64 } from "/audio.js";

const HEARD_EVERY_MS = 500;
const CANCEL_WAIT_MS = 1500;

/**
 * `open(hooks)` gives the wire, WebSocket or peer connection; `before` is the same call as its lost connection left it.
 * `hooks`: state(name), track(stream), shaky(bool),
 * ended({kind, code, reason, begun, unsaid}), note(text, tone). `transcript`, `timeline` and `debug` are told what happened as it happens.
 */
export class Call {
  constructor({ open, player, transcript, timeline, debug, hooks, before }) {
    this.player = player;
    this.transcript = transcript;
    this.timeline = timeline;
    this.debug = debug;
    this.hooks = hooks;
    this.ready = false;
    this.over = false;
    this.answering = null; // id of the response being produced
    this.answered = new Map(); // item id -> { cut, gone, finished, reportedMs }
    this.waitingTexts = [];
    this.capturedMs = 0;
    this.clearedAt = null;
    this.silenced = true; // nothing of an old answer is left in the loudspeaker
    this.turnEndedAt = null;
    this.refusal = null;
    this.items = new Map(); // response id -> the item whose sound it makes
    this.resumes = Boolean(before);
    if (before) {
      const { answered, items, generation, capturedMs } = before;
      Object.assign(this, { answered, items, generation, capturedMs });
    }
    this.wire = open({
      opened: () => {},
      event: (event) => this.receive(event),
      track: hooks.track,
      shaky: (is) => this.over || hooks.shaky(is),
      closed: (how) => this.closed(how),
    });
    this.show("connecting");
  }

  show(state) {
    this.state = state;
    this.hooks.state(state);
  }

  // --- the caller's side -------------------------------------------------------------------------------------------

  /** One chunk of microphone. */
  hear(pcm, rms) {
    this.timeline.level("caller", rms);
    if (!this.ready) return;
    if (!this.wire.sound(pcm)) {
      this.debug.count("microphone_dropped");
      return;
    }
    this.capturedMs += (pcm.length * 1000) / 24000;
    this.debug.count("microphone_chunk");
  }

  /** A typed turn takes the floor like a spoken one. */
  say(text) {
    this.waitingTexts.push(text);
    if (!this.ready) return;
    this.timeline.mark("typed");
    // Where the server plays out it says when it has stopped.
    this.silenced = this.player.served && !this.player.busy;
    this.player.clear();
    if (this.answering) this.wire.send({ type: "response.cancel" });
    if (!this.silenced && this.player.served) this.wire.send({ type: "output_audio_buffer.clear" });
    this.cancelTimer = setTimeout(() => this.flushTexts(), CANCEL_WAIT_MS);
    this.flushWhenSilent();
  }

  /** The old answer must be cut and closed first, or the new turn's history would hold words nobody heard. */
  flushWhenSilent() {
    if (this.silenced && !this.answering) this.flushTexts();
  }

  flushTexts() {
    clearTimeout(this.cancelTimer);
    if (!this.ready || this.waitingTexts.length === 0) return;
    for (const text of this.waitingTexts.splice(0)) {
      this.wire.send({
        type: "conversation.item.create",
        item: { type: "message", role: "user", content: [{ type: "input_text", text }] },
      });
    }
    this.wire.send({ type: "response.create" });
    this.turnEndedAt = performance.now();
    this.show("thinking");
  }

  hangUp() {
    this.finish({ kind: "hung_up" });
    this.wire.close();
  }

  // --- the loudspeaker's side --------------------------------------------------------------------------------------

  progress(report) {
    this.timeline.level("agent", report.audible ? report.rms : 0);
    this.debug.played(report);
    const audible = report.audible && report.item !== null;
    if (audible && !this.wasAudible) this.startedSpeaking(report.item);
    if (!audible && this.wasAudible) this.fellSilent();
    this.wasAudible = audible;
    if (!audible) return;
    const entry = this.answer(report.item);
    if (report.playedMs - entry.reportedMs >= HEARD_EVERY_MS) this.reportHeard(report.item, report.playedMs);
  }

  startedSpeaking(item) {
    this.timeline.begin("agent", item);
    if (this.turnEndedAt !== null) {
      const ms = Math.round(performance.now() - this.turnEndedAt);
      this.turnEndedAt = null;
      this.debug.firstSound(ms);
      this.transcript.firstSound(item, ms);
    }
    this.show("speaking");
  }

  fellSilent() {
    this.timeline.end("agent");
    if (this.state === "speaking" && !this.over && !this.paused) this.show(this.answering ? "thinking" : "listening");
  }

  /** An answer was played to its end. */
  finished(item, playedMs) {
    const entry = this.answer(item);
    entry.finished = true;
    this.reportHeard(item, playedMs + this.player.latencyMs());
    this.transcript.finished(item);
  }

  /** The loudspeaker forgot these answers; the server learns how much of each was heard. */
  cleared(cut, droppedMs) {
    this.debug.cleared(droppedMs);
    for (const { item, playedMs } of cut) {
      const entry = this.answer(item);
      if (entry.finished || entry.cut) continue;
      if (this.player.served) continue; // the server truncates by itself, and says where
      entry.cut = true;
      this.reportHeard(item, playedMs);
      this.wire.send({
        type: "conversation.item.truncate",
        item_id: item,
        content_index: 0,
        audio_end_ms: this.heardMs(playedMs),
      });
      this.transcript.cut(item, this.heardMs(playedMs));
    }
    if (cut.length > 0) this.timeline.cut("agent");
    this.silenced = true;
    this.flushWhenSilent();
  }

  heardMs(playedMs) {
    return Math.max(0, playedMs - this.player.latencyMs());
  }

  reportHeard(item, playedMs) {
    const heard = this.heardMs(playedMs);
    this.answer(item).reportedMs = playedMs;
    this.debug.heard(item, heard);
    if (this.extras && !this.player.served) this.wire.send({ type: "floorkeeper.heard", item_id: item, played_ms: heard });
  }

  answer(item) {
    if (!this.answered.has(item)) {
      this.answered.set(item, { cut: false, gone: false, finished: false, reportedMs: 0 });
    }
    return this.answered.get(item);
  }

  // --- the server's side -------------------------------------------------------------------------------------------

  receive(event) {
    this.debug.event(event);
    if (/^response\.(output_audio|content_part)/.test(event.type)) this.items.set(event.response_id, event.item_id);
    const handler = HANDLERS[event.type];
    if (handler && !this.over) handler(this, event);
  }

  rotate(generation) {
    if (typeof generation !== "number" || generation <= (this.generation ?? -1)) return;
    if (this.generation !== undefined) this.timeline.fence(generation, this.clearedAt ?? performance.now());
    this.generation = generation;
    this.clearedAt = null;
  }

  audio(event) {
    const entry = this.answer(event.item_id);
    // What the server sent before it heard of our own cut is on its way; behind its clear nothing may come.
    if (entry.gone) this.debug.count("audio_after_clear");
    if (entry.cut) return;
    if (this.paused && entry.reportedMs === 0) this.unpause();
    const pcm = fromBase64(event.delta);
    this.debug.received(pcm.length);
    this.transcript.audio(event.item_id, Math.round((pcm.length * 1000) / 24000));
    this.player.push(event.item_id, pcm);
  }

  unpause() {
    this.paused = false;
    this.player.resume();
  }

  admission(event) {
    this.rotate(event.generation);
    const refused = this.timeline.stage(event);
    if (!refused) return;
    const { gate, disposition, reason } = event;
    this.notedRefusal = true;
    if (gate === "call") this.refusal = { gate, disposition, reason };
    this.hooks.note(
      `${gateName(gate)} refused this turn: ${words(disposition)}${reason ? ` (${words(reason)})` : ""}.`,
      "refused",
    );
  }

  playout(event) {
    if (event.state === "paused") {
      this.paused = true;
      this.player.pause();
      this.show("paused");
    } else if (event.state === "resumed") {
      this.unpause();
    } else if (event.state === "cleared") {
      this.paused = false;
      this.clearedAt = performance.now(); // the generation that did this may be named only later
      if (event.item_id) this.answer(event.item_id).gone = true;
      this.player.clear();
    }
  }

  failed(event) {
    const { code, message } = event.error || {};
    if (code === "response_cancel_not_active") return;
    if (/^(admission_|draining)/.test(code || "")) this.refusal = { gate: "call", disposition: code, message };
    else this.hooks.note(`The server says: ${message || code}`, "refused");
  }

  /** Answers that the lost connection cut; the server knows how much of each was heard. */
  cutLost() {
    for (const [item, entry] of this.answered) {
      if (entry.finished || entry.cut) continue;
      entry.cut = true;
      this.transcript.cut(item, this.heardMs(entry.reportedMs));
      this.wire.send({ type: "conversation.item.retrieve", item_id: item });
    }
  }

  closed({ code, reason, opened, refusal, fallback, stale }) {
    if (this.over) return;
    this.refusal = this.refusal || refusal;
    if (stale) {
      this.finish({ kind: "stale", reason });
    } else if (fallback && this.wire.ticket) {
      this.finish({ kind: "lost", reason: fallback });
    } else if (fallback) {
      this.finish({ kind: "no_path", reason: fallback });
    } else if (this.refusal || code === 1013 || code === 1012) {
      this.finish({ kind: "refused", code, reason, refusal: this.refusal });
    } else if (!opened || !this.ready) {
      this.finish({ kind: "unreachable", code, reason });
    } else if (code === 1000) {
      this.finish({ kind: "ended", code, reason });
    } else {
      this.finish({ kind: "lost", code, reason });
    }
  }

  finish(how) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.cancelTimer);
    this.player.clear();
    this.timeline.endAll();
    this.transcript.endAll();
    this.hooks.ended({ ...how, call: this, begun: this.ready, unsaid: this.waitingTexts });
  }
}

const HANDLERS = {
  "session.created": (call) => {
    call.ready = true;
    call.wire.send({
      type: "session.update",
      session: {
        type: "realtime",
        audio: { input: { transcription: { model: "default" } } },
        floorkeeper: { events: true },
      },
    });
    call.show("listening");
    if (call.resumes) call.cutLost();
    call.flushTexts();
  },
  "session.updated": (call, event) => {
    call.extras = Boolean(event.session?.floorkeeper?.events);
  },
  "input_audio_buffer.speech_started": (call, event) => {
    // The server says when speech began on the clock of the sound it was sent, before it was sure.
    const agoMs = call.capturedMs - event.audio_start_ms;
    call.timeline.begin("caller", event.item_id, Math.max(0, Math.min(5000, agoMs || 0)));
    call.transcript.caller(event.item_id, "");
    call.paused = false;
    call.player.clear();
    call.show("hearing");
  },
  "input_audio_buffer.speech_stopped": (call) => {
    call.timeline.end("caller");
    call.turnEndedAt = performance.now();
    call.show("thinking");
  },
  "input_audio_buffer.committed": (call) => call.timeline.end("caller"),
  "conversation.item.added": (call, { item }) => {
    if (item.type !== "message" || item.role !== "user") return;
    const typed = item.content.filter((part) => part.type === "input_text").map((part) => part.text);
    if (typed.length > 0) call.transcript.callerDone(item.id, typed.join(" "));
    else call.transcript.caller(item.id, "");
  },
  "conversation.item.input_audio_transcription.delta": (call, event) =>
    call.transcript.caller(event.item_id, event.delta),
  "conversation.item.input_audio_transcription.completed": (call, event) =>
    call.transcript.callerDone(event.item_id, event.transcript),
  "conversation.item.input_audio_transcription.failed": (call, event) => {
    call.transcript.callerDone(event.item_id, "");
    call.hooks.note(`Recognition failed: ${event.error?.message || "no reason given"}`, "refused");
  },
  "response.created": (call, event) => {
    call.answering = event.response.id;
    call.notedRefusal = false;
    call.show("thinking");
  },
  "response.output_audio_transcript.delta": (call, event) => call.transcript.agent(event.item_id, event.delta),
  "response.output_audio_transcript.done": (call, event) =>
    call.transcript.agentDone(event.item_id, event.transcript),
  "response.output_text.delta": (call, event) => call.transcript.agent(event.item_id, event.delta),
  "response.output_text.done": (call, event) => call.transcript.agentDone(event.item_id, event.text),
  "response.output_audio.delta": (call, event) => call.audio(event),
  "response.output_audio.done": (call, event) => call.player.end(event.item_id),
  "response.done": (call, event) => {
    if (call.answering === event.response.id) call.answering = null;
    call.debug.responseDone(event.response);
    if (event.response.status === "failed") {
      const { code, message } = event.response.status_details?.error || {};
      if (!call.notedRefusal) call.hooks.note(`No answer: ${message || words(code) || "the turn failed"}`, "refused");
    }
    if (call.waitingTexts.length > 0) call.flushWhenSilent();
    else if (!call.wasAudible && call.state === "thinking") call.show("listening");
  },
  "output_audio_buffer.started": (call, event) => {
    const item = call.items.get(event.response_id) ?? event.response_id;
    call.transcript.audio(item, 0);
    call.player.started(item);
  },
  "output_audio_buffer.stopped": (call) => call.player.stopped(),
  "output_audio_buffer.cleared": (call) => call.player.cleared(),
  "conversation.item.truncated": (call, event) => {
    const entry = call.answer(event.item_id);
    if (!entry.cut) {
      entry.cut = true;
      call.debug.heard(event.item_id, event.audio_end_ms);
      call.transcript.cut(event.item_id, event.audio_end_ms);
    }
    // The server maps sound to words better than the page can guess.
    call.wire.send({ type: "conversation.item.retrieve", item_id: event.item_id });
  },
  "conversation.item.retrieved": (call, { item }) => {
    if (item.role !== "assistant") return;
    const text = item.content.map((part) => part.transcript ?? part.text ?? "").join(" ");
    call.transcript.heard(item.id, text);
  },
  "floorkeeper.admission": (call, event) => call.admission(event),
  "floorkeeper.playout": (call, event) => call.playout(event),
  "floorkeeper.turn": (call, event) => call.rotate(event.generation),
  "floorkeeper.late_output": (call, event) => call.timeline.late(event.stage),
  "floorkeeper.fallback": (call, event) =>
    call.hooks.note(
      `Fallback: ${words(event.rung)}, ${words(event.outcome)}${event.prompt ? ` (prompt ${event.prompt})` : ""}.`,
      "fallback",
    ),
  error: (call, event) => call.failed(event),
};

/** A gate's name as a person would say it. */
export function gateName(gate) {
  if (gate.startsWith("tool:")) return `Tool ${gate.slice(5)}`;
  return gate.charAt(0).toUpperCase() + gate.slice(1);
}

/** `queue_full` -> "queue full". */
export function words(name) {
  return String(name || "").replaceAll("_", " ");
}
