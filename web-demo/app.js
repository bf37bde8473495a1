// The talk page: joins the button, the text box, the devices, one call after another and the pictures of it.

import { Microphone, microphoneProblem, openAudio, openPlayer } from "/audio.js";
import { Call } from "/call.js";
import { openDebug } from "/debug.js";
import { Devices } from "/devices.js";
import { Gates } from "/gates.js";
import { Kept } from "/kept.js";
import { Lanes, Timeline } from "/lanes.js";
import { Line } from "/line.js";
import { Peer, TrackPlayer, hasPeer } from "/peer.js";
import { Realtime } from "/realtime.js";
import { callGateRefusal, diagnose, playPrompt, refusalText } from "/refusal.js";
import { Transcript } from "/transcript.js";

const $ = (id) => document.getElementById(id);

const STATES = {
  idle: ["Ready", "Press the button and speak, or type below."],
  permission: ["Waiting for the microphone", "The browser asks whether this page may listen."],
  connecting: ["Connecting…", "Asking the server for a line."],
  listening: ["Listening", "Say something. A short pause ends your turn."],
  hearing: ["You have the floor", "Go on; the agent waits until you are done."],
  thinking: ["Working on the answer", "The lanes show which stage is busy."],
  speaking: ["The agent is speaking", "Just talk to interrupt it."],
  paused: ["The agent has paused", "It heard you and waits to see if you take the floor."],
  shaky: ["The connection is shaky", "Nothing has come from the server for a moment."],
  reconnecting: ["Reconnecting", "The connection was lost. The page is calling again."],
  ended: ["Call ended", "Press the button to talk again."],
};

const MICROPHONE_ADVICE = {
  denied:
    "The browser did not let this page use the microphone. Allow it in the address bar (the lock or microphone sign), then try again. You can also type.",
  absent:
    "No microphone was found. Plug one in or choose one in the system's sound settings, then try again. You can also type.",
  busy: "The microphone is there but another program is using it. Close that program, then try again. You can also type.",
  insecure:
    "Browsers give the microphone only to secure pages. Open this page as http://localhost or http://127.0.0.1 on the server's own machine, or put HTTPS in front of it. Typing works here, and you will hear the answers.",
  unsupported:
    "This browser cannot record sound for a page. Use a current Firefox, Chrome, Edge or Safari. You can also type.",
};

/** States in which a muted microphone matters. */
const CALLING = new Set(["listening", "hearing", "thinking", "speaking", "paused"]);
const MUTED = "Your microphone is muted: the agent does not hear you.";
const RETRIES = 6;
const STEADY_MS = 10000; // a call that lasted so long is no failed attempt

const page = new URLSearchParams(window.location.search);
const transcript = new Transcript({ list: $("transcript"), empty: $("transcript-empty"), announcer: $("announcer") });
const timeline = new Timeline();
const debug = openDebug(transcript);
const devices = new Devices({
  microphone: $("microphone"),
  speaker: $("speaker"),
  speakerRow: $("speaker-row"),
  onMicrophone: changeMicrophone,
  onSpeaker: useSpeaker,
});
const line = new Line({ box: $("line"), transcript, debug });
let call = null;
let retry = null; // { timer, unsaid, before }: between a lost connection and the next one
const kept = new Kept(); // the call of a lost connection, while the server keeps it
let attempts = 0; // connections since the last one that was steady
let connectedAt = 0;
let path = "webrtc"; // how the call goes: over WebRTC, or "websocket"
let microphone = null;
let audio = null;
let player = null;
let wantsMicrophone = true; // how the last call was begun, for calling again
let shown = "idle";

// --- the call --------------------------------------------------------------------------------------------------------

async function start({ withMicrophone, firstText }) {
  if (call || retry || $("talk").disabled) return;
  hideNotice();
  $("talk").disabled = true;
  wantsMicrophone = withMicrophone;
  try {
    show(withMicrophone ? "permission" : "connecting");
    audio = audio || (await openAudio());
    await audio.context.resume();
    await useSpeaker();
    if (withMicrophone && !(await openMicrophone())) return;
    if (await turnedAway()) return;
    path = page.get("transport") === "websocket" || !hasPeer() ? "websocket" : "webrtc";
    if (transcript.all().length > 0) note("New call", "plain");
    dial(firstText ? [firstText] : []);
  } finally {
    $("talk").disabled = false;
    if (!call && !retry) {
      closeMicrophone();
      show("idle");
      if (firstText && !$("text").value) $("text").value = firstText; // what was typed is not lost
    }
  }
}

