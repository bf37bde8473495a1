// Drives the operator page in Chromium: node ops.mjs URL OUTPUT_DIR
//
// A server with an empty store must be running already. Exit code 0 when every check passed, 1 when one did not.

import { mkdirSync } from "node:fs";
import { launch } from "./chromium.mjs";

const [url, folder] = process.argv.slice(2);
if (!url || !folder) {
  console.error("usage: node ops.mjs URL OUTPUT_DIR");
  process.exit(2);
}
const SIZES = { wide: { width: 1280, height: 860 }, phone: { width: 390, height: 844 } };
const NUMBERS = ["+15555550100", "+15555550101", "+15555550102"];

const problems = [];
function check(what, good, detail = "") {
  console.log(`${good ? "ok  " : "FAIL"} ${what}${detail === "" ? "" : `: ${detail}`}`);
  if (!good) problems.push(what);
}

mkdirSync(folder, { recursive: true });
for (const destination of NUMBERS) {
  const consent = { asked: "Shall we ring you back?", said: "Yes please." };
  const body = JSON.stringify({ destination, consent, why: "overloaded", language: "en" });
  const answer = await fetch(`${url}/v1/callbacks`, { method: "POST", body });
  check(`${destination} is on record`, answer.status === 201, String(answer.status));
}
const browser = await launch();
try {
  await looks();
  await works();
} catch (error) {
  check("the run came to its end", false, error.stack);
} finally {
  await browser.close();
}
console.log(problems.length === 0 ? "operator page: all checks passed" : `operator page: ${problems.length} failed`);
process.exit(problems.length === 0 ? 0 : 1);

async function open(size, colorScheme) {
  const page = await (await browser.newContext({ viewport: SIZES[size], colorScheme })).newPage();
  page.wrong = [];
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  page.on("pageerror", (error) => page.wrong.push(String(error)));
  page.on("dialog", (dialog) => dialog.accept());
  await page.goto(`${url}/ops`);
  await page.waitForSelector("#callbacks .item");
  return page;
}

/** Both widths, both schemes: nothing sticks out, no number is readable. */
async function looks() {
  for (const size of Object.keys(SIZES)) {
    for (const scheme of ["light", "dark"]) {
      const page = await open(size, scheme);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      check(`${size} ${scheme}: nothing sticks out`, over <= 0, String(over));
      const text = await page.innerText("body");
      check(`${size} ${scheme}: numbers are hidden`, !NUMBERS.some((number) => text.includes(number)));
      await page.screenshot({ path: `${folder}/ops-${size}-${scheme}.png`, fullPage: true });
      check(`${size} ${scheme}: no errors`, page.wrong.length === 0, page.wrong.join("; "));
      await page.close();
    }
  }
}

/** One callback from its claim to its end, by keyboard, while another page watches. */
async function works() {
  const watcher = await open("phone", "dark");
  const page = await open("wide", "light");
  await page.click("#callbacks .number");
  check("a click shows the number", (await page.innerText("#callbacks .number")) === NUMBERS[0]);
  await page.click("#claim");
  await page.waitForSelector("#notice:not([hidden])");
  check("nobody claims without a name", (await page.innerText("#notice")).includes("who you are"));
  await page.fill("#who", "Ada");
  await page.focus("#claim");
  await page.keyboard.press("Enter");
  for (const step of ["Dial now", "Connected"]) {
    await page.waitForSelector(`#callbacks button:has-text("${step}")`);
    await page.focus(`#callbacks button:has-text("${step}")`);
    await page.keyboard.press("Enter");
  }
  await page.waitForFunction((left) => document.querySelectorAll("#callbacks .item").length === left, NUMBERS.length - 1);
  check("the focus stays in the lists", await page.evaluate(() => document.activeElement !== document.body));
  await watcher.waitForFunction((left) => document.querySelectorAll("#callbacks .item").length === left, NUMBERS.length - 1);
  check("another page follows", true);
  await page.click('#callbacks button:has-text("Cancel")');
  await page.waitForFunction((left) => document.querySelectorAll("#callbacks .item").length === left, NUMBERS.length - 2);
  await page.selectOption("#shelf", "kept");
  await page.waitForFunction(() => document.querySelectorAll("#callbacks .badge").length === 2);
  const ends = await page.$$eval("#callbacks .badge", (badges) => badges.map((badge) => badge.textContent).sort());
  check("what is done is kept", ends.join() === "cancelled,connected", ends.join());
  await page.screenshot({ path: `${folder}/ops-done.png`, fullPage: true });
  check("no errors", page.wrong.length + watcher.wrong.length === 0, page.wrong.concat(watcher.wrong).join("; "));
}
