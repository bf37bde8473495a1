// The network's quality without a browser: node --test quality.test.mjs

import assert from "node:assert/strict";
import { test } from "node:test";
import { Quality, grade, inNumbers, reading } from "../../web-demo/quality.js";

function report({ rtt, jitter, received, lost, sent, lostThere }) {
  const stats = [
    { id: "other", type: "candidate-pair", nominated: false, currentRoundTripTime: 9 },
    { id: "pair", type: "candidate-pair", nominated: true, currentRoundTripTime: rtt },
    { id: "t", type: "transport", selectedCandidatePairId: "pair" },
    { id: "in", type: "inbound-rtp", kind: "audio", jitter, packetsReceived: received, packetsLost: lost },
    { id: "out", type: "outbound-rtp", kind: "audio", packetsSent: sent },
    { id: "back", type: "remote-inbound-rtp", kind: "audio", jitter: 0.001, packetsLost: lostThere },
  ];
  return new Map(stats.map((stat) => [stat.id, stat]));
}

test("a report becomes numbers in milliseconds", () => {
  const now = reading(report({ rtt: 0.024, jitter: 0.003, received: 100, lost: 2, sent: 90, lostThere: 1 }));
  assert.deepEqual(now, { rttMs: 24, jitterMs: 3, received: 100, lost: 2, sent: 90, lostThere: 1 });
});

test("a report without packets says that nothing is known", () => {
  const quality = new Quality().add(reading(new Map()));
  assert.deepEqual(quality, { word: "unknown", rttMs: null, jitterMs: null, lossPercent: null });
});

test("loss is that of the last readings, of the worse direction", () => {
  const quality = new Quality();
  const at = (received, lost, sent, lostThere) =>
    quality.add(reading(report({ rtt: 0.01, jitter: 0.001, received, lost, sent, lostThere })));
  at(0, 0, 0, 0);
  assert.equal(at(90, 10, 100, 2).lossPercent, 10);
  assert.equal(at(190, 10, 200, 20).lossPercent, 10);
  for (let i = 1; i <= 10; i += 1) at(190 + 50 * i, 10, 200 + 50 * i, 20);
  assert.equal(at(740, 10, 750, 20).lossPercent, 0);
});

test("a counter that goes back is no loss", () => {
  const quality = new Quality();
  quality.add(reading(report({ rtt: 0.01, jitter: 0, received: 10, lost: 3, sent: 10, lostThere: 0 })));
  const after = quality.add(reading(report({ rtt: 0.01, jitter: 0, received: 20, lost: 1, sent: 20, lostThere: 0 })));
  assert.equal(after.lossPercent, 0);
});

test("the worst number decides the word", () => {
  assert.equal(grade({ rttMs: 20, lossPercent: 0, jitterMs: 5 }), "good");
  assert.equal(grade({ rttMs: 200, lossPercent: 0, jitterMs: 5 }), "fair");
  assert.equal(grade({ rttMs: 20, lossPercent: 3, jitterMs: 5 }), "fair");
  assert.equal(grade({ rttMs: 20, lossPercent: 0, jitterMs: 80 }), "poor");
  assert.equal(grade({ rttMs: 20, lossPercent: null, jitterMs: null }), "good");
});

test("numbers are told as a person reads them", () => {
  assert.equal(inNumbers({ rttMs: 24.4, lossPercent: 0.42, jitterMs: 3 }), "round trip 24 ms, loss 0.4 %, jitter 3 ms");
  assert.equal(inNumbers({ rttMs: 0.2, lossPercent: 0, jitterMs: null }), "round trip under 1 ms, loss 0 %");
  assert.equal(inNumbers({ rttMs: 900, lossPercent: 34.6, jitterMs: 70 }), "round trip 900 ms, loss 35 %, jitter 70 ms");
});