/** Asks the call gate first, so that a full server answers in words instead of a broken connection. */
async function turnedAway() {
  let refusal = null;
  try {
    refusal = await callGateRefusal(key());
  } catch (error) {
    if (error.status === undefined) {
      explain("gone");
      return true;
    }
    if (error.status !== 401) return false; // the socket itself will say what is wrong
    explain("key");
    return true;
  }
  if (refusal) sayRefused(refusal);
  return refusal !== null;
}

function dial(texts) {
  const hooks = {
    progress: (report) => call?.progress(report),
    finished: (item, playedMs) => call?.finished(item, playedMs),
    cleared: (cut, droppedMs) => call?.cleared(cut, droppedMs),
    late: () => debug.count("audio_after_clear"),
  };
  const agent = page.get("agent") || page.get("model");
  const ticket = kept.get();
  debug.state.paths.push(path);
  let open;
  if (path === "webrtc") {
    const element = $("voice");
    player = new TrackPlayer({ context: audio.context, element, onBlocked: soundBlocked }, hooks);
    open = (wire) => new Peer({ key: key(), agent, track: microphone?.track, ticket }, wire);
  } else {
    player = openPlayer(audio, hooks);
    open = (wire) => new Realtime({ key: key(), agent, ticket }, wire);
  }
  const mine = player;
  const told = { state: show, ended, note, track: (stream) => mine.attach(stream), shaky };
  const before = ticket ? retry?.before : undefined;
  call = new Call({ open, player, transcript, timeline, debug, hooks: told, before });
  for (const text of texts) call.say(text);
  paintButton();
}

function hangUp() {
  if (call) call.hangUp();
  else if (retry) stopRetrying();
}

function shaky(is) {
  line.silent(is);
  if (is) show("shaky");
  else show(call.state);
}

async function ended(how) {
  const last = player;
  player = null;
  call = null;
  setTimeout(() => {
    last.close();
    if (!call && !retry) audio.context.suspend();
  }, 200); // lets the clear reach the audio thread
  debug.state.ended = { ...how, call: undefined };
  if (how.kind === "no_path") {
    fallBack(how);
    return;
  }
  if (how.kind === "lost") {
    kept.lose(how.call.wire.ticket);
    tryAgainLater(how);
    return;
  }
  if (how.kind === "stale") {
    kept.forget();
    tryAgainLater(how);
    return;
  }
  if (retry && (await passesBy(how))) {
    if (retry) tryAgainLater(how); // nobody hung up meanwhile
    return;
  }
  rest(how.begun || how.kind === "hung_up" ? "ended" : "idle");
  if (how.kind === "refused")
    sayRefused(
      how.refusal || {
        disposition: how.code === 1012 ? "closed" : "overloaded",
        message: how.reason,
        reason: how.code === 1012 ? "draining" : undefined,
      },
    );
  if (how.kind === "unreachable") {
    const cause = await diagnose(key());
    if (cause.kind === "refused") sayRefused(cause.refusal);
    else explain(cause.kind, cause.detail || how.reason);
  }
}

/** No call, and none to come. */
function rest(state) {
  retry = null;
  attempts = 0;
  kept.giveUp(key());
  line.stop();
  closeMicrophone();
  paintButton();
  show(state);
}

function fallBack({ reason, unsaid }) {
  note(`WebRTC did not work (${reason}); this call goes over WebSocket.`, "fallback");
  path = "websocket";
  kept.giveUp(key());
  dial(unsaid);
}

// --- after a lost connection -----------------------------------------------------------------------------------------

/** Calls again after 0.5, 1, 2, 4, 8 and 8 s, each up to half as long again, so that pages do not all come at once. */
function tryAgainLater({ kind, code, reason, unsaid, call: before }) {
  // A call that is lost as soon as it is there is one more attempt that failed.
  if (kind === "lost" && performance.now() - connectedAt > STEADY_MS) attempts = 0;
  attempts += 1;
  if (kind === "lost") note(`The connection was lost (${reason || `code ${code}`}).`, "fallback");
  line.lost();
  if (attempts > RETRIES) {
    rest("ended");
    notify("The connection was lost, and the server could not be reached again. The call is over.", [
      ["Call again", restart],
    ]);
    return;
  }
  const waitMs = Math.min(8000, 500 * 2 ** (attempts - 1)) * (1 + Math.random() / 2);
  retry = { unsaid, before: kind === "lost" ? before : retry?.before, timer: setTimeout(redial, waitMs) };
  debug.state.retries.push(Math.round(waitMs));
  paintButton();
  show("reconnecting");
  $("hint").textContent = `Attempt ${attempts} of ${RETRIES} in ${Math.ceil(waitMs / 1000)} s. ${kept.get() ? "The call goes on then." : "It will be a new call."}`;
}

