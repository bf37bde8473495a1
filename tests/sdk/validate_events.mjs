// Checks Realtime server events against the schemas of @openai/agents-realtime (0.20.0).
//
// That SDK drops an event that its schema refuses, without a word (protocols T3, T4, T5, T7). Reads
// JSON lines or golden scripts ("< " lines) and fails when one would be dropped.
//
//     npm install --prefix /tmp/agents @openai/agents-realtime@0.20.0
//     node tests/sdk/validate_events.mjs /tmp/agents fixtures/realtime/*.script

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...files] = process.argv.slice(2);
const dist = "node_modules/@openai/agents-realtime/dist/openaiRealtimeEvents.mjs";
const { parseRealtimeEvent } = await import(pathToFileURL(path.resolve(folder, dist)));

// What this version has no schema for, and passes on as it is.
const without = new Set(["input_audio_buffer.timeout_triggered"]);
let checked = 0;
let dropped = 0;
for (const file of files) {
  const scripted = file.endsWith(".script");
  const lines = fs.readFileSync(file, "utf8").split("\n");
  for (const [index, line] of lines.entries()) {
    const text = scripted ? (line.startsWith("< ") ? line.slice(2) : "") : line;
    if (!text) continue;
    const { type } = JSON.parse(text);
    if (type.startsWith("floorkeeper.") || without.has(type)) continue;
    checked += 1;
    if (parseRealtimeEvent({ data: text }).isGeneric) {
      dropped += 1;
      console.error(`${file}:${index + 1}: ${type}: does not fit its schema`);
    }
  }
}
console.log(`${checked} events checked, ${dropped} dropped`);
process.exit(dropped || !checked ? 1 : 0);
