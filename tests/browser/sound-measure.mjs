// What a recording of both directions of a call says: when the caller began, when the agent fell silent, which words came.

const FRAME_MS = 20;
/** Quieter than this nobody speaks. */
const AUDIBLE_DBFS = -45;
/** Pauses of a sentence are shorter than what lies between two utterances. */
const APART_MS = 1000;
/** An answer that is in a pause of its own when the caller begins cannot be seen to stop. */
const BEFORE_MS = 100;

/** Which frames of 20 ms are audible. */
export function audible(sound, rate) {
  const size = (rate * FRAME_MS) / 1000;
  const least = 10 ** (AUDIBLE_DBFS / 20);
  const frames = [];
  for (let at = 0; at + size <= sound.length; at += size) {
    let squares = 0;
    for (let i = at; i < at + size; i += 1) squares += sound[i] * sound[i];
    frames.push(Math.sqrt(squares / size) > least);
  }
  return frames;
}

/** The utterances in a microphone's frames, each from its first audible frame to its last, in ms. */
export function utterances(frames) {
  const found = [];
  frames.forEach((is, i) => {
    if (!is) return;
    const [from, to] = [i * FRAME_MS, (i + 1) * FRAME_MS];
    const last = found.at(-1);
    if (last && from - last.to < APART_MS) last.to = to;
    else found.push({ from, to });
  });
  return found;
}

/** From the caller's first sound to the agent's last, in ms; null where the agent was not speaking. */
export function stopMs(agent, { from, to }) {
  const within = (a, b) => agent.slice(Math.max(0, a / FRAME_MS), b / FRAME_MS);
  if (!within(from - BEFORE_MS, from).includes(true)) return null;
  return (within(from, to).lastIndexOf(true) + 1) * FRAME_MS;
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return (sorted[Math.ceil(middle) - 1] + sorted[Math.floor(middle)]) / 2;
}

/** Words to change, add or remove to make `heard` from `said`, and how many words `said` has. */
export function wordErrors(said, heard) {
  const [wanted, got] = [words(said), words(heard)];
  let row = [...got.keys(), got.length];
  wanted.forEach((word, i) => {
    const next = [i + 1];
    got.forEach((other, j) => {
      next.push(Math.min(row[j] + (word === other ? 0 : 1), row[j + 1] + 1, next[j] + 1));
    });
    row = next;
  });
  return { errors: row.at(-1), words: wanted.length };
}

function words(text) {
  return text.toLowerCase().replaceAll("’", "'").match(/[\p{L}\p{N}']+/gu) ?? [];
}
