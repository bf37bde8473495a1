// The page of sound.mjs: one call over WebRTC, both directions of its sound recorded on one clock, and its events.

const RATE = 24000;
const CONNECT_MS = 10000;
const ANSWER_MS = 40000;
const TAIL_MS = 500; // what of an answer is still on its way when the server has sent all of it

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** Two tracks on the clock of one audio context, as samples. */
class Recorder {
  static async open() {
    const recorder = new Recorder();
    recorder.context = new AudioContext({ sampleRate: RATE });
    const worklet = new Blob([document.getElementById("worklet").textContent], { type: "text/javascript" });
    await recorder.context.audioWorklet.addModule(URL.createObjectURL(worklet));
    recorder.node = new AudioWorkletNode(recorder.context, "both", { numberOfInputs: 2, numberOfOutputs: 1 });
    recorder.chunks = [[], []];
    recorder.node.port.onmessage = ({ data: { first, sides } }) => {
      recorder.first ??= first;
      sides.forEach((samples, side) => recorder.chunks[side].push(samples));
    };
    recorder.node.connect(recorder.context.destination); // or it would not be run; it puts out silence
    return recorder;
  }

  take(track, side) {
    const source = this.context.createMediaStreamSource(new MediaStream([track]));
    source.connect(this.node, 0, side);
  }

  /** Milliseconds since the recording's first sample. */
  now() {
    return this.first === undefined ? 0 : (this.context.currentTime - this.first / RATE) * 1000;
  }

  sound(side) {
    const samples = new Float32Array(this.chunks[side].reduce((sum, chunk) => sum + chunk.length, 0));
    let at = 0;
    for (const chunk of this.chunks[side]) {
      samples.set(chunk, at);
      at += chunk.length;
    }
    return samples;
  }
}

let recorder;
let channel;
const events = [];

async function connect(key) {
  recorder = await Recorder.open();
  const microphone = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true } });
  const connection = new RTCPeerConnection();
  connection.addTrack(microphone.getAudioTracks()[0], microphone);
  recorder.take(microphone.getAudioTracks()[0], 0);
  const voice = new Audio();
  connection.ontrack = ({ track }) => {
    voice.srcObject = new MediaStream([track]); // Chromium decodes only what an element plays
    voice.play();
    recorder.take(track, 1);
  };
  channel = connection.createDataChannel("oai-events");
  channel.onmessage = ({ data }) => {
    const event = { at: Math.round(recorder.now()), ...JSON.parse(data) };
    events.push(event);
    window.dispatchEvent(new CustomEvent("told", { detail: event }));
  };
  const created = told((event) => event.type === "session.created", CONNECT_MS);
  await connection.setLocalDescription();
  const headers = { "Content-Type": "application/sdp", Authorization: `Bearer ${key}` };
  const body = connection.localDescription.sdp;
  const reply = await fetch("/v1/realtime/calls?model=default", { method: "POST", headers, body });
  if (reply.status !== 201) throw new Error(`the offer got ${reply.status}: ${await reply.text()}`);
  await connection.setRemoteDescription({ type: "answer", sdp: await reply.text() });
  await created;
  const audio = { input: { transcription: { model: "default" } } };
  send({ type: "session.update", session: { type: "realtime", audio, floorkeeper: { events: true } } });
  return connection;
}

function send(event) {
  channel.send(JSON.stringify(event));
}

/** The next event that is meant. */
function told(meant, withinMs) {
  return new Promise((done, fail) => {
    const timer = setTimeout(() => over(() => fail(new Error(`not told within ${withinMs} ms: ${meant}`))), withinMs);
    const look = ({ detail }) => meant(detail) && over(() => done(detail));
    const over = (settle) => {
      clearTimeout(timer);
      window.removeEventListener("told", look);
      settle();
    };
    window.addEventListener("told", look);
  });
}

