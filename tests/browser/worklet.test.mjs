// The audio thread without a browser: node --test worklet.test.mjs

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

const SOURCE = readFileSync(new URL("../../web-demo/worklet.js", import.meta.url), "utf8");

/** Loads the worklet for a context rate; returns its two processors, each with its posts collected. */
function load(sampleRate) {
  const made = {};
  class AudioWorkletProcessor {
    constructor() {
      this.posts = [];
      this.port = { postMessage: (message) => this.posts.push(message), onmessage: null };
    }
  }
  const scope = { sampleRate, AudioWorkletProcessor, registerProcessor: (name, type) => (made[name] = type) };
  vm.runInNewContext(SOURCE, scope);
  return { capture: new made["floorkeeper-capture"](), playback: new made["floorkeeper-playback"]() };
}

function tone(hz, rate, seconds, level = 0.5) {
  return Float32Array.from(
    { length: Math.round(rate * seconds) },
    (_, i) => level * Math.sin((2 * Math.PI * hz * i) / rate),
  );
}

function pcm16(samples) {
  return Int16Array.from(samples, (sample) => Math.round(sample * 32767));
}

function record(capture, samples) {
  for (let at = 0; at + 128 <= samples.length; at += 128) capture.process([[samples.subarray(at, at + 128)]]);
  return Float32Array.from(
    capture.posts.flatMap(({ pcm }) => [...pcm]),
    (sample) => sample / 32767,
  );
}

function play(playback, blocks) {
  const out = [];
  for (let i = 0; i < blocks; i += 1) {
    const block = new Float32Array(128);
    playback.process([], [[block]]);
    out.push(...block);
  }
  return out;
}

function tell(playback, message) {
  playback.port.onmessage({ data: message });
}

/** Share of the energy that is not the tone, in decibels. */
function distortionDb(samples, hz, rate) {
  let sin = 0;
  let cos = 0;
  samples.forEach((sample, i) => {
    sin += sample * Math.sin((2 * Math.PI * hz * i) / rate);
    cos += sample * Math.cos((2 * Math.PI * hz * i) / rate);
  });
  const scale = 2 / samples.length;
  let rest = 0;
  let all = 0;
  samples.forEach((sample, i) => {
    const angle = (2 * Math.PI * hz * i) / rate;
    const fit = scale * (sin * Math.sin(angle) + cos * Math.cos(angle));
    rest += (sample - fit) ** 2;
    all += sample ** 2;
  });
  return 10 * Math.log10(rest / all);
}

for (const rate of [16000, 44100, 48000, 96000]) {
  test(`the microphone at ${rate} Hz becomes a clean 24 kHz tone`, () => {
    const { capture } = load(rate);
    const heard = record(capture, tone(1000, rate, 1)).subarray(2400, 21600);
    assert.ok(Math.abs(heard.length - 19200) < 1000, `${heard.length} samples`);
    const db = distortionDb([...heard], 1000, 24000);
    assert.ok(db < -55, `distortion ${db.toFixed(1)} dB`);
  });

  test(`an answer played at ${rate} Hz stays a clean tone`, () => {
    const { playback } = load(rate);
    tell(playback, { op: "push", item: "a", pcm: pcm16(tone(1000, 24000, 1)) });
    const heard = play(playback, Math.floor((rate * 0.9) / 128)).slice(Math.round(rate * 0.1));
    const db = distortionDb(heard, 1000, rate);
    assert.ok(db < -50, `distortion ${db.toFixed(1)} dB`);
  });
}

test("what is above 12 kHz does not fold back into the microphone's speech band", () => {
  const { capture } = load(48000);
  const heard = record(capture, tone(17000, 48000, 1)).subarray(2400);
  const rms = Math.sqrt(heard.reduce((sum, sample) => sum + sample ** 2, 0) / heard.length);
  assert.ok(rms < 0.5 * 0.7 * 10 ** (-50 / 20), `rms ${rms}`);
});

test("after a clear nothing of the old answer sounds, and the cut says what was played", () => {
  const { playback } = load(48000);
  tell(playback, { op: "push", item: "a", pcm: pcm16(tone(440, 24000, 2)) });
  tell(playback, { op: "push", item: "b", pcm: pcm16(tone(440, 24000, 1)) });
  play(playback, 187); // half a second
  tell(playback, { op: "clear" });
  const after = play(playback, 40);
  const late = Math.max(...after.slice(480).map(Math.abs)); // 10 ms for the decay of one sample
  assert.ok(late < 1e-4, `still ${late} after 10 ms`);
  const { cut, droppedMs } = playback.posts.find(({ op }) => op === "cleared");
  assert.equal(JSON.stringify(cut.map(({ item }) => item)), '["a","b"]');
  assert.ok(Math.abs(cut[0].playedMs - 499) <= 5, `played ${cut[0].playedMs} ms`);
  assert.equal(cut[1].playedMs, 0);
  assert.ok(Math.abs(droppedMs - 2501) <= 5, `dropped ${droppedMs} ms`);
});

test("a pause is silent, keeps its place, and goes on where it stopped", () => {
  const { playback } = load(48000);
  tell(playback, { op: "push", item: "a", pcm: pcm16(tone(440, 24000, 1)) });
  tell(playback, { op: "end", item: "a" });
  play(playback, 100);
  tell(playback, { op: "pause" });
  const silent = play(playback, 100).slice(480);
  assert.ok(Math.max(...silent.map(Math.abs)) < 1e-4);
  const playedMs = playback.posts.filter(({ op }) => op === "progress").at(-1).playedMs;
  assert.ok(Math.abs(playedMs - 267) <= 5, `at ${playedMs} ms`);
  tell(playback, { op: "resume" });
  const rest = play(playback, 300);
  assert.ok(Math.max(...rest.map(Math.abs)) > 0.4);
  const finished = playback.posts.find(({ op }) => op === "finished");
  assert.equal(finished.item, "a");
  assert.equal(finished.playedMs, 1000);
});

test("audio that arrives in pieces is played whole, and the next answer starts after it", () => {
  const { playback } = load(48000);
  for (let i = 0; i < 25; i += 1) {
    tell(playback, { op: "push", item: "a", pcm: pcm16(tone(300, 24000, 0.04)) });
    play(playback, 15); // 40 ms
  }
  tell(playback, { op: "end", item: "a" });
  tell(playback, { op: "push", item: "b", pcm: pcm16(tone(300, 24000, 0.2)) });
  tell(playback, { op: "end", item: "b" });
  play(playback, 150);
  const finished = playback.posts.filter(({ op }) => op === "finished");
  assert.equal(JSON.stringify(finished.map(({ item, playedMs }) => [item, playedMs])), '[["a",1000],["b",200]]');
});
