// Served to a page by conversations.mjs: two ways to hold a call over WebRTC, with one face.

import { OpenAIRealtimeWebRTC, RealtimeAgent, RealtimeSession, tool } from "@openai/agents-realtime";
import { check, Happenings } from "/happenings.mjs";

const TRANSCRIBED = { audio: { input: { transcription: { model: "default" } } } };
const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };

/** A microphone that never stops, and says what it is given. */
class Microphone {
  #context = new AudioContext();
  #out = this.#context.createMediaStreamDestination();
  stream = this.#out.stream;

  async say() {
    const voice = await (await fetch("/voice.wav")).arrayBuffer();
    const source = this.#context.createBufferSource();
    source.buffer = await this.#context.decodeAudioData(voice);
    source.connect(this.#out);
    source.start();
  }
}

/** A page's own few lines. */
class Plain extends Happenings {
  ran = [];
  #microphone = new Microphone();

  async connect(withTool) {
    const since = this.events.length;
    this.pc = new RTCPeerConnection();
    this.pc.addTrack(this.#microphone.stream.getAudioTracks()[0], this.#microphone.stream);
    this.pc.ontrack = ({ track }) => {
      this.voice = new Audio();
      this.voice.srcObject = new MediaStream([track]);
      this.voice.play();
    };
    this.channel = this.pc.createDataChannel("oai-events");
    this.channel.onmessage = ({ data }) => this.#told(JSON.parse(data));
    this.channel.onclose = () => this.add({ type: "(lost)" });
    await this.pc.setLocalDescription();
    const body = this.pc.localDescription.sdp;
    const headers = { "Content-Type": "application/sdp", Authorization: "Bearer any" };
    const reply = await fetch("/v1/realtime/calls", { method: "POST", headers, body });
    this.place = reply.headers.get("location");
    await this.pc.setRemoteDescription({ type: "answer", sdp: await reply.text() });
    await this.event("session.created", since);
    const tools = withTool ? [{ type: "function", name: "get_weather", description: "Tells the weather.", parameters: PARAMETERS }] : [];
    this.send({ type: "session.update", session: { type: "realtime", ...TRANSCRIBED, tools } });
    await this.event("session.updated", since);
  }

  #told(event) {
    this.add(event);
    if (event.type !== "response.function_call_arguments.done") return;
    this.ran.push(`sunny in ${JSON.parse(event.arguments).city}`);
    const item = { type: "function_call_output", call_id: event.call_id, output: this.ran.at(-1) };
    this.send({ type: "conversation.item.create", item });
    this.event("response.done").then(() => this.send({ type: "response.create" }));
  }

  send(event) {
    this.channel.send(JSON.stringify(event));
  }

  write(text) {
    const content = [{ type: "input_text", text }];
    this.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    this.send({ type: "response.create" });
  }

  say() {
    return this.#microphone.say();
  }

  close() {
    this.pc.close();
  }
}

/** The library. */
class AgentsJs extends Happenings {
  ran = [];
  #microphone = new Microphone();

  async connect(withTool) {
    const fetched = window.fetch;
    window.fetch = async (...asked) => {
      const reply = await fetched(...asked);
      this.place = reply.headers.get("location") ?? this.place;
      return reply;
    };
    const execute = async ({ city }) => {
      this.ran.push(`sunny in ${city}`);
      return this.ran.at(-1);
    };
    const weather = tool({ name: "get_weather", description: "Tells the weather.", parameters: PARAMETERS, strict: false, execute });
    const agent = new RealtimeAgent({ name: "test", instructions: "Answer briefly.", tools: withTool ? [weather] : [] });
    const transport = new OpenAIRealtimeWebRTC({
      baseUrl: new URL("/v1/realtime/calls", location).href,
      useInsecureApiKey: true,
      mediaStream: this.#microphone.stream,
    });
    transport.on("connection_change", (status) => status === "disconnected" && this.add({ type: "(lost)" }));
    this.session = new RealtimeSession(agent, { transport, model: "default", config: TRANSCRIBED });
    this.session.on("transport_event", (event) => this.add(event));
    this.session.on("error", () => {}); // told as an event as well
    const since = this.events.length;
    await this.session.connect({ apiKey: "any" });
    await this.event("session.updated", since);
    window.fetch = fetched;
  }

  send(event) {
    this.session.transport.sendEvent(event);
  }

  write(text) {
    this.session.sendMessage(text);
  }

  say() {
    return this.#microphone.say();
  }

  close() {
    this.session.close();
  }
}

const conversations = {
  async spoken_turn(caller) {
    await caller.say();
    const { transcript } = await caller.event("conversation.item.input_audio_transcription.completed");
    check(transcript.trim() !== "", "nothing was understood");
    await caller.completed();
    await caller.event("output_audio_buffer.stopped");
    return `"${transcript}" was answered aloud`;
  },

  async barge_in(caller) {
    caller.write("Tell me a long story.");
    await caller.event("output_audio_buffer.started");
    await caller.say();
    await caller.event("output_audio_buffer.cleared");
    const { audio_end_ms } = await caller.event("conversation.item.truncated");
    const { response } = await caller.event("response.done");
    check(response.status_details?.reason === "turn_detected", `response.done: ${JSON.stringify(response)}`);
    await caller.completed();
    return `cut at ${audio_end_ms} ms, and the voice was answered`;
  },

  async function_call(caller) {
    caller.write("What is the weather in Paris?");
    const { response } = await caller.event("response.done");
    check(response.output.some((item) => item.type === "function_call"), `output: ${JSON.stringify(response.output)}`);
    const spoken = ({ response: { status, output } }) =>
      status === "completed" && output.some((item) => item.type === "message");
    await caller.until(() => caller.of("response.done").find(spoken), "spoken answer");
    check(caller.ran.join() === "sunny in Paris", `it ran: ${caller.ran.join()}`);
    return `${caller.ran[0]}, once, and an answer to it`;
  },

  async text_turn(caller) {
    caller.write("When are you open?");
    const { output } = await caller.completed();
    const [part] = output[0].content;
    check((part.transcript ?? part.text).trim() !== "", `output: ${JSON.stringify(output)}`);
    return `"${(part.transcript ?? part.text).slice(0, 24)}…"`;
  },

  async error(caller) {
    caller.send({ type: "conversation.item.delete", item_id: "no_such_item" });
    const { error } = await caller.event("error");
    caller.write("And now?");
    await caller.completed();
    return `"${error.message}", and the next turn is answered`;
  },

  async reconnect(caller) {
    caller.write("Tell me a long story.");
    await caller.event("output_audio_buffer.started");
    const before = caller.place;
    const since = caller.events.length;
    await fetch(`${before}/hangup`, { method: "POST", headers: { Authorization: "Bearer any" } });
    await caller.event("(lost)", since);
    caller.close();
    await caller.connect(false);
    check(caller.place !== before, "it is the same call");
    caller.write("Are you there?");
    await caller.completed(since);
    return "hung up while it spoke, called again, and was answered";
  },
};

/** Holds one conversation; gives what came of it, or what went wrong behind "FAIL". */
window.hold = async (client, name) => {
  const caller = client === "agents-js" ? new AgentsJs() : new Plain();
  try {
    await caller.connect(name === "function_call");
    return await conversations[name](caller);
  } catch (error) {
    return `FAIL ${error.message}`;
  } finally {
    caller.close();
  }
};
window.names = Object.keys(conversations);
