// A call over WebRTC from Chromium with a fake microphone: node rtc.mjs URL UTTERANCE.wav OUTPUT_DIR
//
// The utterance is said twice: as a question, and over its answer. The server must be running already.
// Exit code 0 when every check passed, 1 when one did not, 2 for wrong arguments.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch } from "./chromium.mjs";
import { readWav, writeMicrophone } from "./wav.mjs";

const [url, wav, folder] = process.argv.slice(2);
if (!url || !wav || !folder) {
  console.error("usage: node rtc.mjs URL UTTERANCE.wav OUTPUT_DIR");
  process.exit(2);
}

const MIC = { leadS: 3, gapS: 2.5, tailS: 40, maxS: 6 };
const CALL_MS = 20000;
/** Quieter than this nobody speaks. */
const AUDIBLE_RMS = 0.003;

const problems = [];
/** Records one check; the whole run goes on after a failure. */
function check(what, good, detail = "") {
  console.log(`${good ? "ok  " : "FAIL"} ${what}${detail === "" ? "" : `: ${detail}`}`);
  if (!good) problems.push(what);
}

mkdirSync(folder, { recursive: true });
const scratch = mkdtempSync(join(tmpdir(), "floorkeeper-rtc-"));
try {
  const microphone = join(scratch, "microphone.wav");
  writeMicrophone(readWav(wav), microphone, MIC);
  const browser = await launch(microphone);
  try {
    const page = await browser.newPage();
    await page.goto(url);
    const call = await page.evaluate(talk, CALL_MS);
    writeFileSync(join(folder, "rtc.json"), JSON.stringify(call, null, 1));
    judge(call);
    await noticed(call.location.split("/").pop());
  } finally {
    await browser.close();
  }
} catch (error) {
  check("the run came to its end", false, error.stack);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
console.log(problems.length === 0 ? "WebRTC: all checks passed" : `WebRTC: ${problems.length} failed`);
process.exit(problems.length === 0 ? 0 : 1);

/** Runs in the page: one call, its events, and how loud the agent was, by time in ms. */
async function talk(callMs) {
  const began = performance.now();
  const at = () => Math.round(performance.now() - began);
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const [events, levels] = [[], []];
  const pc = new RTCPeerConnection();
  const media = await navigator.mediaDevices.getUserMedia({ audio: true });
  pc.addTrack(media.getTracks()[0], media);
  pc.ontrack = ({ track }) => {
    const stream = new MediaStream([track]);
    const audio = new Audio();
    audio.srcObject = stream;
    audio.play();
    const context = new AudioContext();
    const analyser = context.createAnalyser();
    analyser.fftSize = 1024;
    context.createMediaStreamSource(stream).connect(analyser);
    const wave = new Float32Array(1024);
    setInterval(() => {
      analyser.getFloatTimeDomainData(wave);
      levels.push([at(), Math.sqrt(wave.reduce((sum, x) => sum + x * x, 0) / wave.length)]);
    }, 20);
  };
  const channel = pc.createDataChannel("oai-events");
  channel.onmessage = ({ data }) => events.push({ at: at(), ...JSON.parse(data) });
  const opened = new Promise((done) => (channel.onopen = done));
  const offer = await pc.createOffer();
  await pc.setLocalDescription(offer);
  const offered = at();
  const headers = { "Content-Type": "application/sdp", Authorization: "Bearer any" };
  const answer = await fetch("/v1/realtime/calls", { method: "POST", headers, body: offer.sdp });
  const [status, location] = [answer.status, answer.headers.get("location")];
  await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  await Promise.race([opened, wait(5000)]);
  const open = at() - offered;
  const transcription = { audio: { input: { transcription: { model: "default" } } } };
  channel.send(JSON.stringify({ type: "session.update", session: { type: "realtime", ...transcription } }));
  await wait(callMs);
  pc.close();
  return { status, location, open, events, levels };
}

function judge({ status, location, open, events, levels }) {
  const first = (type) => events.find((event) => event.type === type);
  check("the offer is answered with the call's place", status === 201 && location, location);
  check("the events' channel is open within a second of the offer", open < 1000, `${open} ms`);
  const heard = first("conversation.item.input_audio_transcription.completed");
  check("the caller's words are heard", Boolean(heard?.transcript), heard?.transcript ?? "none");
  const started = first("output_audio_buffer.started");
  const cleared = first("output_audio_buffer.cleared");
  check("the answer is interrupted", Boolean(started && cleared));
  if (!started || !cleared) return;
  const loud = (from, to) => levels.filter(([at, rms]) => at >= from && at < to && rms > AUDIBLE_RMS);
  check("the answer is heard", loud(started.at, cleared.at).length > 20);
  const next = events.find((event) => event.type === started.type && event.at > cleared.at);
  const late = loud(cleared.at + 150, next ? next.at : cleared.at + 2000);
  check("nothing of it is heard behind its clear", late.length === 0, `${late.length} readings`);
  const truncated = first("conversation.item.truncated");
  check("the server truncates it", truncated?.audio_end_ms > 0, `${truncated?.audio_end_ms} ms`);
  check("sound is in no event", !first("response.output_audio.delta"));
  const errors = events.filter((event) => event.type === "error").map((event) => event.error.message);
  check("no error", errors.length === 0, errors.join(" | "));
}

/** The page has closed its connection: the server has a second to see it. */
async function noticed(name) {
  const closed = Date.now();
  for (;;) {
    const { calls } = await (await fetch(`${url}/v1/calls`)).json();
    const over = calls.find((call) => call.id === name)?.ended_why;
    if (over || Date.now() - closed > 3000) {
      check("a close is noticed within a second", over && Date.now() - closed < 1000, over ?? "not at all");
      return;
    }
  }
}
