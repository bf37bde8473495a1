#!/usr/bin/env node
// Holds real conversations with a Realtime server through `@openai/agents-realtime`.
//
//     npm install
//     node agents_client.mjs ws://127.0.0.1:8080/v1/realtime question.wav [--only NAME] [--tool NAME]
//
// One line a scenario; exit 0 when all passed, 1 when one did not, 2 on wrong arguments. The server
// must be able to call the tool (get_weather), and its answers must last three seconds or more (see
// ../openai_client.py).
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';
import { check, Happenings } from '../happenings.mjs';
import { openRelay } from '../relay.mjs';
import { openMicrophone, readFrames } from '../sound.mjs';

function usage(what) {
  console.error(`error: ${what}`);
  console.error('usage: agents_client.mjs ws://HOST:PORT/v1/realtime QUESTION.wav [--only NAME] [--tool NAME]');
  process.exit(2);
}

/** One session: a microphone that never stops, and everything that happened. */
class Caller extends Happenings {
  constructor(url, tools) {
    super();
    this.url = url;
    this.errors = [];
    this.audioMs = 0;
    this.interrupted = 0;
    this.toolResults = [];
    this.toSay = [];
    const agent = new RealtimeAgent({ name: 'test', instructions: 'Answer briefly.', tools });
    const transport = new OpenAIRealtimeWebSocket({ url, useInsecureApiKey: true });
    this.session = new RealtimeSession(agent, {
      transport,
      model: 'default',
      config: { audio: { input: { transcription: { model: 'whisper-1' } } } },
    });
    transport.on('connection_change', (status) => this.add({ type: `(${status})` }));
    this.session.on('transport_event', (event) => this.add(event));
    this.session.on('audio', (event) => {
      this.audioMs += event.data.byteLength / 48;
      this.add({ type: '(audio)' });
    });
    this.session.on('audio_interrupted', () => {
      this.interrupted += 1;
      this.add({ type: '(interrupted)' });
    });
    this.session.on('agent_tool_end', (_context, _agent, ended, result) => {
      this.toolResults.push([ended.name, result]);
      this.add({ type: '(tool)' });
    });
    this.session.on('history_updated', () => this.add({ type: '(history)' }));
    this.session.on('error', (error) => {
      this.errors.push(error.error);
      this.add({ type: '(error)' });
    });
  }

  async connect() {
    const since = this.events.length;
    await this.session.connect({ apiKey: 'any', url: this.url });
    await this.event('session.updated', since);
    this.closeMicrophone = openMicrophone(this.toSay, (frame) => this.session.sendAudio(frame));
  }

  count(type) {
    return this.of(type).length;
  }

  /** The n-th response.done. */
  async done(n = 1) {
    return (await this.event('response.done', 0, n)).response;
  }

  messages(role) {
    return this.session.history.filter((item) => item.type === 'message' && item.role === role);
  }

  close() {
    this.closeMicrophone?.();
    this.session.close();
  }
}

function words(item) {
  return item.content.map((part) => part.transcript ?? part.text ?? '').join(' ').trim();
}

const scenarios = {
  async spoken_turn(caller, wav) {
    caller.toSay.push(...wav);
    await caller.completed();
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

  async function_call(caller) {
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

  async barge_in(caller, wav) {
    caller.session.sendMessage('Tell me a long story.');
    await caller.until(() => caller.audioMs > 600, '600 ms of answer');
    caller.toSay.push(...wav);
    await caller.until(() => caller.interrupted > 0, 'audio_interrupted');
    const response = await caller.done();
    check(response.status === 'cancelled', `response.done: ${JSON.stringify(response)}`);
    const reason = response.status_details?.reason;
    check(reason === 'turn_detected', `reason: ${reason}`);
    await caller.until(() => caller.count('conversation.item.truncated'), 'conversation.item.truncated');
    await caller.completed();
    return 'the voice cut the answer and was answered';
  },

  async error(caller) {
    caller.session.transport.sendEvent({ type: 'conversation.item.delete', item_id: 'no_such_item' });
    const { error } = await caller.event('error');
    await caller.until(() => caller.errors.length > 0, 'error of the session');
    caller.errors.length = 0; // the one that was asked for
    caller.session.sendMessage('And now?');
    const response = await caller.done();
    check(response.status === 'completed', `after the error: ${JSON.stringify(response)}`);
    return `${JSON.stringify(error.message)}, and the next turn is answered`;
  },

  /** The package tells that the line is lost and leaves it to its user to connect again. */
  async reconnect(caller, wav, relay) {
    caller.session.sendMessage('Tell me a long story.');
    await caller.until(() => caller.audioMs > 200, '200 ms of answer');
    const lost = caller.events.length;
    relay.cut();
    await caller.event('(disconnected)', lost);
    caller.errors.length = 0; // that of the loss
    caller.closeMicrophone();
    await caller.connect();
    caller.toSay.push(...wav);
    await caller.completed(lost);
    return 'cut while it spoke, called again, and was answered';
  },
};

async function run(name, url, wav, toolName) {
  const weather = tool({
    name: toolName,
    description: 'Tells the weather.',
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => `sunny in ${city}`,
  });
  const near = new URL(url);
  const relay = await openRelay(near);
  near.host = `127.0.0.1:${relay.port}`;
  const caller = new Caller(near.href, name === 'function_call' ? [weather] : []);
  let verdict;
  let good = true;
  try {
    await caller.connect();
    verdict = await scenarios[name](caller, wav, relay);
  } catch (error) {
    good = false;
    verdict = error.message;
  }
  caller.close();
  relay.close();
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
if (!url?.startsWith('ws://') || !URL.canParse(url)) usage('the server is an address like ws://127.0.0.1:8080/v1/realtime');
if (!path) usage('a question as a WAV file is needed');
let wav;
try {
  wav = readFrames(path);
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
// All at once: each has a connection of its own, and most of its time is an answer being spoken.
const results = await Promise.all(names.map((name) => run(name, url, wav, options['--tool'].at(-1))));
console.log(`${results.filter(Boolean).length} of ${results.length} scenarios passed`);
process.exit(results.every(Boolean) ? 0 : 1);
