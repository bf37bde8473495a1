// Checks of the talk page's two paths: when it falls back, when it does not, and what it does about
// a lost connection.

import { createSocket } from "node:dgram";
import { join } from "node:path";
import { until, waitFor } from "./poll.mjs";
import { openRelay } from "./relay.mjs";
import { readWav, writeMicrophone } from "./wav.mjs";

const CALLS = "**/v1/realtime/calls?*";
const NOWHERE = 9; // the discard port: nobody answers there

/** Runs every check in one browser with a microphone. */
export async function pathChecks({ url, folder, check, launch, wav, scratch }) {
  const microphone = join(scratch, "paths.wav");
  writeMicrophone(readWav(wav), microphone, { leadS: 300, gapS: 0, tailS: 0, maxS: 1 });
  const browser = await launch(microphone);
  try {
    for (const one of [otherDevices, switchedOff, blocked, refused, dropped, socketCut, socketDropped, givenUp, unreachable]) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      try {
        await one({ page, url, folder, check });
      } catch (error) {
        check(`path check ${one.name} came to its end`, false, error.message);
      } finally {
        await page.close();
      }
    }
  } finally {
    await browser.close();
  }
}

async function talk(page, url, query = "") {
  await page.goto(url + query);
  await page.getByRole("button", { name: "Start talking" }).click();
}

function notes(page) {
  return page.locator("#transcript .note").allInnerTexts();
}

/** Another microphone and another speaker while the call goes on, and again in the next call. */
async function otherDevices({ page, url, check }) {
  await talk(page, url);
  await until(page, (s) => s.state === "listening");
  await page.getByText("Microphone and speaker").click();
  await page.getByRole("button", { name: "Mute" }).click();
  await page.getByLabel("Microphone", { exact: true }).selectOption({ label: "Fake Audio Input 2" });
  const changed = await waitFor(page, (s) => s.microphone.label === "Fake Audio Input 2", 5000);
  check("another microphone is taken in the same call", changed && (await calls(page)) === 1);
  const muted = await waitFor(page, (s) => s.microphone.rms === 0, 3000);
  check("which is as muted as the one before", muted);
  const speaker = page.getByLabel("Speaker", { exact: true });
  await speaker.selectOption({ label: "Fake Audio Output 2" });
  const [wanted, used] = [await speaker.inputValue(), () => page.locator("#voice").evaluate((voice) => voice.sinkId)];
  for (let i = 0; i < 50 && (await used()) !== wanted; i += 1) await page.waitForTimeout(50);
  check("another speaker is taken", wanted !== "" && (await used()) === wanted);
  await page.keyboard.press("Escape");
  await talk(page, url);
  await until(page, (s) => s.state === "listening");
  const label = await page.evaluate(() => window.__floorkeeper.microphone.label);
  check("both are kept", label === "Fake Audio Input 2" && (await used()) === wanted, label);
}

function calls(page) {
  return page.evaluate(() => window.__floorkeeper.paths.length);
}

async function switchedOff({ page, url, check }) {
  const error = { message: "This server takes no WebRTC calls.", type: "server_error", code: "webrtc_unavailable" };
  await page.route(CALLS, (route) => route.fulfill({ status: 501, json: { error } }));
  await talk(page, url);
  await until(page, (s) => s.state === "listening");
  const [line, ...more] = await notes(page);
  check("a server without WebRTC is talked to over WebSocket", /over WebSocket/.test(line) && more.length === 0, line);
}

/** The offer is answered, but no packet comes through. */
async function blocked({ page, url, folder, check }) {
  let place = "";
  await page.route(CALLS, async (route) => {
    const reply = await route.fetch();
    place = reply.headers().location;
    await route.fulfill({ response: reply, body: moved(await reply.text(), NOWHERE) });
  });
  const began = Date.now();
  await talk(page, url);
  await until(page, (s) => s.state === "listening");
  const took = Date.now() - began;
  const [line, ...more] = await notes(page);
  check("without UDP the call goes over WebSocket", /no UDP/.test(line) && more.length === 0, line);
  check("that takes three seconds and little more", took > 2500 && took < 6000, `${took} ms`);
  const name = place.split("/").pop();
  const { calls } = await (await fetch(new URL("/v1/calls", url))).json();
  const first = calls.find((call) => call.id === name);
  check("the server holds nothing of the attempt", Boolean(first?.ended_why), JSON.stringify(first?.ended_why));
  await page.getByLabel("Type a turn instead of speaking").fill("What are your opening hours?");
  await page.keyboard.press("Enter");
  await until(page, (s) => s.audio.peakRms > 0.01);
  check("and is answered", true);
  await page.screenshot({ path: join(folder, "fallback-wide-light.png") });
}

