// Checks of the talk page that need no speech: typing, refusals, a missing microphone, keyboard, width.

import { join } from "node:path";
import { until } from "./poll.mjs";

/** Runs every check in one browser without a microphone. */
export async function pageChecks({ url, folder, check, launch }) {
  const browser = await launch(null);
  try {
    const both = [typed, typedOver, held].flatMap((one) => [
      [one, ""],
      [one, "?transport=websocket"],
    ]);
    const others = [noMicrophone, full, gone, narrow, keyboard].map((one) => [one, ""]);
    for (const [one, query] of [...both, ...others]) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      try {
        await page.goto(url + query);
        await one({ page, folder, check });
      } catch (error) {
        check(`page check ${one.name} came to its end`, false, error.message);
      } finally {
        await page.close();
      }
    }
  } finally {
    await browser.close();
  }
}

async function ask(page, text) {
  await page.getByLabel("Type a turn instead of speaking").fill(text);
  await page.keyboard.press("Enter");
}

async function typed({ page, check }) {
  await ask(page, "What are your opening hours?");
  await until(page, (s) => s.audio.peakRms > 0.01);
  const words = await page.evaluate(() =>
    window.__floorkeeper.transcript().map((entry) => `${entry.side}: ${entry.text}`),
  );
  check(
    "a typed turn is answered aloud without a microphone",
    words.some((line) => line.startsWith("agent: ")),
    words.join(" / "),
  );
  await page.getByRole("button", { name: "Hang up" }).click();
}

/** A typed turn over an answer cuts it like a spoken one. */
async function typedOver({ page, check }) {
  await ask(page, "Explain how booking works");
  await until(page, (s) => Object.values(s.heard).some((ms) => ms >= 1500));
  await ask(page, "What are your opening hours?");
  await until(page, (s) => s.responses.length === 2, 30000);
  const [first, , last] = await page.evaluate(() =>
    window.__floorkeeper.transcript().filter((entry) => entry.text).slice(1),
  );
  const heard = `heard "${first.heard}" of "${first.text}"`;
  check("a typed turn cuts the answer before it", first.cutMs !== null && first.heard !== "" && first.heard !== first.text, heard);
  check("and is answered", last?.side === "agent" && /open/.test(last.text), last?.text);
  const said = await page.locator("#transcript .note").allInnerTexts();
  check("nothing goes wrong with that", said.length === 0, said.join(" / "));
}

async function held({ page, folder, check }) {
  const hold = page.getByRole("switch", { name: "Hold every model slot" });
  await hold.click();
  await page.locator('#hold[aria-checked="true"]').waitFor({ timeout: 5000 });
  try {
    await ask(page, "What are your opening hours?");
    await until(page, (s) => s.responses.some((response) => response.status === "failed"));
    const state = await page.evaluate(() => window.__floorkeeper.responses);
    check("with every model slot held the turn is refused", /^admission_/.test(state[0].code), state[0].code);
    const refused = await page.evaluate(() =>
      window.__floorkeeper.events
        .filter((e) => e.type === "floorkeeper.admission" && e.gate === "model")
        .map((e) => `${e.disposition} ${e.reason}`),
    );
    check(
      "the refusal names the model gate",
      refused.some((line) => /overloaded/.test(line)),
      refused.join(", "),
    );
    await until(page, (s) => s.audio.peakRms > 0.01);
    const said = await page.evaluate(() =>
      window.__floorkeeper
        .transcript()
        .filter((entry) => entry.side === "agent")
        .map((entry) => entry.text)
        .join(" "),
    );
    check("the refusal is spoken", said.length > 0, said);
    await page.screenshot({ path: join(folder, "held-wide-light.png") });
  } finally {
    await hold.click();
    await page.locator('#hold[aria-checked="false"]').waitFor({ timeout: 5000 });
  }
  await ask(page, "What are your opening hours?");
  await until(page, (s) => s.responses.some((response) => response.status === "completed"), 30000);
  check("after letting go a turn is answered again", true);
}

async function noMicrophone({ page, folder, check }) {
  await page.getByRole("button", { name: "Start talking" }).click();
  const notice = page.getByRole("alert");
  await notice.waitFor({ timeout: 10000 });
  const text = await notice.innerText();
  check(
    "a missing microphone is explained with what to do",
    /try again/i.test(text) && /type/i.test(text),
    text.split("\n")[0],
  );
  await page.screenshot({ path: join(folder, "no-microphone-wide-light.png") });
}

async function full({ page, folder, check }) {
  const gate = {
    gate: "call",
    mode: "enforce",
    effective: { slots: 1, queue: 0 },
    live: { active: 1, queued: 0, quarantined: 0, ceiling: 1 },
  };
  await page.route("**/v1/admission", (route) => route.fulfill({ json: { incarnation: "test", gates: [gate] } }));
  await ask(page, "Hello");
  const notice = page.getByRole("alert");
  await notice.waitFor({ timeout: 10000 });
  check("a full server refuses in words", /All lines are taken/.test(await notice.innerText()));
  await page.screenshot({ path: join(folder, "full-wide-light.png") });
}

async function gone({ page, check }) {
  await page.route("**/v1/admission", (route) => route.abort());
  await ask(page, "Hello");
  const retry = page.getByRole("alert").getByRole("button", { name: "Try again" });
  await retry.waitFor({ timeout: 10000 });
  check(
    "a server that has gone is said, with a way to try again",
    /does not answer/.test(await page.getByRole("alert").innerText()),
  );
}

async function narrow({ page, check }) {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.waitForTimeout(200);
  const widths = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  check("no horizontal scroll at 360 px", widths[0] <= widths[1], widths.join(" of "));
}

async function keyboard({ page, check }) {
  const reached = [];
  for (let i = 0; i < 14; i += 1) {
    await page.keyboard.press("Tab");
    reached.push(
      await page.evaluate(
        () => document.activeElement.id || document.activeElement.className || document.activeElement.tagName,
      ),
    );
  }
  check(
    "the keyboard reaches button, text box and switch",
    ["talk", "text", "hold"].every((id) => reached.includes(id)),
    reached.join(" "),
  );
  await page.locator("#text").focus();
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  check("focus is visible", outline !== "none", outline);
}
