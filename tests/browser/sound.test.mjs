// How recordings of calls are measured: node --test sound.test.mjs

import assert from "node:assert/strict";
import { test } from "node:test";
import { audible, median, stopMs, utterances, wordErrors } from "./sound-measure.mjs";

const RATE = 24000;

/** Sound that is audible in the given spans, in ms. */
function sound(lengthMs, ...spans) {
  const samples = new Float32Array((lengthMs * RATE) / 1000);
  for (const [from, to] of spans) samples.fill(0.1, (from * RATE) / 1000, (to * RATE) / 1000);
  return audible(samples, RATE);
}

test("an utterance with pauses is one, and begins with its first audible frame", () => {
  const frames = sound(6000, [1000, 1500], [1900, 2600], [4000, 4500]);
  assert.deepEqual(utterances(frames), [
    { from: 1000, to: 2600 },
    { from: 4000, to: 4500 },
  ]);
});

test("an answer stops with its last audible frame under the caller's words", () => {
  const caller = { from: 2000, to: 4000 };
  assert.equal(stopMs(sound(6000, [500, 2180]), caller), 180);
  assert.equal(stopMs(sound(6000, [500, 2180], [3000, 3100]), caller), 1100, "sound that comes back counts");
  assert.equal(stopMs(sound(6000, [500, 2180], [4500, 6000]), caller), 180, "the next answer does not");
  assert.equal(stopMs(sound(6000, [500, 6000]), caller), 2000, "nor does an answer that never stops pass");
  assert.equal(stopMs(sound(6000, [500, 1800]), caller), null, "an answer in a pause is not seen to stop");
});

test("what is below -45 dBFS is silence", () => {
  const samples = new Float32Array(RATE).fill(10 ** (-46 / 20));
  assert.ok(!audible(samples, RATE).includes(true));
  samples.fill(10 ** (-44 / 20));
  assert.ok(!audible(samples, RATE).includes(false));
});

test("the median of an even number lies between the two in the middle", () => {
  assert.equal(median([300, 100, 200]), 200);
  assert.equal(median([400, 100, 200, 300]), 250);
});

test("words are compared without case and punctuation", () => {
  assert.deepEqual(wordErrors("The king’s son, at last!", "the king's son at last"), { errors: 0, words: 5 });
  assert.deepEqual(wordErrors("a b c d", "a x c d e"), { errors: 2, words: 4 });
  assert.deepEqual(wordErrors("a b", ""), { errors: 2, words: 2 });
});
