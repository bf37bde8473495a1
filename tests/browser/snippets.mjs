// The code that docs/clients.md shows, run against a server: node snippets.mjs URL UTTERANCE.wav CLIENTS.md
//
// Exit code 0 when each was heard and answered, 1 when one was not, 2 for wrong arguments.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { launch, serveAgents, servePage } from "./chromium.mjs";
import { readWav, writeMicrophone } from "./wav.mjs";

const [url, wav, document] = process.argv.slice(2);
if (!url || !wav || !document) {
  console.error("usage: node snippets.mjs URL UTTERANCE.wav CLIENTS.md");
  process.exit(2);
}

const ANSWER_MS = 30000;
const SHOWN = "http://127.0.0.1:8080";

let failed = 0;
const text = readFileSync(document, "utf8");
const scratch = mkdtempSync(join(tmpdir(), "floorkeeper-snippets-"));
try {
  const microphone = join(scratch, "microphone.wav");
  writeMicrophone(readWav(wav), microphone, { leadS: 2, gapS: 0, tailS: 60, maxS: 3 });
  for (const name of ["page", "agents-js"]) {
    const problem = await run(shown(name), microphone);
    console.log(`${problem ? "FAIL" : "ok  "} the code for ${name} holds a conversation${problem ? `: ${problem}` : ""}`);
    if (problem) failed += 1;
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(failed === 0 ? 0 : 1);

/** The block of that name, with the server's real address. */
function shown(name) {
  const [, code] = new RegExp(`^\`\`\`js ${name}\n([^]*?)^\`\`\`$`, "m").exec(text) ?? [];
  if (!code || !code.includes(SHOWN)) throw new Error(`${document} shows no code for ${name} at ${SHOWN}`);
  return code.replaceAll(SHOWN, url.replace(/\/$/, ""));
}

/** Runs it as a page of its own; gives what went wrong, "" when words went both ways. */
async function run(code, microphone) {
  const browser = await launch(microphone);
  try {
    const page = await browser.newPage();
    const lines = [];
    const over = new Promise((done) => {
      page.on("console", (message) => {
        lines.push(message.text());
        if (/^(Agent:.*\S|Error:)/.test(message.text())) done();
      });
      page.on("pageerror", (error) => {
        lines.push(`Error: ${error.message}`);
        done();
      });
    });
    const library = await serveAgents(page);
    await servePage(page, url, "snippet", `${library}<script type="module">${code}</script>`);
    const late = new Promise((done) => setTimeout(done, ANSWER_MS, "late"));
    const wasLate = (await Promise.race([over, late])) === "late";
    const good = !wasLate && lines.some((line) => /^You:.*\S/.test(line)) && !lines.some((line) => /^Error/.test(line));
    return good ? "" : lines.join(" | ") || "nothing was said";
  } finally {
    await browser.close();
  }
}
