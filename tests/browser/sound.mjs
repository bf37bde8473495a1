// What a caller hears of a call over WebRTC, in Chromium with a fake microphone that plays people's speech:
//
//   .ci/sound [--short]     (a server of its own, with embedded recognition and synthesis)
//   FLOORKEEPER_HTTP=URL node sound.mjs OUTPUT_DIR BARGES ANSWERS UTTERANCE.wav…
//
// The microphone and the agent's track are recorded on one clock. Each utterance after the first is
// said over the answer to the one before: how long that answer still sounds is measured. Then turns
// are typed, and what is heard of their answers is given to the server's own recogniser. Exit code 0
// when both goals are met, 1 when one is missed.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, servePage } from "./chromium.mjs";
import { audible, median, stopMs, utterances, wordErrors } from "./sound-measure.mjs";
import { readWav, writeWav } from "./wav.mjs";

const url = process.env.FLOORKEEPER_HTTP;
const [folder, bargesText, answersText, ...voices] = process.argv.slice(2);
const [barges, answers] = [Number(bargesText), Number(answersText)];
if (!url || voices.length === 0 || !(barges > 0) || !(answers > 0)) {
  console.error("usage: FLOORKEEPER_HTTP=URL node sound.mjs OUTPUT_DIR BARGES ANSWERS UTTERANCE.wav…");
  process.exit(2);
}

const STOP_MS = 250;
const WRONG_PCT = 15;
const LEAD_S = 3;
/** From an utterance to the next: an end of turn, the answer's beginning, and some of it. Each is a little longer. */
const GAP_S = 5;
const LATER_S = 0.13;
const RATE = 24000;
const LOST_MS = 100;
/** The rest may fall into pauses of the answers. */
const COUNTED_LEAST = 0.75;
const VOICE_RMS = 0.025;
const KEY = "any";
/** A page that was not fetched from this machine may else open no socket to it. */
const SOCKETS = "--disable-features=LocalNetworkAccessChecks";

