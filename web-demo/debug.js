// What the browser tests read: counts, the last events, and what was really played. Small and bounded.

const KEPT_EVENTS = 400;

export function openDebug(transcript) {
  const state = {
    state: "idle",
    counts: {},
    events: [], // { at, type, … } without sound
    audio: { receivedSamples: 0, playedFrames: 0, peakRms: 0, squares: 0, clears: 0, droppedMs: 0 },
    microphone: { startedAt: null, problem: null, rms: 0, peakRms: 0 },
    heard: {},
    firstSoundMs: [],
    responses: [],
    notices: [],
    retries: [], // how long the page waited before each new call, in ms
    paths: [], // how each call was tried: webrtc, websocket
    line: null, // the network as the page shows it
    transcript: () => transcript.all(),
    /** Loudness of everything audible so far, 0 to 1. */
    playedRms: () => Math.sqrt(state.audio.squares / Math.max(1, state.audio.audibleFrames || 0)),
  };
  window.__floorkeeper = state;
  const count = (name) => {
    state.counts[name] = (state.counts[name] || 0) + 1;
  };
  return {
    state,
    count,
    event(event) {
      count(event.type);
      if (event.type === "response.output_audio.delta") return;
      state.events.push({ at: Math.round(performance.now()), ...event });
      if (state.events.length > KEPT_EVENTS) state.events.shift();
    },
    received(samples) {
      state.audio.receivedSamples += samples;
    },
    played({ frames, rms, audible }) {
      if (!audible) return;
      state.audio.playedFrames += frames;
      if (rms < 0.001) return;
      state.audio.audibleFrames = (state.audio.audibleFrames || 0) + frames;
      state.audio.squares += rms * rms * frames;
      state.audio.peakRms = Math.max(state.audio.peakRms, rms);
    },
    cleared(droppedMs) {
      state.audio.clears += 1;
      state.audio.droppedMs += droppedMs;
    },
    heard(item, ms) {
      state.heard[item] = ms;
    },
    firstSound(ms) {
      state.firstSoundMs.push(ms);
    },
    responseDone({ id, status, status_details: details }) {
      state.responses.push({ id, status, code: details?.error?.code });
      if (state.responses.length > KEPT_EVENTS) state.responses.shift();
    },
  };
}
