#!/usr/bin/env node
// Holds real conversations with a Realtime server through `@openai/agents-realtime`.
//
//     npm install
//     node agents_client.mjs ws://127.0.0.1:8080/v1/realtime question.wav [--only NAME] [--tool get_weather]
//
// One line a scenario; exit 0 when all passed, 1 when one did not, 2 on wrong arguments. The server must
// be able to call the tool, and its answers must last three seconds or more (see ../openai_client.py).
import { readFileSync } from 'node:fs';
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';

const RATE_HZ = 24_000;
const FRAME_SAMPLES = RATE_HZ / 50;
const ANSWER_MS = 30_000;
const silence = new ArrayBuffer(FRAME_SAMPLES * 2);

function usage(what) {
  console.error(`error: ${what}`);
  console.error('usage: agents_client.mjs ws://HOST:PORT/v1/realtime QUESTION.wav [--only NAME] [--tool NAME]');
  process.exit(2);
}

function check(condition, what) {
  if (!condition) throw new Error(what);
}

/** The recording as frames of 20 ms, 24 kHz mono. */
function readWav(path) {
  const file = readFileSync(path);
  check(file.toString('latin1', 0, 4) === 'RIFF', `${path} is not a WAV file`);
  let format;
  let data;
  for (let at = 12; at + 8 <= file.length; ) {
    const size = file.readUInt32LE(at + 4);
    const name = file.toString('latin1', at, at + 4);
    const body = file.subarray(at + 8, at + 8 + size);
    if (name === 'fmt ') {
      format = { channels: body.readUInt16LE(2), rate: body.readUInt32LE(4), bits: body.readUInt16LE(14) };
    } else if (name === 'data') data = body;
    at += 8 + size + (size % 2);
  }
  check(format && data && format.bits === 16, `${path}: 16-bit PCM is right`);
  const frames = Math.floor(data.length / 2 / format.channels);
  const sample = (n) => data.readInt16LE(2 * format.channels * Math.min(n, frames - 1));
  const count = Math.floor((frames * RATE_HZ) / format.rate);
  const sound = new Int16Array(Math.ceil(count / FRAME_SAMPLES) * FRAME_SAMPLES);
  for (let n = 0; n < count; n++) {
    const at = (n * format.rate) / RATE_HZ;
    const left = Math.floor(at);
    sound[n] = Math.round(sample(left) + (sample(left + 1) - sample(left)) * (at - left));
  }
  const cut = [];
  for (let n = 0; n < sound.length; n += FRAME_SAMPLES) {
    cut.push(sound.slice(n, n + FRAME_SAMPLES).buffer);
  }
  return cut;
}

/** One session: a microphone that never stops, and everything that happened. */
class Caller {
  constructor(url, tools) {
    this.events = [];
    this.errors = [];
    this.audioMs = 0;
    this.interrupted = 0;
    this.toolResults = [];
    this.toSay = [];
    this.waiting = new Set();
    const agent = new RealtimeAgent({ name: 'test', instructions: 'Answer briefly.', tools });
    const transport = new OpenAIRealtimeWebSocket({ url, useInsecureApiKey: true });
    this.session = new RealtimeSession(agent, {
      transport,
      model: 'default',
      config: { audio: { input: { transcription: { model: 'whisper-1' } } } },
    });
    this.session.on('transport_event', (event) => this.happened(event));
    this.session.on('audio', (event) => {
      this.audioMs += event.data.byteLength / 48;
      this.happened({ type: '(audio)' });
    });
    this.session.on('audio_interrupted', () => {
      this.interrupted += 1;
      this.happened({ type: '(interrupted)' });
    });
    this.session.on('agent_tool_end', (_context, _agent, ended, result) => {
      this.toolResults.push([ended.name, result]);
      this.happened({ type: '(tool)' });
    });
    this.session.on('history_updated', () => this.happened({ type: '(history)' }));
    this.session.on('error', (error) => {
      this.errors.push(error.error);
      this.happened({ type: '(error)' });
    });
  }

  async connect(url) {
    await this.session.connect({ apiKey: 'any', url });
    await this.until(() => this.count('session.updated') > 0, 'session.updated');
    let due = performance.now();
    const speak = () => {
      while (due <= performance.now()) {
        this.session.sendAudio(this.toSay.shift() ?? silence);
        due += 20;
      }
    };
    this.microphone = setInterval(speak, 20);
  }

  happened(event) {
    this.events.push(event);
    for (const look of this.waiting) look();
  }

  count(type) {
    return this.events.filter((event) => event.type === type).length;
  }

  /** Resolves once `condition` gives something true. */
  until(condition, what) {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = condition();
        if (!found) return;
        clearTimeout(limit);
        this.waiting.delete(look);
        resolve(found);
      };
      const limit = setTimeout(() => {
        this.waiting.delete(look);
        const last = this.events.slice(-8).map((event) => event.type);
        reject(new Error(`no ${what} within ${ANSWER_MS / 1000} s; last: ${last.join(', ')}`));
      }, ANSWER_MS);
      this.waiting.add(look);
      look();
    });
  }

  /** The n-th response.done. */
  async done(n = 1) {
    const all = () => this.events.filter((event) => event.type === 'response.done');
    await this.until(() => all().length >= n, `response.done number ${n}`);
    return all()[n - 1].response;
  }

  messages(role) {
    return this.session.history.filter((item) => item.type === 'message' && item.role === role);
  }

  close() {
    clearInterval(this.microphone);
    this.session.close();
  }
}

function words(item) {
  return item.content.map((part) => part.transcript ?? part.text ?? '').join(' ').trim();
}