/** A gate's refusal is told, and not gone around. */
async function refused({ page, url, folder, check }) {
  const body = {
    error: { message: "The call gate refused.", type: "admission_error", param: null, code: "admission_overloaded" },
    gate: "call",
    disposition: "overloaded",
    reason: "queue_full",
  };
  await page.route(CALLS, (route) => route.fulfill({ status: 429, json: body }));
  await talk(page, url);
  const notice = page.getByRole("alert");
  await notice.waitFor({ timeout: 10000 });
  const text = await notice.innerText();
  check("a refusal of the offer is told as it is", /waiting room is full/.test(text), text.split("\n")[0]);
  const paths = await page.evaluate(() => window.__floorkeeper.paths.join());
  check("nothing is said to have ended", (await page.locator("#state").innerText()) === "Ready");
  check("and no other path is tried", paths === "webrtc", paths);
  await page.screenshot({ path: join(folder, "refused-wide-light.png") });
}

/** Packets go through a relay of ours, which then ends. */
async function dropped({ page, url, folder, check }) {
  const relays = [];
  const places = [];
  await page.route(CALLS, async (route) => {
    const reply = await route.fetch();
    const sdp = await reply.text();
    const relay = await openUdpRelay(Number(/^a=candidate:\S+ 1 udp \d+ \S+ (\d+)/im.exec(sdp)[1]));
    relays.push(relay);
    places.push(reply.headers().location);
    await route.fulfill({ response: reply, body: moved(sdp, relay.port) });
  });
  try {
    await talk(page, url);
    await until(page, (s) => s.state === "listening");
    await interrupt(page, () => relays[0].close());
    const shaky = await waitFor(page, (s) => s.state === "shaky", 15000);
    const line = await page.locator("#line").innerText();
    check("a connection that falls silent is told", shaky && /silent/.test(line), line);
    await page.screenshot({ path: join(folder, "shaky-wide-light.png") });
    await until(page, (s) => s.retries.length > 0);
    await page.screenshot({ path: join(folder, "reconnecting-wide-light.png") });
    await until(page, (s) => s.state === "listening");
    const said = await notes(page);
    check("a lost call goes on", /lost/.test(said[0]) && /goes on/.test(said[1]), said.join(" / "));
    check("it is the same call", places.length === 2 && places[0] === places[1], places.join(", "));
    await goesOn(page, check);
    await page.screenshot({ path: join(folder, "resumed-wide-light.png") });
  } finally {
    for (const relay of relays) relay.close();
  }
}

/** Asks for a long answer, and does something once some of it was heard. */
async function interrupt(page, act) {
  await ask(page, "Explain how booking works");
  await until(page, (s) => Object.values(s.heard).some((ms) => ms >= 1500));
  await act();
}

async function ask(page, text) {
  await page.getByLabel("Type a turn instead of speaking").fill(text);
  await page.keyboard.press("Enter");
}

/** The interrupted answer is marked with what was heard of it, and another follows in the same transcript. */
async function goesOn(page, check) {
  await until(page, (s) => s.transcript().some((entry) => entry.cutMs !== null && entry.heard && entry.heard !== entry.text));
  const cut = await page.evaluate(() => window.__floorkeeper.transcript().find((entry) => entry.cutMs !== null));
  check("the answer is marked where the connection was lost", true, `heard "${cut.heard}" of "${cut.text}"`);
  await ask(page, "What are your opening hours?");
  await until(page, (s) => /open/.test(s.transcript().at(-1).text) && s.state === "speaking");
  const sides = await page.evaluate(() => window.__floorkeeper.transcript().map((entry) => entry.side).join());
  // A prompt may stand in between: where a stage is slow is no question here.
  check("the transcript goes on", /^caller,agent,(agent,)*caller,agent$/.test(sides), sides);
}

