// What happened in a conversation, in order, and waiting for it.

const ANSWER_MS = 30_000;

/** Throws when it does not hold. */
export function check(condition, what) {
  if (!condition) throw new Error(what);
}

export class Happenings {
  constructor() {
    this.events = [];
    this.waiting = new Set();
  }

  add(event) {
    this.events.push(event);
    for (const look of this.waiting) look();
  }

  of(type, since = 0) {
    return this.events.slice(since).filter((event) => event.type === type);
  }

  /** Resolves once `condition` gives something true, with that. */
  until(condition, what) {
    return new Promise((resolve, reject) => {
      const look = () => {
        let found;
        try {
          found = condition();
          if (!found) return;
          resolve(found);
        } catch (error) {
          reject(error);
        }
        clearTimeout(limit);
        this.waiting.delete(look);
      };
      const limit = setTimeout(() => {
        this.waiting.delete(look);
        const last = this.events.slice(-8).map((event) => event.type);
        reject(new Error(`no ${what} within ${ANSWER_MS / 1000} s; last: ${last.join(', ')}`));
      }, ANSWER_MS);
      this.waiting.add(look);
      look();
    });
  }

  /**
   * The n-th response from position `since` that came to its end: not those that their caller spoke
   * into.
   */
  async completed(since = 0, n = 1) {
    const found = () => {
      const responses = this.of('response.done', since).map(({ response }) => response);
      const wrong = responses.filter(({ status }) => status === 'failed' || status === 'incomplete');
      check(wrong.length === 0, `response.done: ${JSON.stringify(wrong)}`);
      return responses.filter(({ status }) => status === 'completed')[n - 1];
    };
    return this.until(found, `completed response ${n}`);
  }

  /** The n-th event of that type, counted from position `since`. */
  async event(type, since = 0, n = 1) {
    return this.until(() => this.of(type, since)[n - 1], n === 1 ? type : `${type} number ${n}`);
  }
}
