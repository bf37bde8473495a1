// A recording as a microphone gives it: frames of 20 ms, 24 kHz mono.
import { readFileSync } from 'node:fs';

export const RATE_HZ = 24_000;
const FRAME_SAMPLES = RATE_HZ / 50;
export const SILENCE = new ArrayBuffer(FRAME_SAMPLES * 2);

/** The frames of a 16-bit WAV file. */
export function readWav(path) {
  const file = readFileSync(path);
  if (file.toString('latin1', 0, 4) !== 'RIFF') throw new Error(`${path} is not a WAV file`);
  let format;
  let data;
  for (let at = 12; at + 8 <= file.length; ) {
    const size = file.readUInt32LE(at + 4);
    const name = file.toString('latin1', at, at + 4);
    const body = file.subarray(at + 8, at + 8 + size);
    if (name === 'fmt ') {
      format = { channels: body.readUInt16LE(2), rate: body.readUInt32LE(4), bits: body.readUInt16LE(14) };
    } else if (name === 'data') data = body;
    at += 8 + size + (size % 2);
  }
  if (!format || !data || format.bits !== 16) throw new Error(`${path}: 16-bit PCM is right`);
  const frames = Math.floor(data.length / 2 / format.channels);
  const sample = (n) => data.readInt16LE(2 * format.channels * Math.min(n, frames - 1));
  const count = Math.floor((frames * RATE_HZ) / format.rate);
  const sound = new Int16Array(Math.ceil(count / FRAME_SAMPLES) * FRAME_SAMPLES);
  for (let n = 0; n < count; n++) {
    const at = (n * format.rate) / RATE_HZ;
    const left = Math.floor(at);
    sound[n] = Math.round(sample(left) + (sample(left + 1) - sample(left)) * (at - left));
  }
  const cut = [];
  for (let n = 0; n < sound.length; n += FRAME_SAMPLES) {
    cut.push(sound.slice(n, n + FRAME_SAMPLES).buffer);
  }
  return cut;
}

/** Hands `send` a frame every 20 ms: what is in `toSay`, else silence. Gives what stops it. */
export function openMicrophone(toSay, send) {
  let due = performance.now();
  const speak = () => {
    while (due <= performance.now()) {
      send(toSay.shift() ?? SILENCE);
      due += 20;
    }
  };
  const timer = setInterval(speak, 20);
  return () => clearInterval(timer);
}
