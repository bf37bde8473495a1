// Whole conversations over WebRTC from Chromium, by a page's own few lines and by agents-js:
// node conversations.mjs URL UTTERANCE.wav
//
// The server must be running, call get_weather when it is on offer, and answer for three seconds or
// more. Exit code 0 when each was held, 1 when one was not, 2 for wrong arguments.

import { readFileSync } from "node:fs";
import { launch, serveAgents, servePage, serveScript } from "./chromium.mjs";

const [url, wav] = process.argv.slice(2);
if (!url || !wav) {
  console.error("usage: node conversations.mjs URL UTTERANCE.wav");
  process.exit(2);
}

/** Calls at once: most of the time of each is an answer that is spoken. */
const AT_ONCE = 3;

const browser = await launch();
let failed = 0;
try {
  const names = await (await open()).evaluate(() => window.names);
  for (const client of ["agents-js", "page"]) {
    const left = [...names];
    const lane = async () => {
      for (let name = left.shift(); name; name = left.shift()) {
        const said = await hold(client, name);
        const problem = said.startsWith("FAIL ");
        console.log(`${problem ? "FAIL" : "ok  "} ${client} in Chromium, ${name}: ${said.replace(/^FAIL /, "")}`);
        if (problem) failed += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, lane));
  }
} finally {
  await browser.close();
}
console.log(failed === 0 ? "conversations: all held" : `conversations: ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);

/** A page of the server's own origin, in a context of its own. */
async function open() {
  const page = await (await browser.newContext()).newPage();
  await page.route("**/voice.wav", (route) => route.fulfill({ contentType: "audio/wav", body: readFileSync(wav) }));
  for (const name of ["callers.js", "happenings.mjs"]) await serveScript(page, name);
  const library = await serveAgents(page);
  const html = `${library}<script type="module" src="/callers.js"></script>`;
  await servePage(page, url, "conversations", html);
  await page.waitForFunction(() => window.names);
  return page;
}

async function hold(client, name) {
  const page = await open();
  try {
    return await page.evaluate(([client, name]) => window.hold(client, name), [client, name]);
  } catch (error) {
    return `FAIL ${error.message}`;
  } finally {
    await page.context().close();
  }
}