/** Whether what stands in the way of a new call may be gone in a moment: no server, or one that still starts. */
async function passesBy(how) {
  if (how.kind === "refused") return how.refusal?.reason === "not_ready";
  if (how.kind !== "unreachable") return false;
  const cause = await diagnose(key());
  if (cause.kind !== "gone") kept.forget(); // the server is there and did not take the ticket
  return cause.kind === "refused" ? cause.refusal.reason === "not_ready" : cause.kind !== "key";
}

function redial() {
  clearTimeout(retry.timer);
  retry.timer = null;
  const { unsaid } = retry;
  retry.unsaid = [];
  dial(unsaid);
}

/** The first word on a connection: of the same call, or of a new one, which knows nothing of the old. */
function connected() {
  connectedAt = performance.now();
  kept.forget();
  if (!retry) return;
  retry = null;
  if (call.resumes) note("Connected again. The call goes on.", "plain");
  else note("Connected again. This is a new call: the agent does not know what was said before.", "fallback");
}

function stopRetrying() {
  clearTimeout(retry.timer);
  rest("ended");
}

/** Calls again the way the last call was begun, with the turn that could not be sent. */
function restart() {
  const firstText = wantsMicrophone ? "" : $("text").value.trim();
  if (firstText) $("text").value = "";
  start({ withMicrophone: wantsMicrophone, firstText });
}

function explain(kind, detail) {
  if (kind === "gone") {
    notify("The server does not answer. Check that it is still running, then try again.", [["Try again", restart]]);
  } else if (kind === "key") {
    notify("This server asks for a key. Enter it under “Server key” at the end of the page, then try again.", [
      ["Enter the key", openKey],
      ["Try again", restart],
    ]);
  } else if (kind === "not_ready") {
    notify(`The server is not ready for calls yet. ${detail || ""}`, [["Try again", restart]]);
  } else {
    notify(`The server is there, but the call could not be opened${detail ? `: ${detail}` : "."}`, [
      ["Try again", restart],
    ]);
  }
}

function sayRefused(refusal) {
  notify(refusalText(refusal), [["Try again", restart]]);
  debug.state.refused = refusal;
  playPrompt(refusal).then((heard) => (debug.state.promptHeard = heard));
}

// --- the microphone --------------------------------------------------------------------------------------------------

async function openMicrophone() {
  try {
    microphone = await listenTo(devices.microphone);
    debug.state.microphone.label = microphone.track.label;
    debug.state.microphone.startedAt = Math.round(performance.now());
    debug.state.microphone.problem = null;
    $("mic").hidden = false;
    devices.refresh();
    return true;
  } catch (error) {
    const problem = microphoneProblem(error);
    debug.state.microphone.problem = problem;
    const again = ["Try again", () => start({ withMicrophone: true })];
    const type = ["Type instead", () => $("text").focus()];
    const hopeless = problem === "insecure" || problem === "unsupported";
    notify(MICROPHONE_ADVICE[problem], hopeless ? [type] : [again, type]);
    return false;
  }
}

function listenTo(device) {
  return Microphone.open({ context: audio.context, device, onChunk: heardCaller, onEnded: microphoneGone });
}

/** Another microphone in the same call; the old one goes on if it cannot be had. */
async function changeMicrophone(device) {
  if (!microphone) return;
  try {
    const next = await listenTo(device);
    const last = microphone;
    if (!last) return next.close(); // the call ended meanwhile
    next.muted = last.muted;
    microphone = next;
    await call?.wire.replace(next.track);
    last.close();
    debug.state.microphone.label = next.track.label;
  } catch (error) {
    notify(MICROPHONE_ADVICE[microphoneProblem(error)], []);
  }
}

/** Both ways of playing go to the chosen loudspeaker. */
async function useSpeaker() {
  const speaker = devices.speaker;
  try {
    await $("voice").setSinkId?.(speaker);
    await audio?.context.setSinkId?.(speaker);
  } catch {
    note("The chosen speaker is not there; the system's own is used.", "fallback");
  }
}

