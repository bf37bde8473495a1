// Reads and writes recordings, of 16 bits a sample and one channel.

import { readFileSync, writeFileSync } from "node:fs";

/** Reads the first channel of a PCM16 WAV; anything else is refused with what it was. */
export function readWav(path) {
  const bytes = readFileSync(path);
  if (bytes.toString("latin1", 0, 4) !== "RIFF") throw new Error(`${path}: not a RIFF WAV file`);
  let format = null;
  for (let at = 12; at + 8 <= bytes.length;) {
    const id = bytes.toString("latin1", at, at + 4);
    const size = bytes.readUInt32LE(at + 4);
    const body = at + 8;
    if (id === "fmt ") {
      format = {
        channels: bytes.readUInt16LE(body + 2),
        rate: bytes.readUInt32LE(body + 4),
        bits: bytes.readUInt16LE(body + 14),
      };
      if (format.bits !== 16) throw new Error(`${path}: ${format.bits} bits a sample, want 16`);
    }
    if (id === "data" && format) {
      const end = Math.min(bytes.length, body + size);
      const frames = Math.floor((end - body) / 2 / format.channels);
      const pcm = new Int16Array(frames);
      for (let i = 0; i < frames; i += 1) pcm[i] = bytes.readInt16LE(body + 2 * i * format.channels);
      return { rate: format.rate, pcm };
    }
    at = body + size + (size & 1);
  }
  throw new Error(`${path}: no data chunk`);
}

/** Writes mono PCM16. */
export function writeWav(target, { rate, pcm }) {
  const out = Buffer.alloc(44 + 2 * pcm.length);
  out.write("RIFF", 0, "latin1");
  out.writeUInt32LE(36 + 2 * pcm.length, 4);
  out.write("WAVEfmt ", 8, "latin1");
  out.writeUInt32LE(16, 16);
  out.writeUInt16LE(1, 20);
  out.writeUInt16LE(1, 22);
  out.writeUInt32LE(rate, 24);
  out.writeUInt32LE(2 * rate, 28);
  out.writeUInt16LE(2, 32);
  out.writeUInt16LE(16, 34);
  out.write("data", 36, "latin1");
  out.writeUInt32LE(2 * pcm.length, 40);
  pcm.forEach((sample, i) => out.writeInt16LE(sample, 44 + 2 * i));
  writeFileSync(target, out);
}

/**
 * Writes the microphone file: silence, the utterance, a gap, the utterance again, silence. Returns
 * when each utterance starts and ends, in seconds.
 */
export function writeMicrophone(source, target, { leadS, gapS, tailS, maxS }) {
  const { rate } = source;
  const spoken = source.pcm.subarray(0, Math.min(source.pcm.length, Math.round(maxS * rate)));
  const spokenS = spoken.length / rate;
  const pcm = new Int16Array(Math.round((leadS + gapS + tailS) * rate) + 2 * spoken.length);
  const [first, second] = [leadS, leadS + spokenS + gapS];
  for (const startS of [first, second]) pcm.set(spoken, Math.round(startS * rate));
  writeWav(target, { rate, pcm });
  return { first: { from: first, to: first + spokenS }, second: { from: second, to: second + spokenS } };
}
