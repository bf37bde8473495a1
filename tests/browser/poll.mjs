// Waiting for the page's debug state from outside the page, so that the page may forbid evaluated script.

/** Waits until `test(state, argument)` is true; false when it was not within `timeoutMs`. */
export async function waitFor(page, test, timeoutMs, argument) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const good = await page.evaluate(`(${test})(window.__floorkeeper, ${JSON.stringify(argument ?? null)})`);
    if (good) return true;
    if (Date.now() > end) return false;
    await page.waitForTimeout(50);
  }
}

/** As `waitFor`, but a miss is an error that says what was waited for. */
export async function until(page, test, timeoutMs = 20000) {
  if (!(await waitFor(page, test, timeoutMs))) throw new Error(`not within ${timeoutMs} ms: ${test}`);
}
