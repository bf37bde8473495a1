// How good the network is: what the browser measured, as three numbers and one word.

const WINDOW = 10; // readings that the loss is counted over
const GRADES = [
  { word: "good", rttMs: 150, lossPercent: 1, jitterMs: 30 },
  { word: "fair", rttMs: 300, lossPercent: 5, jitterMs: 60 },
];

/** Reads one `getStats()` report (anything with `values()`): counters as they are, the rest in milliseconds. */
export function reading(report) {
  const all = [...report.values()];
  const transport = all.find((stat) => stat.type === "transport" && stat.selectedCandidatePairId);
  const pair = all.find((stat) => (transport ? stat.id === transport.selectedCandidatePairId : stat.nominated));
  const from = all.find((stat) => stat.type === "inbound-rtp" && stat.kind === "audio");
  const to = all.find((stat) => stat.type === "remote-inbound-rtp" && stat.kind === "audio");
  const sent = all.find((stat) => stat.type === "outbound-rtp" && stat.kind === "audio");
  const ms = (seconds) => (typeof seconds === "number" ? seconds * 1000 : null);
  return {
    rttMs: ms(pair?.currentRoundTripTime ?? to?.roundTripTime),
    jitterMs: largest([ms(from?.jitter), ms(to?.jitter)]),
    received: from?.packetsReceived ?? 0,
    lost: Math.max(0, from?.packetsLost ?? 0),
    sent: sent?.packetsSent ?? 0,
    lostThere: Math.max(0, to?.packetsLost ?? 0),
  };
}

/** The last ten seconds of readings. */
export class Quality {
  constructor() {
    this.readings = [];
  }

  /** Takes a reading; gives `{word, rttMs, lossPercent, jitterMs}`, null for what is not known. */
  add(now) {
    this.readings.push(now);
    if (this.readings.length > WINDOW) this.readings.shift();
    const [then] = this.readings;
    const here = share(now.lost - then.lost, now.received - then.received + now.lost - then.lost);
    const there = share(now.lostThere - then.lostThere, now.sent - then.sent);
    const known = { rttMs: now.rttMs, jitterMs: now.jitterMs, lossPercent: largest([here, there]) };
    return { word: grade(known), ...known };
  }
}

/** The worst of the three decides. */
export function grade(known) {
  const names = ["rttMs", "lossPercent", "jitterMs"];
  if (names.every((name) => known[name] === null)) return "unknown";
  const fits = (limits) => names.every((name) => known[name] === null || known[name] <= limits[name]);
  return GRADES.find(fits)?.word ?? "poor";
}

/** "round trip 24 ms, loss 0 %, jitter 3 ms", without what is not known. */
export function inNumbers({ rttMs, lossPercent, jitterMs }) {
  const parts = [];
  if (rttMs !== null) parts.push(`round trip ${whole(rttMs)} ms`);
  if (lossPercent !== null) parts.push(`loss ${lossPercent < 10 ? tenth(lossPercent) : Math.round(lossPercent)} %`);
  if (jitterMs !== null) parts.push(`jitter ${whole(jitterMs)} ms`);
  return parts.join(", ");
}

function share(part, all) {
  return all > 0 ? Math.min(100, Math.max(0, (100 * part) / all)) : null;
}

function largest(numbers) {
  const known = numbers.filter((number) => number !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

function whole(number) {
  return number < 1 ? "under 1" : String(Math.round(number));
}

function tenth(number) {
  return number === 0 ? "0" : number.toFixed(1);
}
