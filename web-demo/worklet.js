// The audio thread of the talk page: microphone -> 24 kHz PCM16, and a playback queue that forgets at once when told to.

const WIRE_RATE = 24000;
const CHUNK_SAMPLES = 720; // 30 ms of microphone in one message
const PREBUFFER_SAMPLES = 1440; // 60 ms before an answer starts, so that a late packet is not a click
const REPORT_S = 0.05; // seconds between two reports to the page
const PHASES = 256;

/** A streaming windowed-sinc converter between two sample rates. */
class Resampler {
  constructor(from, to) {
    this.step = from / to;
    const cutoff = Math.min(1, to / from);
    this.half = Math.ceil(12 / cutoff);
    this.taps = 2 * this.half;
    this.kernels = kernels(this.half, cutoff * 0.95);
    this.reset();
  }

  reset() {
    this.window = new Float32Array(2 * this.taps);
    this.head = 0;
    this.position = 1;
  }

  push(sample) {
    // Written twice so that the newest `taps` samples are always one contiguous run.
    this.window[this.head] = sample;
    this.window[this.head + this.taps] = sample;
    this.head = (this.head + 1) % this.taps;
    this.position -= 1;
  }

  /** Takes one output sample; only valid while `position < 1`. */
  take() {
    const kernel = this.kernels[Math.min(PHASES - 1, Math.floor(this.position * PHASES))];
    let sum = 0;
    for (let tap = 0; tap < this.taps; tap += 1) sum += this.window[this.head + tap] * kernel[tap];
    this.position += this.step;
    return sum;
  }
}

function kernels(half, cutoff) {
  const table = [];
  for (let phase = 0; phase < PHASES; phase += 1) {
    const kernel = new Float32Array(2 * half);
    let total = 0;
    for (let tap = 0; tap < 2 * half; tap += 1) {
      const x = tap - (half - 1) - phase / PHASES;
      const sinc = x === 0 ? 1 : Math.sin(Math.PI * cutoff * x) / (Math.PI * cutoff * x);
      const u = (x + half) / (2 * half);
      const blackman = 0.42 - 0.5 * Math.cos(2 * Math.PI * u) + 0.08 * Math.cos(4 * Math.PI * u);
      kernel[tap] = sinc * Math.max(0, blackman);
      total += kernel[tap];
    }
    for (let tap = 0; tap < 2 * half; tap += 1) kernel[tap] /= total;
    table.push(kernel);
  }
  return table;
}

/** Posts `{pcm: Int16Array, rms}` every 30 ms of microphone. */
class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(sampleRate, WIRE_RATE);
    this.chunk = new Int16Array(CHUNK_SAMPLES);
    this.filled = 0;
    this.energy = 0;
  }

  process(inputs) {
    const channels = inputs[0];
    if (channels.length === 0) return true;
    const scale = 1 / channels.length;
    for (let i = 0; i < channels[0].length; i += 1) {
      let mono = 0;
      for (const channel of channels) mono += channel[i] * scale;
      this.resampler.push(mono);
      while (this.resampler.position < 1) this.write(this.resampler.take());
    }
    return true;
  }

  write(sample) {
    const clipped = Math.max(-1, Math.min(1, sample));
    this.chunk[this.filled] = Math.round(clipped * 32767);
    this.energy += clipped * clipped;
    this.filled += 1;
    if (this.filled < CHUNK_SAMPLES) return;
    const rms = Math.sqrt(this.energy / CHUNK_SAMPLES);
    this.port.postMessage({ pcm: this.chunk, rms }, [this.chunk.buffer]);
    this.chunk = new Int16Array(CHUNK_SAMPLES);
    this.filled = 0;
    this.energy = 0;
  }
}

/**
 * Plays queued answers in order. In: push, end, clear, pause, resume.
 * Out: progress (20 a second while something is known), finished (an item was played to its end), cleared.
 */
class Playback extends AudioWorkletProcessor {
  constructor() {
    super();
    this.resampler = new Resampler(WIRE_RATE, sampleRate);
    this.items = []; // { id, chunks, at, played, ended } in playing order
    this.queued = 0;
    this.waited = 0;
    this.running = false;
    this.paused = false;
    this.starved = 0;
    this.last = 0;
    this.gain = 0;
    this.energy = 0;
    this.sinceReport = 0;
    this.port.onmessage = ({ data }) => this[data.op](data);
  }

