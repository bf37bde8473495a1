// Microphone and loudspeaker of the page: wraps the audio thread, and does without it where the browser refuses one.

const WIRE_RATE = 24000;

/** Encodes little-endian PCM16 as base64. */
export function toBase64(pcm) {
  const bytes = new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 4096) {
    binary += String.fromCharCode(...bytes.subarray(i, i + 4096));
  }
  return btoa(binary);
}

/** Decodes base64 into PCM16; an odd last byte is dropped. */
export function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length & ~1);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return new Int16Array(bytes.buffer);
}

/** Opens the audio context inside a user gesture; `worklet` says whether the audio thread is there. */
export async function openAudio() {
  const Context = window.AudioContext || window.webkitAudioContext;
  const context = new Context({ latencyHint: "interactive" });
  await context.resume();
  let worklet = false;
  if (context.audioWorklet) {
    await context.audioWorklet.addModule("/worklet.js");
    worklet = true;
  }
  return { context, worklet };
}

/** What went wrong with the microphone, as one word the page has advice for. */
export function microphoneProblem(error) {
  if (!window.isSecureContext) return "insecure";
  if (!navigator.mediaDevices) return "unsupported";
  const name = error ? error.name : "";
  if (name === "NotAllowedError" || name === "SecurityError") return "denied";
  if (name === "NotFoundError" || name === "OverconstrainedError") return "absent";
  if (name === "NotReadableError" || name === "AbortError") return "busy";
  return "unsupported";
}

/** A running microphone: calls `onChunk(pcm, rms)` every 30 ms and `onEnded()` if the device goes away. */
export class Microphone {
  /** `device` is preferred, "" for the system's own. */
  static async open({ context, device, onChunk, onEnded }) {
    if (!window.isSecureContext || !navigator.mediaDevices || !context.audioWorklet) {
      throw new Error("no microphone in this browser context");
    }
    const audio = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    const ask = (wanted) => navigator.mediaDevices.getUserMedia({ audio: { ...audio, ...wanted } });
    let stream;
    try {
      // A mere preference is not heeded by every browser.
      stream = await ask(device ? { deviceId: { exact: device } } : {});
    } catch (error) {
      if (!device || !["OverconstrainedError", "NotFoundError"].includes(error.name)) throw error;
      stream = await ask({}); // the chosen one is not plugged in
    }
    return new Microphone(context, stream, onChunk, onEnded);
  }

  constructor(context, stream, onChunk, onEnded) {
    this.stream = stream;
    this.source = context.createMediaStreamSource(stream);
    this.node = new AudioWorkletNode(context, "floorkeeper-capture", { numberOfOutputs: 0 });
    this.node.port.onmessage = ({ data }) => onChunk(data.pcm, data.rms);
    this.source.connect(this.node);
    for (const track of stream.getTracks()) track.addEventListener("ended", onEnded);
  }

  get track() {
    return this.stream.getAudioTracks()[0];
  }

  get muted() {
    return !this.track.enabled;
  }

  /** Muted is silence, not a gap: the server's clock counts what it receives. */
  set muted(muted) {
    this.track.enabled = !muted;
  }

  close() {
    this.node.port.onmessage = null;
    this.source.disconnect();
    for (const track of this.stream.getTracks()) track.stop();
  }
}

/** The loudspeaker. `hooks`: progress(report), finished(item, playedMs), cleared(cut, droppedMs). */
export function openPlayer({ context, worklet }, hooks) {
  return worklet ? new WorkletPlayer(context, hooks) : new BufferPlayer(context, hooks);
}

class WorkletPlayer {
  constructor(context, hooks) {
    this.context = context;
    this.node = new AudioWorkletNode(context, "floorkeeper-playback", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.node.connect(context.destination);
    this.node.port.onmessage = ({ data }) => {
      if (data.op === "progress") hooks.progress(data);
      if (data.op === "finished") hooks.finished(data.item, data.playedMs);
      if (data.op === "cleared") hooks.cleared(data.cut, data.droppedMs);
    };
  }

  push(item, pcm) {
    this.node.port.postMessage({ op: "push", item, pcm }, [pcm.buffer]);
  }

  end(item) {
    this.node.port.postMessage({ op: "end", item });
  }

  clear() {
    this.node.port.postMessage({ op: "clear" });
  }

  /** The server has to be told what was played. */
  get served() {
    return false;
  }

  pause() {
    this.node.port.postMessage({ op: "pause" });
  }

  resume() {
    this.node.port.postMessage({ op: "resume" });
  }

  /** Sound handed to the device but not yet in the air. */
  latencyMs() {
    return Math.round((this.context.outputLatency || this.context.baseLatency || 0) * 1000);
  }

  close() {
    this.node.port.onmessage = null;
    this.node.disconnect();
  }
}

/** The same loudspeaker from scheduled buffers, for pages on an insecure origin, where browsers offer no audio thread. */
class BufferPlayer {
  constructor(context, hooks) {
    this.context = context;
    this.hooks = hooks;
    this.items = []; // { id, parts: [{ pcm, rms, source, startS }], ended, playedS }
    this.paused = false;
    this.timer = setInterval(() => this.tick(), 50);
    this.tickedS = context.currentTime;
  }

