// Chromium as every test here starts it, and what its pages find beside the server's own.

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--autoplay-policy=no-user-gesture-required",
];
const AGENTS = new URL("node_modules/@openai/agents-realtime/dist/bundle/", import.meta.url);

/** A browser of its own; `microphone` is a WAV file, null for none; `more` are further flags. */
export function launch(microphone = null, ...more) {
  const media = microphone
    ? [
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        `--use-file-for-fake-audio-capture=${microphone}%noloop`,
      ]
    : [];
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  return chromium.launch({ executablePath, headless: true, args: [...FLAGS, ...more, ...media] });
}

/** Shows a page of our own at the server's origin, so that it may call; `name` is its path. */
export async function servePage(page, url, name, html) {
  await page.route(`**/${name}`, (route) => route.fulfill({ contentType: "text/html", body: html }));
  await page.goto(new URL(`/${name}`, url).href);
}

/** Has the page find a script of ours at the server's origin. */
export function serveScript(page, name) {
  return page.route(`**/${name}`, (route) => give(route, new URL(name, import.meta.url)));
}

/** Has the page find agents-js; gives the HTML that its scripts need before them to import it. */
export async function serveAgents(page) {
  await page.route("**/agents/*.mjs", (route) => {
    return give(route, new URL(new URL(route.request().url()).pathname.split("/").pop(), AGENTS));
  });
  const imports = { "@openai/agents-realtime": "/agents/openai-realtime-agents.mjs" };
  return `<script type="importmap">${JSON.stringify({ imports })}</script>`;
}

function give(route, file) {
  return route.fulfill({ contentType: "text/javascript", body: readFileSync(file, "utf8") });
}
