#!/usr/bin/env node
// Holds real conversations with a Realtime server through the `openai` package for Node.
//
//     npm install
//     export NODE_EXTRA_CA_CERTS=ca.pem
//     node openai_node_client.mjs https://127.0.0.1:8080/v1 question.wav [--only NAME]
//
// The package speaks TLS only. One line a scenario; exit 0 when all passed, 1 when one did not, 2 on
// wrong arguments. The server must call get_weather, and its answers must last three seconds or more.
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { check, Happenings } from '../happenings.mjs';
import { openRelay } from '../relay.mjs';
import { openMicrophone, readFrames } from '../sound.mjs';

const TRANSCRIPTION = { input: { transcription: { model: 'default' } } };
const COMPLETED = 'conversation.item.input_audio_transcription.completed';

/** One conversation through the package: all its events, and its errors beside them. */
class Caller extends Happenings {
  constructor(relay, options) {
    super();
    this.errors = [];
    this.toSay = [];
    const client = new OpenAI({ apiKey: 'any', baseURL: `https://127.0.0.1:${relay.port}/v1` });
    this.realtime = new OpenAIRealtimeWS({ model: 'default', ...options }, client);
    this.realtime.on('event', (event) => this.add(event));
    this.realtime.on('reconnecting', () => this.add({ type: '(reconnecting)' }));
    this.realtime.on('reconnected', () => this.add({ type: '(reconnected)' }));
    this.realtime.on('error', (error) => {
      this.errors.push(error);
      this.add({ type: '(error)', error });
    });
  }

  send(type, fields = {}) {
    this.realtime.send({ type, ...fields });
  }

  /** Changes the session and waits until the server has. */
  async session(changes) {
    const since = this.events.length;
    this.send('session.update', { session: { type: 'realtime', ...changes } });
    return this.event('session.updated', since);
  }

  /** Types a line and asks for the answer; gives the position before its events. */
  ask(text) {
    const since = this.events.length;
    const content = [{ type: 'input_text', text }];
    this.send('conversation.item.create', { item: { type: 'message', role: 'user', content } });
    this.send('response.create');
    return since;
  }

  openMicrophone() {
    const append = (frame) => {
      this.send('input_audio_buffer.append', { audio: Buffer.from(frame).toString('base64') });
    };
    this.closeMicrophone = openMicrophone(this.toSay, append);
  }

  audioMs(since = 0) {
    const deltas = this.of('response.output_audio.delta', since);
    return deltas.reduce((sum, { delta }) => sum + Buffer.from(delta, 'base64').length, 0) / 48;
  }

  close() {
    this.closeMicrophone?.();
    this.realtime.close();
  }
}