  push(item, pcm) {
    let entry = this.items.find((known) => known.id === item);
    if (!entry) {
      entry = { id: item, parts: [], ended: false, playedS: 0 };
      this.items.push(entry);
    }
    let energy = 0;
    for (const sample of pcm) energy += (sample / 32768) ** 2;
    entry.parts.push({ pcm, rms: Math.sqrt(energy / Math.max(1, pcm.length)), source: null, startS: 0 });
    this.schedule();
  }

  end(item) {
    const entry = this.items.find((known) => known.id === item);
    if (entry) entry.ended = true;
  }

  schedule() {
    if (this.paused) return;
    let nextS = this.context.currentTime + 0.06;
    for (const part of this.items.flatMap((entry) => entry.parts)) {
      const lengthS = part.pcm.length / WIRE_RATE;
      if (!part.source) {
        const buffer = this.context.createBuffer(1, part.pcm.length, WIRE_RATE);
        buffer.getChannelData(0).set(Float32Array.from(part.pcm, (sample) => sample / 32768));
        part.source = this.context.createBufferSource();
        part.source.buffer = buffer;
        part.source.connect(this.context.destination);
        part.startS = nextS;
        part.source.start(nextS);
      }
      nextS = Math.max(nextS, part.startS + lengthS);
    }
  }

  tick() {
    const nowS = this.context.currentTime;
    let audible = null;
    for (const entry of this.items) {
      entry.parts = entry.parts.filter((part) => {
        const lengthS = part.pcm.length / WIRE_RATE;
        const over = part.source && nowS >= part.startS + lengthS;
        if (over) entry.playedS += lengthS;
        else if (part.source && nowS >= part.startS) audible = { entry, part };
        return !over;
      });
    }
    while (this.items.length > 0 && this.items[0].ended && this.items[0].parts.length === 0) {
      const entry = this.items.shift();
      this.hooks.finished(entry.id, Math.round(entry.playedS * 1000));
    }
    this.hooks.progress({
      item: audible ? audible.entry.id : null,
      playedMs: audible ? this.playedMs(audible.entry) : 0,
      queuedMs: this.items.length > 0 ? 1 : 0,
      frames: Math.round((nowS - this.tickedS) * this.context.sampleRate),
      rms: audible ? audible.part.rms : 0,
      audible: audible !== null,
    });
    this.tickedS = nowS;
  }

  playedMs(entry) {
    const part = entry.parts[0];
    const inPartS = part && part.source ? Math.max(0, this.context.currentTime - part.startS) : 0;
    return Math.round((entry.playedS + inPartS) * 1000);
  }

  halt() {
    for (const part of this.items.flatMap((entry) => entry.parts)) {
      if (!part.source) continue;
      part.source.stop();
      part.source.disconnect();
      part.source = null;
    }
  }

  clear() {
    const cut = this.items.map((entry) => ({ item: entry.id, playedMs: this.playedMs(entry) }));
    this.halt();
    this.items = [];
    this.paused = false;
    this.hooks.cleared(cut, 0);
  }

  pause() {
    if (this.paused) return;
    this.paused = true;
    for (const entry of this.items) {
      const part = entry.parts[0];
      const inPartS = part && part.source ? Math.max(0, this.context.currentTime - part.startS) : 0;
      if (inPartS === 0) continue;
      entry.playedS += inPartS;
      part.pcm = part.pcm.slice(Math.round(inPartS * WIRE_RATE));
    }
    this.halt();
  }

  resume() {
    if (!this.paused) return;
    this.paused = false;
    this.schedule();
  }

  get served() {
    return false;
  }

  latencyMs() {
    return 0;
  }

  close() {
    clearInterval(this.timer);
    this.halt();
  }
}
