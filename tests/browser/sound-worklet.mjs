// Takes two inputs on one clock, a side each; an input that is not there yet is silent.

const CHUNK = 2400;

class Both extends AudioWorkletProcessor {
  constructor() {
    super();
    this.begin();
  }

  begin() {
    this.sides = [new Float32Array(CHUNK), new Float32Array(CHUNK)];
    this.filled = 0;
  }

  process(inputs) {
    const length = 128;
    for (let i = 0; i < length; i += 1) {
      this.sides.forEach((samples, side) => (samples[this.filled] = inputs[side][0]?.[i] ?? 0));
      this.filled += 1;
      if (this.filled < CHUNK) continue;
      const first = currentFrame + i + 1 - CHUNK;
      this.port.postMessage({ first, sides: this.sides }, this.sides.map((samples) => samples.buffer));
      this.begin();
    }
    return true;
  }
}

registerProcessor("both", Both);