function soundBlocked() {
  notify("The browser does not let this page play sound by itself.", [
    ["Play the sound", () => $("voice").play().then(hideNotice)],
  ]);
}

function heardCaller(pcm, rms) {
  debug.state.microphone.rms = rms;
  debug.state.microphone.peakRms = Math.max(debug.state.microphone.peakRms, rms);
  const level = Math.max(0, Math.min(1, (20 * Math.log10(rms + 1e-6) + 55) / 45));
  $("mic-level").style.width = `${Math.round(level * 100)}%`;
  document.documentElement.style.setProperty("--level", level.toFixed(2));
  call?.hear(pcm, rms);
}

function microphoneGone() {
  closeMicrophone();
  notify("The microphone went away. The call goes on: you can type, or hang up and start again.", [
    ["Type instead", () => $("text").focus()],
  ]);
}

function closeMicrophone() {
  microphone?.close();
  microphone = null;
  $("mic").hidden = true;
  $("mute").setAttribute("aria-pressed", "false");
  document.documentElement.style.setProperty("--level", "0");
}

// --- what is on the page ---------------------------------------------------------------------------------------------

function show(state) {
  if (state === "listening") {
    if (!line.shows(call)) connected();
    line.start(call, path);
  }
  if (state === "ended" && !$("notice").hidden) state = "idle";
  shown = state;
  debug.state.state = state;
  document.documentElement.dataset.state = state;
  const [title, hint] = STATES[state];
  $("state").textContent = title;
  if (microphone?.muted && CALLING.has(state)) $("hint").textContent = MUTED;
  else $("hint").textContent = !microphone && state === "listening" ? "Type your next turn below." : hint;
  if (["connecting", "shaky", "reconnecting", "ended"].includes(state)) transcript.announce(title);
}

function paintButton() {
  const live = call !== null || retry !== null;
  $("talk-label").textContent = live ? "Hang up" : "Start talking";
  $("talk").classList.toggle("live", live);
}

function note(text, tone) {
  transcript.note(text, tone);
}

function notify(text, actions) {
  debug.state.notices.push(text);
  $("notice-text").textContent = text;
  $("notice-actions").replaceChildren(
    ...actions.map(([label, act]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet-button";
      button.textContent = label;
      button.addEventListener("click", act);
      return button;
    }),
  );
  $("notice").hidden = false;
}

function hideNotice() {
  $("notice").hidden = true;
}

function key() {
  return $("key").value.trim();
}

function openKey() {
  $("key-box").open = true;
  $("key").focus();
}

function sayTyped(text) {
  if (!text) return;
  if (call) call.say(text);
  else if (retry) retry.unsaid.push(text);
  else start({ withMicrophone: false, firstText: text });
}

// --- wiring ----------------------------------------------------------------------------------------------------------

$("talk").addEventListener("click", () => (call || retry ? hangUp() : start({ withMicrophone: true })));
$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  sayTyped($("text").value.trim());
  $("text").value = "";
});
for (const chip of document.querySelectorAll(".chip")) {
  chip.addEventListener("click", () => sayTyped(chip.textContent));
}
$("mute").addEventListener("click", () => {
  microphone.muted = !microphone.muted;
  $("mute").setAttribute("aria-pressed", String(microphone.muted));
  show(shown);
  transcript.announce(microphone.muted ? MUTED : "Your microphone is on.");
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.isComposing) hangUp();
});
$("key").value = sessionStorage.getItem("floorkeeper.key") || "";
$("key").addEventListener("input", () => sessionStorage.setItem("floorkeeper.key", key()));
$("key-form").addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("pagehide", hangUp);
window.addEventListener("online", () => {
  if (retry?.timer) redial();
});

new Lanes({ canvas: $("lanes"), text: $("lanes-text"), timeline });
new Gates({
  body: $("gates"),
  message: $("gates-message"),
  toggle: $("hold"),
  help: $("hold-help"),
  key,
  onAnswer: (error, view) => {
    if (error?.status === 401) $("key-box").open = true;
    const lines = view?.gates.find((gate) => gate.gate === "call");
    if (shown === "connecting" && lines?.live.queued > 0) {
      $("hint").textContent = "All lines are taken. You are waiting for one.";
    }
  },
});
show("idle");
