// Drives the talk page in Chromium with a fake microphone: node talk.mjs URL UTTERANCE.wav OUTPUT_DIR [--long "TEXT"]
//
// The server must be running already. Exit code 0 when every check passed, 1 when one did not, 2 for wrong arguments.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch } from "./chromium.mjs";
import { pageChecks } from "./page.mjs";
import { pathChecks } from "./paths.mjs";
import { waitFor } from "./poll.mjs";
import { readWav, writeMicrophone } from "./wav.mjs";

const [url, wav, folder] = process.argv.slice(2);
const longAt = process.argv.indexOf("--long");
const LONG_QUESTION = longAt > 0 ? process.argv[longAt + 1] : "Explain how booking works";
if (!url || !wav || !folder) {
  console.error('usage: node talk.mjs URL UTTERANCE.wav OUTPUT_DIR [--long "a question with a long answer"]');
  process.exit(2);
}

const ANSWER_MS = 20000;
const GAP_S = 26;
const MIC = { leadS: 1, gapS: GAP_S, tailS: 40, maxS: 6 };
const QUIET = ["--disable-quic", "--disable-component-update", "--disable-sync"];
/** WebRTC is what the page does by itself. */
const PATHS = [
  { name: "webrtc", query: "" },
  { name: "websocket", query: "?transport=websocket" },
];
const SIZES = { wide: { width: 1280, height: 900 }, phone: { width: 360, height: 780 } };

const problems = [];
/** Records one check; the whole run goes on after a failure. */
function check(what, good, detail = "") {
  console.log(`${good ? "ok  " : "FAIL"} ${what}${detail === "" ? "" : `: ${detail}`}`);
  if (!good) problems.push(what);
}