/** One typed turn, heard to its end: what was said, and between which moments it was heard. */
async function ask(text) {
  const started = told((event) => event.type === "output_audio_buffer.started", ANSWER_MS);
  const stopped = told((event) => event.type === "output_audio_buffer.stopped", ANSWER_MS);
  const said = told((event) => event.type === "response.output_audio_transcript.done", ANSWER_MS);
  const content = [{ type: "input_text", text }];
  send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
  send({ type: "response.create" });
  const [first, last, words] = await Promise.all([started, stopped, said]);
  await wait(TAIL_MS);
  return { text: words.transcript, from: first.at, to: last.at + TAIL_MS };
}

/** A call in which the microphone speaks for `spokenMs`, and then `typed` are asked one after another. */
window.hold = async ({ key, spokenMs, typed }) => {
  const connection = await connect(key);
  while (recorder.now() < spokenMs) await wait(100);
  // The answer to the last spoken turn is given up: only whole ones are recognised.
  const last = events.findLast((event) => /^output_audio_buffer\./.test(event.type));
  if (last?.type === "output_audio_buffer.started") {
    await told((event) => /^output_audio_buffer\.(stopped|cleared)$/.test(event.type), ANSWER_MS);
  }
  const answers = [];
  for (const text of typed) answers.push(await ask(text));
  connection.close();
  return { events, answers };
};

/** A recorded side, base64 of 16-bit samples; the recording itself is too long for JSON. */
window.recorded = (side) => {
  const bytes = new Uint8Array(pcm16(recorder.sound(side)).buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
};

function pcm16(sound) {
  return Int16Array.from(sound, (sample) => Math.max(-32768, Math.min(32767, Math.round(sample * 32768))));
}

/** What the server's own recogniser makes of a stretch of the answer, sent as a caller's turn. */
window.recognised = async ({ key, from, to }) => {
  const sound = recorder.sound(1).subarray((from * RATE) / 1000, (to * RATE) / 1000);
  const url = new URL("/v1/realtime?model=default", location.href.replace(/^http/, "ws"));
  const socket = new WebSocket(url, ["realtime", `openai-insecure-api-key.${key}`]);
  const say = (event) => socket.send(JSON.stringify(event));
  try {
    return await new Promise((done, fail) => {
      setTimeout(() => fail(new Error("no transcript came")), ANSWER_MS);
      socket.onclose = ({ code, reason }) => fail(new Error(`closed ${code} ${reason}`));
      socket.onmessage = ({ data }) => {
        const event = JSON.parse(data);
        if (event.type === "session.created") {
          const input = { transcription: { model: "default" }, turn_detection: null };
          say({ type: "session.update", session: { type: "realtime", audio: { input } } });
          const bytes = new Uint8Array(pcm16(sound).buffer);
          for (let at = 0; at < bytes.length; at += 9600) {
            const audio = btoa(String.fromCharCode(...bytes.subarray(at, at + 9600)));
            say({ type: "input_audio_buffer.append", audio });
          }
          say({ type: "input_audio_buffer.commit" });
        }
        if (event.type === "conversation.item.input_audio_transcription.completed") done(event.transcript);
        if (event.type === "error") fail(new Error(event.error.message));
      };
    });
  } finally {
    socket.close(1000);
  }
};

/** Both sides as bars, the caller's above the agent's, with a line where each utterance began and where sound ended. */
window.draw = ({ stops, spokenMs }) => {
  const canvas = document.querySelector("canvas");
  const pen = canvas.getContext("2d");
  const half = canvas.height / 2;
  const perPixel = (spokenMs * RATE) / 1000 / canvas.width;
  for (const [side, colour] of [[0, "#2563eb"], [1, "#b45309"]]) {
    const sound = recorder.sound(side);
    pen.fillStyle = colour;
    for (let x = 0; x < canvas.width; x += 1) {
      const part = sound.subarray(x * perPixel, (x + 1) * perPixel);
      const peak = part.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
      pen.fillRect(x, half * (side + 0.5 - peak / 2), 1, Math.max(1, half * peak));
    }
  }
  for (const { from, ms } of stops) {
    for (const [at, colour] of [[from, "#16a34a"], [from + (ms ?? 0), "#dc2626"]]) {
      pen.fillStyle = colour;
      pen.fillRect((at / spokenMs) * canvas.width, 0, 1, canvas.height);
    }
  }
};