/** The socket goes through a relay of ours, which cuts it without a word. */
async function socketCut({ page, url, check }) {
  const relay = await openRelay(new URL(url));
  try {
    await talk(page, `http://127.0.0.1:${relay.port}/`, "?transport=websocket");
    await until(page, (s) => s.state === "listening");
    const before = await calls(page);
    await interrupt(page, relay.cut);
    await until(page, (s) => s.retries.length === 1 && s.state === "listening");
    const said = await notes(page);
    check("a call whose socket was cut goes on", /goes on/.test(said[1]), said.join(" / "));
    check("by calling once more", (await calls(page)) === before + 1);
    await goesOn(page, check);
  } finally {
    relay.close();
  }
}

/** A hang-up while the page tries to come back ends the call at the server. */
async function givenUp({ page, url, check }) {
  const relay = await openRelay(new URL(url));
  try {
    await talk(page, `http://127.0.0.1:${relay.port}/`, "?transport=websocket");
    await until(page, (s) => s.state === "listening");
    const id = await page.evaluate(
      () => window.__floorkeeper.events.find((event) => event.type === "floorkeeper.resume").call_id,
    );
    relay.cut();
    await until(page, (s) => s.state === "reconnecting");
    await page.keyboard.press("Escape");
    let over = null;
    for (let i = 0; i < 100 && !over; i += 1) {
      over = (await (await fetch(new URL(`/v1/calls/${id}`, url))).json()).ended_why;
      if (!over) await page.waitForTimeout(50);
    }
    check("a hang-up ends a call that was lost", over === "caller_gone", over);
  } finally {
    relay.close();
  }
}

/** The page's socket is closed by somebody in between; the server's is still up and is taken over. */
async function socketDropped({ page, url, check }) {
  const sockets = [];
  await page.routeWebSocket(/\/v1\/realtime/, (socket) => {
    socket.connectToServer();
    sockets.push(socket);
  });
  await talk(page, url, "?transport=websocket");
  await until(page, (s) => s.state === "listening");
  await sockets[0].close({ code: 1011, reason: "broken" });
  await until(page, (s) => s.retries.length > 0 && s.state === "listening");
  const said = await notes(page);
  check("a call whose socket was closed goes on", sockets.length === 2 && /goes on/.test(said[1]), said.join(" / "));
}

/** The server stays away: waits grow, and a hang-up ends them. */
async function unreachable({ page, url, folder, check }) {
  const sockets = [];
  await page.routeWebSocket(/\/v1\/realtime/, (socket) => {
    if (sockets.length === 0) socket.connectToServer();
    else socket.close({ code: 1011, reason: "away" });
    sockets.push(socket);
  });
  await talk(page, url, "?transport=websocket");
  await until(page, (s) => s.state === "listening");
  await sockets[0].close({ code: 1011, reason: "broken" });
  await until(page, (s) => s.retries.length === 3);
  const waits = await page.evaluate(() => window.__floorkeeper.retries);
  check("each wait is longer", waits[0] >= 500 && waits[1] >= 1000 && waits[2] >= 2000, waits.join(", "));
  await page.setViewportSize({ width: 360, height: 780 });
  await page.emulateMedia({ colorScheme: "dark" });
  await page.screenshot({ path: join(folder, "reconnecting-phone-dark.png") });
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Start talking" }).waitFor({ timeout: 5000 });
  check("a hang-up ends the attempts", sockets.length === 3, `${sockets.length} sockets`);
}

/** The answer with its candidates at another port. */
function moved(sdp, port) {
  return sdp.replace(/^(a=candidate:\S+ \d+ udp \d+ \S+) \d+/gim, `$1 ${port}`);
}

/** Passes datagrams between one client and the server's port on loopback, until it is closed. */
async function openUdpRelay(serverPort) {
  const [front, back] = [createSocket("udp4"), createSocket("udp4")];
  let client = null;
  front.on("message", (bytes, from) => {
    client = from;
    back.send(bytes, serverPort, "127.0.0.1");
  });
  back.on("message", (bytes) => client && front.send(bytes, client.port, client.address));
  for (const socket of [front, back]) await new Promise((done) => socket.bind(0, "127.0.0.1", done));
  let closed = false;
  const close = () => {
    if (closed) return;
    closed = true;
    front.close();
    back.close();
  };
  return { port: front.address().port, close };
}