mkdirSync(folder, { recursive: true });
const scratch = mkdtempSync(join(tmpdir(), "floorkeeper-talk-"));
try {
  for (const path of PATHS) await spokenCall(path);
  await pageChecks({ url, folder, check, launch: open });
  await pathChecks({ url, folder, check, launch: open, wav, scratch });
} catch (error) {
  check("the run came to its end", false, error.stack);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
console.log(problems.length === 0 ? "talk page: all checks passed" : `talk page: ${problems.length} failed`);
process.exit(problems.length === 0 ? 0 : 1);

function open(microphone) {
  return launch(microphone, ...QUIET);
}

async function spokenCall(path) {
  console.log(`a spoken call over ${path.name}:`);
  const microphone = join(scratch, "microphone.wav");
  const when = writeMicrophone(readWav(wav), microphone, MIC);
  const browser = await open(microphone);
  const page = await browser.newPage({ viewport: SIZES.wide });
  const errors = watchErrors(page);
  try {
    await page.goto(url + path.query);
    await page.locator("#gates tr").first().waitFor({ timeout: 10000 });
    await shoot(page, `idle-${path.name}`);
    await page.getByRole("button", { name: "Start talking" }).click();
    await firstAnswer(page, path);
    await devices(page, path);
    await bargeIn(page, when, path);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Start talking" }).waitFor({ timeout: 5000 });
    check("Escape hangs up", true);
    const state = await read(page);
    check(
      "no sound of a cleared answer arrived later",
      (state.counts["audio_after_clear"] || 0) === 0,
      state.counts["audio_after_clear"] || 0,
    );
    check(`the call went over ${path.name}`, state.paths.join() === path.name, state.paths.join());
    check("no script error, no failed request", errors.length === 0, errors.join(" | "));
    writeFileSync(join(folder, `talk-${path.name}.json`), JSON.stringify(state, null, 1));
  } finally {
    await browser.close();
  }
}

async function firstAnswer(page, path) {
  const answered = await waitFor(
    page,
    (s) => s.audio.peakRms > 0.01 && s.transcript().some((t) => t.side === "agent" && t.text),
    ANSWER_MS,
  );
  check("a spoken turn is answered within 20 s", answered);
  await page.waitForTimeout(1000); // so that the picture shows an answer under way
  await shoot(page, `answer-${path.name}`);
  const state = await read(page);
  const agent = state.entries.find((entry) => entry.side === "agent");
  check("microphone was heard", state.microphone.peakRms > 0.01, `peak rms ${state.microphone.peakRms.toFixed(3)}`);
  check(
    "caller's words are shown",
    state.entries.some((entry) => entry.side === "caller" && entry.text),
  );
  check("agent's words are shown", Boolean(agent && agent.text), agent ? agent.text : "");
  check("audio frames were played", state.audio.playedFrames > 0, `${state.audio.playedFrames} frames`);
  check("what was played is audible", state.rms > 0.005, `rms ${state.rms.toFixed(4)}`);
  check(
    "time to first sound is known",
    state.firstSoundMs.length > 0,
    `${state.firstSoundMs[0]} ms after the end of the turn`,
  );
  if (path.name === "webrtc") {
    const { line } = state;
    check("the network's quality is measured", line && line.rttMs !== null && line.jitterMs !== null, JSON.stringify(line));
  }
  const shown = await page.locator("#line").innerText();
  const right = path.name === "webrtc" ? /Over WebRTC: (good|fair|poor): round trip (under )?\d+ ms/ : /Over WebSocket: connected/;
  check("the network is shown in words and numbers", right.test(shown), shown);
  await waitFor(page, (s) => s.state === "listening", 30000);
}

/** Mute, and the choice of devices, with the call going on. */
async function devices(page, path) {
  const mute = page.getByRole("button", { name: "Mute" });
  await mute.focus();
  await page.keyboard.press("Enter");
  check("mute is told", /muted/.test(await page.locator("#hint").innerText()), await page.locator("#hint").innerText());
  check("mute is pressed", (await mute.getAttribute("aria-pressed")) === "true");
  await shoot(page, `muted-${path.name}`);
  check("no sound leaves a muted microphone", await waitFor(page, (s) => s.microphone.rms === 0, 3000));
  await page.keyboard.press("Enter");
  check("mute is lifted", (await mute.getAttribute("aria-pressed")) === "false");
  await page.getByText("Microphone and speaker").click();
  for (const name of ["Microphone", "Speaker"]) {
    const options = await page.getByLabel(name, { exact: true }).locator("option").allInnerTexts();
    check(`a ${name.toLowerCase()} can be chosen by its name`, options.length > 1 && options.every(Boolean), options.join(", "));
  }
}

async function bargeIn(page, when, path) {
  const lead = 3500; // the long question goes out this long before the second utterance begins
  const askAtMs = when.second.from * 1000 - lead;
  await waitFor(page, (s, atMs) => performance.now() - s.microphone.startedAt > atMs, 60000, askAtMs);
  await page.getByLabel("Type a turn instead of speaking").fill(LONG_QUESTION);
  await page.keyboard.press("Enter");
  const speaking = await waitFor(page, (s) => s.state === "speaking", 3400);
  check("the long question is being answered before the interruption", speaking);
  const cut = await waitFor(page, (s) => s.transcript().some((t) => t.cutMs !== null), 12000);
  check("speech over the answer cuts it", cut);
  await page.waitForTimeout(700); // the server's word on what was heard
  await shoot(page, `barge-in-${path.name}`);
  const state = await read(page);
  const answer = state.entries.find((entry) => entry.cutMs !== null);
  check(
    "the unheard part is marked",
    (await page.locator(".unheard").count()) > 0,
    answer ? `heard "${answer.heard}" of "${answer.text}"` : "",
  );
  check("truncate was accepted", (state.counts["conversation.item.truncated"] || 0) > 0);
  check(
    "the floor changed hands in the events",
    new Set(state.events.map((event) => event.generation).filter(Number.isInteger)).size > 2,
  );
  const before = state.responses.length;
  const next = await waitFor(page, (s, n) => s.responses.length > n, ANSWER_MS, before);
  check("the interruption is answered", next);
}

function read(page) {
  return page.evaluate(() => {
    const { transcript, playedRms, ...rest } = window.__floorkeeper;
    return { ...rest, entries: transcript(), rms: playedRms() };
  });
}

async function shoot(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const [size, viewport] of Object.entries(SIZES)) {
      await page.setViewportSize(viewport);
      await page.waitForTimeout(120); // one more frame of the lanes at this size
      await page.screenshot({ path: join(folder, `${name}-${size}-${colorScheme}.png`), fullPage: size === "phone" });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(SIZES.wide);
}

function watchErrors(page) {
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  return errors;
}