  push({ item, pcm }) {
    let entry = this.items.find((known) => known.id === item);
    if (!entry) {
      entry = { id: item, chunks: [], at: 0, played: 0, ended: false };
      this.items.push(entry);
    }
    entry.chunks.push(pcm);
    this.queued += pcm.length;
  }

  end({ item }) {
    const entry = this.items.find((known) => known.id === item);
    if (entry) entry.ended = true;
    this.settle();
  }

  pause() {
    this.paused = true;
    this.gain = 0;
  }

  resume() {
    this.paused = false;
  }

  clear({ token }) {
    const cut = this.items.map((entry) => ({ item: entry.id, playedMs: toMs(entry.played) }));
    const droppedMs = toMs(this.queued);
    this.items = [];
    this.queued = 0;
    this.running = false;
    this.paused = false;
    this.gain = 0;
    this.resampler.reset();
    this.port.postMessage({ op: "cleared", token, cut, droppedMs });
  }

  /** The next sample of the queue at the wire rate, or null when there is none. */
  read() {
    for (const entry of this.items) {
      const chunk = entry.chunks[0];
      if (chunk) {
        const sample = chunk[entry.at] / 32768;
        entry.at += 1;
        entry.played += 1;
        this.queued -= 1;
        if (entry.at === chunk.length) {
          entry.chunks.shift();
          entry.at = 0;
        }
        return sample;
      }
      if (!entry.ended) return null; // its next audio is still on the way
    }
    return null;
  }

  settle() {
    while (this.items.length > 0 && this.items[0].ended && this.items[0].chunks.length === 0) {
      const entry = this.items.shift();
      this.port.postMessage({ op: "finished", item: entry.id, playedMs: toMs(entry.played) });
    }
  }

  ready(frames) {
    if (this.running || this.queued === 0) return;
    this.waited += frames / sampleRate;
    const enough = this.queued >= PREBUFFER_SAMPLES || this.waited > 0.06;
    if (enough || this.items.every((entry) => entry.ended)) {
      this.running = true;
      this.waited = 0;
    }
  }

  nextSample() {
    if (!this.running || this.paused) return null;
    while (this.resampler.position >= 1) {
      let sample = this.read();
      if (sample === null) {
        if (this.queued > 0) return null;
        this.starved += 1;
        if (this.starved > this.resampler.taps) {
          this.starved = 0;
          this.running = false;
          return null;
        }
        sample = 0; // push the converter's tail out before stopping
      } else {
        this.starved = 0;
      }
      this.resampler.push(sample);
    }
    return this.resampler.take();
  }

  process(_inputs, outputs) {
    const out = outputs[0][0];
    this.ready(out.length);
    for (let i = 0; i < out.length; i += 1) {
      const sample = this.nextSample();
      if (sample === null) {
        this.last *= 0.96; // a millisecond of decay instead of a click
      } else {
        this.gain = Math.min(1, this.gain + 0.008);
        this.last = sample * this.gain;
      }
      out[i] = this.last;
      this.energy += this.last * this.last;
    }
    for (let channel = 1; channel < outputs[0].length; channel += 1) outputs[0][channel].set(out);
    this.settle();
    this.report(out.length);
    return true;
  }

  report(frames) {
    this.sinceReport += frames;
    if (this.sinceReport < REPORT_S * sampleRate) return;
    const rms = Math.sqrt(this.energy / this.sinceReport);
    const current = this.items[0];
    this.port.postMessage({
      op: "progress",
      item: current ? current.id : null,
      playedMs: current ? toMs(current.played) : 0,
      queuedMs: toMs(this.queued),
      frames: this.sinceReport,
      rms,
      audible: this.running && !this.paused,
    });
    this.energy = 0;
    this.sinceReport = 0;
  }
}

function toMs(samples) {
  return Math.round((samples * 1000) / WIRE_RATE);
}

registerProcessor("floorkeeper-capture", Capture);
registerProcessor("floorkeeper-playback", Playback);
