// How the call goes through the network, once a second: the path, a word, and the numbers behind it.

import { Quality, inNumbers, reading } from "/quality.js";

const EVERY_MS = 1000;
const BARS = { good: 3, fair: 2, poor: 1 };
const PATHS = { webrtc: "WebRTC", websocket: "WebSocket" };

export class Line {
  constructor({ box, transcript, debug }) {
    Object.assign(this, { box, transcript, debug });
    [this.path, this.word, this.numbers] = ["path", "word", "numbers"].map((name) =>
      document.getElementById(`line-${name}`),
    );
  }

  /** Shows this call from now on; a call that is shown already goes on. */
  start(call, path) {
    if (this.shows(call)) return;
    this.stop();
    this.call = call;
    this.isSilent = false;
    this.quality = new Quality();
    this.box.hidden = false;
    this.path.textContent = `Over ${PATHS[path]}:`;
    this.say("unknown", path === "webrtc" ? "measuring" : "connected", "");
    if (path === "webrtc") this.timer = setInterval(() => this.measure(call), EVERY_MS);
    else this.numbers.textContent = " (the browser measures no quality here)";
  }

  /** Nothing comes through, whatever was measured last. */
  silent(is) {
    this.isSilent = is;
    if (is) this.say("unknown", "silent", "");
  }

  /** The call is lost, and another is to come. */
  lost() {
    clearInterval(this.timer);
    this.call = null;
    this.say("unknown", "not connected", "");
  }

  shows(call) {
    return this.call === call;
  }

  stop() {
    clearInterval(this.timer);
    this.call = null;
    this.box.hidden = true;
  }

  async measure(call) {
    const report = await call.wire.stats();
    if (!report || call !== this.call) return;
    const quality = this.quality.add(reading(report));
    this.debug.state.line = quality;
    if (quality.word !== "unknown" && !this.isSilent) this.say(quality.word, quality.word, `: ${inNumbers(quality)}`);
  }

  say(grade, word, numbers) {
    if (grade === "poor" && this.grade !== "poor") this.transcript.announce("The network is poor.");
    this.grade = grade;
    this.box.dataset.bars = BARS[grade] ?? 0;
    this.word.textContent = word;
    this.numbers.textContent = numbers;
  }
}
