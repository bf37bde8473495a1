// The lanes' memory without a browser: node --test timeline.test.mjs

import assert from "node:assert/strict";
import { test } from "node:test";
import { Timeline } from "../../web-demo/lanes.js";

const event = (gate, disposition, turn = 1, generation = 1) => ({ gate, disposition, turn, generation });
const told = (timeline) => timeline.spans.map((span) => [span.lane, span.kind, span.to === null ? "open" : span.how]);

test("waiting becomes working, and working ends as the event says", () => {
  const timeline = new Timeline();
  timeline.stage(event("model", "queued"));
  timeline.stage(event("model", "admitted"));
  assert.deepEqual(told(timeline), [
    ["model", "waiting", "ended"],
    ["model", "working", "open"],
  ]);
  timeline.stage(event("model", "completed"));
  assert.deepEqual(told(timeline).at(-1), ["model", "working", "completed"]);
});

test("a lease that ends under a later generation ends its own span, not the new turn's", () => {
  const timeline = new Timeline();
  timeline.stage(event("synthesis", "admitted", 1, 1));
  timeline.stage(event("synthesis", "admitted", 2, 3));
  timeline.stage(event("synthesis", "cancelled", 1, 3));
  assert.deepEqual(told(timeline), [
    ["synthesis", "working", "cancelled"],
    ["synthesis", "working", "open"],
  ]);
});

test("an offer refused at once is a mark, and so is one that waited in vain", () => {
  const timeline = new Timeline();
  assert.equal(timeline.stage(event("model", "overloaded")), true);
  timeline.stage(event("tool:book", "queued"));
  assert.equal(timeline.stage(event("tool:book", "expired", null)), true);
  assert.deepEqual(told(timeline), [["tool", "waiting", "expired"]]);
  assert.deepEqual(
    timeline.marks.map(({ lane, kind }) => [lane, kind]),
    [
      ["model", "refused"],
      ["tool", "refused"],
    ],
  );
});

test("two tools at once keep their own spans", () => {
  const timeline = new Timeline();
  timeline.stage(event("tool:find_slot", "admitted"));
  timeline.stage(event("tool:book", "admitted"));
  timeline.stage(event("tool:find_slot", "completed"));
  assert.deepEqual(told(timeline), [
    ["tool", "working", "completed"],
    ["tool", "working", "open"],
  ]);
});

test("everything is told as sentences, in order", () => {
  const timeline = new Timeline();
  timeline.begin("caller", "u1");
  timeline.end("caller");
  timeline.fence(2);
  timeline.stage(event("model", "admitted"));
  const lines = timeline.sentences();
  assert.equal(lines.length, 3);
  assert.match(lines[0], /you spoke/);
  assert.match(lines[1], /the floor changed hands, generation 2/);
  assert.match(lines[2], /model worked, still going/);
});

test("a claim is neither waiting nor work (A-024)", () => {
  const timeline = new Timeline();
  assert.equal(timeline.stage({ ...event("synthesis", "admitted"), reason: "claim" }), false);
  assert.equal(timeline.stage({ ...event("synthesis", "expired"), reason: "claim" }), false);
  assert.equal(timeline.spans.length, 0);
  assert.equal(timeline.marks.length, 0);
});