const scenarios = {
  async spoken_turn(caller, wav) {
    caller.toSay.push(...wav);
    const response = await caller.done();
    check(response.status === 'completed', `response.done: ${JSON.stringify(response)}`);
    check(caller.audioMs > 200, `only ${caller.audioMs} ms of answer`);
    const asked = await caller.until(
      () => caller.messages('user').map(words).find(Boolean),
      'user transcript in the history',
    );
    const said = await caller.until(
      () => caller.messages('assistant').map(words).find(Boolean),
      'assistant transcript in the history',
    );
    return `history: ${JSON.stringify(asked)} -> ${JSON.stringify(said.slice(0, 40))}`;
  },

  async text_turn(caller) {
    caller.session.sendMessage('When are you open?');
    const response = await caller.done();
    check(response.status === 'completed', `response.done: ${JSON.stringify(response)}`);
    const said = await caller.until(
      () => caller.messages('assistant').map(words).find(Boolean),
      'assistant words in the history',
    );
    check(caller.messages('user').map(words).includes('When are you open?'), 'the question is not in the history');
    return `history: ${JSON.stringify(said.slice(0, 60))}`;
  },

  async function_tool(caller) {
    caller.session.sendMessage('What is the weather in Paris?');
    const first = await caller.done(1);
    check(first.output.some((item) => item.type === 'function_call'), `output: ${JSON.stringify(first.output)}`);
    const second = await caller.done(2);
    check(caller.toolResults.length === 1, `the tool ran ${caller.toolResults.length} times`);
    check(second.status === 'completed', `after the tool: ${JSON.stringify(second)}`);
    const calls = caller.session.history.filter((item) => item.type === 'function_call');
    check(calls.length === 1 && calls[0].output, `history: ${JSON.stringify(calls)}`);
    return `${calls[0].name}(${calls[0].arguments}) -> ${calls[0].output}, and an answer`;
  },

  async interrupt_by_client(caller) {
    caller.session.sendMessage('Tell me a long story.');
    await caller.until(() => caller.audioMs > 600, '600 ms of answer');
    caller.session.interrupt();
    const response = await caller.done();
    check(response.status === 'cancelled', `response.done: ${JSON.stringify(response)}`);
    await caller.until(() => caller.count('conversation.item.truncated'), 'conversation.item.truncated');
    await caller.until(() => caller.count('conversation.item.retrieved'), 'conversation.item.retrieved');
    caller.session.sendMessage('Go on.');
    const next = await caller.done(2);
    check(next.status === 'completed', `the next turn: ${JSON.stringify(next)}`);
    return `cut; ${JSON.stringify(words(caller.messages('assistant')[0]).slice(0, 40))} was kept`;
  },

  async interrupt_by_voice(caller, wav) {
    caller.session.sendMessage('Tell me a long story.');
    await caller.until(() => caller.audioMs > 600, '600 ms of answer');
    caller.toSay.push(...wav);
    await caller.until(() => caller.interrupted > 0, 'audio_interrupted');
    const response = await caller.done();
    check(response.status === 'cancelled', `response.done: ${JSON.stringify(response)}`);
    const reason = response.status_details?.reason;
    check(reason === 'turn_detected', `reason: ${reason}`);
    await caller.until(() => caller.count('conversation.item.truncated'), 'conversation.item.truncated');
    const next = await caller.done(2);
    check(next.status === 'completed', `the next turn: ${JSON.stringify(next)}`);
    return 'the voice cut the answer and was answered';
  },
};

async function run(name, url, wav, toolName) {
  const weather = tool({
    name: toolName,
    description: 'Tells the weather.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => `sunny in ${city}`,
  });
  const caller = new Caller(url, name === 'function_tool' ? [weather] : []);
  let verdict;
  let good = true;
  try {
    await caller.connect(url);
    verdict = await scenarios[name](caller, wav);
  } catch (error) {
    good = false;
    verdict = error.message;
  }
  caller.close();
  if (caller.errors.length > 0) good = false;
  console.log(`${good ? 'ok  ' : 'FAIL'} ${name}: ${verdict} (${caller.events.length} events)`);
  for (const error of caller.errors.slice(0, 5)) {
    console.log(`     error: ${error?.message ?? JSON.stringify(error)}`);
  }
  return good;
}

const args = process.argv.slice(2);
const options = { '--only': [], '--tool': ['get_weather'] };
const plain = [];
for (let n = 0; n < args.length; n++) {
  if (!args[n].startsWith('--')) plain.push(args[n]);
  else if (!(args[n] in options) || n + 1 >= args.length) usage(`${args[n]} is no option, or needs a value`);
  else options[args[n]].push(args[++n]);
}
const [url, path] = plain;
if (!url?.startsWith('ws://') && !url?.startsWith('wss://')) usage('the server is an address like ws://127.0.0.1:8080/v1/realtime');
if (!path) usage('a question as a WAV file is needed');
let wav;
try {
  wav = readWav(path);
} catch (error) {
  usage(error.message);
}
const names = options['--only'].length > 0 ? options['--only'] : Object.keys(scenarios);
const unknown = names.find((name) => !(name in scenarios));
if (unknown) usage(`--only ${unknown}: one of ${Object.keys(scenarios).join(', ')} is right`);
process.on('uncaughtException', (error) => {
  console.log(`FAIL uncaught in the SDK: ${error.stack}`);
  process.exit(1);
});
const results = [];
for (const name of names) results.push(await run(name, url, wav, options['--tool'].at(-1)));
console.log(`${results.filter(Boolean).length} of ${results.length} scenarios passed`);
process.exit(results.every(Boolean) ? 0 : 1);