mkdirSync(folder, { recursive: true });
const scratch = mkdtempSync(join(tmpdir(), "floorkeeper-sound-"));
let missed = [];
try {
  missed = await run();
} catch (error) {
  missed = [error.stack];
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
for (const what of missed) console.log(`FAIL ${what}`);
process.exit(missed.length === 0 ? 0 : 1);

async function run() {
  const microphone = join(scratch, "microphone.wav");
  const { starts, spokenMs } = writeUtterances(microphone);
  const browser = await launch(microphone, SOCKETS);
  try {
    const page = await open(browser);
    const typed = Array.from({ length: answers }, (_, i) => `Go on with part ${i + 1}.`);
    const call = await page.evaluate((plan) => window.hold(plan), { key: KEY, spokenMs, typed });
    const [caller, agent] = [await recorded(page, 0, "caller"), await recorded(page, 1, "agent")];
    const stops = judged(caller, agent, call.events, starts);
    await page.evaluate((drawn) => window.draw(drawn), { stops, spokenMs });
    await page.locator("canvas").screenshot({ path: join(folder, "sound.png") });
    return [...silence(stops), ...(await intelligible(page, call.answers))];
  } finally {
    await browser.close();
  }
}

/** One utterance to be answered, then one for each barge-in; gives when each starts and how long all take, in ms. */
function writeUtterances(target) {
  const { rate } = readWav(voices[0]);
  const spoken = voices.map((voice) => voiced(readWav(voice)));
  const said = Array.from({ length: barges + 1 }, (_, i) => spoken[i % spoken.length]);
  const gap = (i) => Math.round((GAP_S + LATER_S * i) * rate);
  const lead = Math.round(LEAD_S * rate);
  const length = said.reduce((sum, pcm, i) => sum + pcm.length + gap(i), lead);
  const pcm = new Int16Array(length + 300 * rate);
  const starts = [];
  let at = lead;
  said.forEach((one, i) => {
    starts.push((at * 1000) / rate);
    pcm.set(one, at);
    at += one.length + gap(i);
  });
  writeWav(target, { rate, pcm });
  return { starts, spokenMs: (length * 1000) / rate };
}

/** A recording from the voice on: the breath and the clicks in front of it are no caller who begins to speak. */
function voiced({ rate, pcm }) {
  const size = (rate * 20) / 1000;
  const level = (at) => Math.sqrt(pcm.subarray(at, at + size).reduce((sum, x) => sum + (x / 32768) ** 2, 0) / size);
  let at = 0;
  while (at + size < pcm.length && level(at) < VOICE_RMS) at += size;
  return pcm.subarray(at);
}

/** A page of the server's own origin, so that it may call. */
async function open(browser) {
  const page = await browser.newPage({ viewport: { width: 1600, height: 300 } });
  page.on("pageerror", (error) => console.log(`page: ${error.message}`));
  const script = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
  const html = `<canvas width="1580" height="280"></canvas>
    <script type="text/plain" id="worklet">${script("sound-worklet.mjs")}</script>
    <script type="module">${script("sound-page.mjs")}</script>`;
  await servePage(page, url, "sound", html);
  await page.waitForFunction("window.hold");
  return page;
}

async function recorded(page, side, name) {
  const bytes = Buffer.from(await page.evaluate((which) => window.recorded(which), side), "base64");
  const pcm = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  writeWav(join(folder, `sound-${name}.wav`), { rate: RATE, pcm });
  return audible(Float32Array.from(pcm, (sample) => sample / 32768), RATE);
}

/** Every utterance over an answer: what the server said about it, and when the sound ended, from its first sound. */
function judged(caller, agent, events, starts) {
  const said = utterances(caller).slice(0, starts.length);
  if (said.length < starts.length) throw new Error(`${said.length} utterances in the recording, not ${starts.length}`);
  // Where sound was lost on the way into the recording its clock is no longer the caller's.
  const late = (i) => said[i].from - starts[i] - (said[0].from - starts[0]);
  const lost = starts.findIndex((_, i) => Math.abs(late(i)) > LOST_MS);
  console.log("barge-in   began   paused  cleared   silent   (ms from the caller's first sound)");
  const stops = said.slice(1).map((utterance) => ({ ...utterance, ms: stopMs(agent, utterance) }));
  stops.forEach((stop, i) => {
    const when = (type, state) => {
      const event = events.find((e) => e.at >= stop.from && e.at < stop.to && e.type === type && e.state === state);
      return String(event ? event.at - stop.from : "-").padStart(8);
    };
    let silent = String(stop.ms).padStart(8);
    if (stop.ms === null) silent = "   not counted: the answer was in a pause";
    if (lost !== -1 && i + 1 >= lost) {
      silent = "   not counted: the machine was too busy to record";
      stop.ms = null;
    }
    const told = `${when("floorkeeper.playout", "paused")} ${when("output_audio_buffer.cleared")}`;
    console.log(`${String(i + 1).padStart(8)} ${String(stop.from).padStart(7)} ${told} ${silent}`);
  });
  return stops;
}

function silence(stops) {
  const needed = Math.ceil(stops.length * COUNTED_LEAST);
  const counted = stops.map((stop) => stop.ms).filter((ms) => ms !== null);
  const missed = [];
  if (counted.length < needed) return [`${counted.length} interruptions could be counted, not ${needed}`];
  const middle = median(counted);
  console.log(`silent after ${middle} ms at the median of ${counted.length}, at most ${Math.max(...counted)} ms`);
  if (middle > STOP_MS) missed.push(`answers stop within ${STOP_MS} ms: ${middle} ms`);
  return missed;
}

async function intelligible(page, heard) {
  let [errors, words] = [0, 0];
  console.log("answer  words  wrong   recognised in what was heard");
  for (const [i, { text, from, to }] of heard.entries()) {
    const transcript = await page.evaluate((part) => window.recognised(part), { key: KEY, from, to });
    const wrong = wordErrors(text, transcript);
    errors += wrong.errors;
    words += wrong.words;
    const counts = [i + 1, wrong.words, wrong.errors].map((number) => String(number).padStart(6)).join(" ");
    console.log(`${counts}   ${transcript}`);
  }
  const pct = (100 * errors) / words;
  console.log(`${errors} of ${words} words wrong: ${pct.toFixed(1)} %`);
  return pct < WRONG_PCT ? [] : [`less than ${WRONG_PCT} % of the words heard are wrong: ${pct.toFixed(1)} %`];
}
