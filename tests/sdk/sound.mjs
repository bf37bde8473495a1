// A recording as a microphone gives it: frames of 20 ms, 24 kHz mono.
import { readWav } from './wav.mjs'; // of ../browser, copied here by ./run

const RATE_HZ = 24_000;
const FRAME_SAMPLES = RATE_HZ / 50;
export const SILENCE = new ArrayBuffer(FRAME_SAMPLES * 2);

/** The frames of a 16-bit WAV file. */
export function readFrames(path) {
  const { rate, pcm } = readWav(path);
  const sample = (n) => pcm[Math.min(n, pcm.length - 1)];
  const count = Math.floor((pcm.length * RATE_HZ) / rate);
  const sound = new Int16Array(Math.ceil(count / FRAME_SAMPLES) * FRAME_SAMPLES);
  for (let n = 0; n < count; n++) {
    const at = (n * rate) / RATE_HZ;
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