const scenarios = {
  async spoken_turn(caller, wav) {
    await caller.session({ audio: TRANSCRIPTION });
    caller.openMicrophone();
    caller.toSay.push(...wav);
    const { transcript: asked } = await caller.event(COMPLETED);
    await caller.completed(0);
    const { transcript: said } = await caller.event('response.output_audio_transcript.done');
    check(asked.trim() && said.trim(), `asked ${JSON.stringify(asked)}, said ${JSON.stringify(said)}`);
    check(caller.audioMs() > 200, `only ${caller.audioMs()} ms of answer`);
    return `heard ${JSON.stringify(asked)}, said ${JSON.stringify(said.slice(0, 40))}`;
  },

  async barge_in(caller, wav) {
    await caller.session({ audio: TRANSCRIPTION });
    caller.openMicrophone();
    const since = caller.ask('Tell me a long story.');
    await caller.until(() => caller.audioMs(since) > 600, '600 ms of answer');
    caller.toSay.push(...wav);
    await caller.event('input_audio_buffer.speech_started', since);
    const [{ item_id: item }] = caller.of('response.output_audio.delta', since);
    const { response } = await caller.event('response.done', since);
    check(response.status_details?.reason === 'turn_detected', JSON.stringify(response));
    caller.send('conversation.item.truncate', { item_id: item, content_index: 0, audio_end_ms: 500 });
    const cut = await caller.event('conversation.item.truncated', since);
    check(cut.item_id === item, `truncated: ${JSON.stringify(cut)}`);
    await caller.completed(since);
    return 'the voice cut the answer and was answered';
  },

  async function_call(caller) {
    const parameters = { type: 'object', properties: { city: { type: 'string' } } };
    const weather = { type: 'function', name: 'get_weather', description: 'Tells it.', parameters };
    await caller.session({ output_modalities: ['text'], tools: [weather] });
    const since = caller.ask('What is the weather in Paris?');
    const call = await caller.event('response.function_call_arguments.done', since);
    check(call.name === 'get_weather', `calls ${call.name}`);
    await caller.completed(since);
    const item = { type: 'function_call_output', call_id: call.call_id, output: '{"sky":"clear"}' };
    caller.send('conversation.item.create', { item });
    caller.send('response.create');
    const second = await caller.completed(since, 2);
    check(second.output[0]?.type === 'message', `after the result: ${JSON.stringify(second.output)}`);
    return `${call.name}(${call.arguments}) and an answer to its result`;
  },

  async text_turn(caller) {
    await caller.session({ output_modalities: ['text'] });
    const since = caller.ask('When are you open?');
    await caller.completed(since);
    const { text } = await caller.event('response.output_text.done', since);
    const joined = caller.of('response.output_text.delta', since).map(({ delta }) => delta).join('');
    check(text.trim() && joined === text, `deltas ${JSON.stringify(joined)}, not ${JSON.stringify(text)}`);
    check(caller.audioMs() === 0, 'a written answer that sounds');
    return `read ${JSON.stringify(text.slice(0, 40))}`;
  },

  async error(caller) {
    caller.send('conversation.item.delete', { item_id: 'no_such_item', event_id: 'wrong' });
    const { error } = await caller.event('(error)');
    check(error.error?.event_id === 'wrong', `the error does not name its request: ${error.message}`);
    caller.errors.length = 0; // the one that was asked for
    await caller.completed(caller.ask('And now?'));
    return `${JSON.stringify(error.error.message)}, and the next turn is answered`;
  },

  async reconnect(caller, wav, relay) {
    const since = caller.ask('Tell me a long story.');
    await caller.until(() => caller.audioMs(since) > 200, '200 ms of answer');
    const lost = caller.events.length;
    relay.cut();
    await caller.event('(reconnecting)', lost);
    await caller.event('(reconnected)', lost);
    await caller.event('session.created', lost);
    await caller.session({ audio: TRANSCRIPTION });
    caller.openMicrophone();
    caller.toSay.push(...wav);
    const { transcript } = await caller.event(COMPLETED, lost);
    await caller.completed(lost);
    return `cut while it spoke, called again, heard ${JSON.stringify(transcript)}`;
  },
};

async function run(name, server, wav) {
  const relay = await openRelay(server);
  const caller = new Caller(relay, name === 'reconnect' ? { reconnect: true } : {});
  let verdict;
  let good = true;
  try {
    await caller.event('session.created');
    verdict = await scenarios[name](caller, wav, relay);
  } catch (error) {
    good = false;
    verdict = error.message;
  }
  if (caller.errors.length > 0) good = false;
  caller.close();
  relay.close();
  console.log(`${good ? 'ok  ' : 'FAIL'} ${name}: ${verdict} (${caller.events.length} events)`);
  for (const error of caller.errors.slice(0, 5)) console.log(`     error: ${error.message}`);
  return good;
}

function usage(what) {
  console.error(`error: ${what}`);
  console.error('usage: openai_node_client.mjs https://HOST:PORT/v1 QUESTION.wav [--only NAME]');
  process.exit(2);
}

const [address, path, option, only] = process.argv.slice(2);
if (!address?.startsWith('https://') || !URL.canParse(address)) usage('the server is an address like https://127.0.0.1:8080/v1');
if (!path) usage('a question as a WAV file is needed');
if (option && (option !== '--only' || !(only in scenarios))) {
  usage(`--only takes one of ${Object.keys(scenarios).join(', ')}`);
}
let wav;
try {
  wav = readFrames(path);
} catch (error) {
  usage(error.message);
}
// All at once: each has a connection of its own, and most of its time is an answer being spoken.
const names = only ? [only] : Object.keys(scenarios);
const results = await Promise.all(names.map((name) => run(name, new URL(address), wav)));
console.log(`${results.filter(Boolean).length} of ${results.length} scenarios passed`);
process.exit(results.every(Boolean) ? 0 : 1);
