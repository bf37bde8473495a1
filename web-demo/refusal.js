// Why a call could not be had, in words that are true, with the server's own recorded prompt where it has one.

import { ceilingOf, fetchAdmission } from "/gates.js";

/** Before dialling: null when the call gate has room or a queue, else `{disposition, reason}`. */
export async function callGateRefusal(key) {
  const { gates } = await fetchAdmission(key);
  const call = gates.find((gate) => gate.gate === "call");
  if (!call || (call.mode && call.mode !== "enforce")) return null;
  const ceiling = ceilingOf(call);
  const { active = 0, queued = 0 } = call.live || {};
  if (call.live?.closed) return { disposition: "closed", reason: call.live.closed };
  if (call.effective?.slots === 0) return { disposition: "closed", reason: "no_capacity" };
  const queue = call.effective?.queue ?? 0;
  const { pressure = "open" } = call.live || {};
  if (pressure === "refuse" || (pressure === "queue" && queue === 0)) {
    return { disposition: "overloaded", reason: "upstream_pressure" };
  }
  if (active < ceiling || queue === "unlimited") return null;
  if (queue === 0) return { disposition: "overloaded", reason: "no_queue" };
  return queued >= queue ? { disposition: "overloaded", reason: "queue_full" } : null;
}

/** After a failed dial: one of `gone`, `key`, `refused`, `not_ready`, `blocked`. */
export async function diagnose(key) {
  try {
    const refusal = await callGateRefusal(key);
    if (refusal) return { kind: "refused", refusal };
  } catch (error) {
    if (error.status === 401 || error.status === 403) return { kind: "key" };
    if (error.status === undefined) return { kind: "gone" };
  }
  const ready = await fetch("/readyz", { cache: "no-store" }).catch(() => null);
  if (!ready) return { kind: "gone" };
  if (!ready.ok) return { kind: "not_ready", detail: (await ready.text()).slice(0, 300) };
  return { kind: "blocked" };
}

const SENTENCES = {
  "closed.no_capacity": "This server takes no calls at the moment: its call gate has no slots.",
  "closed.draining": "This server is shutting down and takes no new calls.",
  "closed.maintenance": "This server is closed for maintenance and takes no new calls.",
  "closed.not_ready": "This server is still getting ready and takes no calls yet.",
  "overloaded.no_queue": "All lines are taken, and nobody is kept waiting here. Your call was not accepted.",
  "overloaded.queue_full": "All lines are taken and the waiting room is full. Your call was not accepted.",
  "overloaded.upstream_pressure": "The model is too busy to take on another caller. Your call was not accepted.",
  "overloaded.tenant_share": "Your share of the lines is taken. Your call was not accepted.",
  expired: "No line came free in time. Your call was not accepted.",
};

/** What the page says about a refused call. */
export function refusalText({ disposition, reason, message }) {
  return (
    SENTENCES[`${disposition}.${reason}`] ||
    SENTENCES[disposition] ||
    message ||
    "The server had no room for this call. It was not accepted."
  );
}

const PROMPTS = {
  "closed.no_capacity": "call_unavailable",
  "closed.draining": "call_draining",
  "closed.maintenance": "call_maintenance",
  "closed.not_ready": "call_starting",
  overloaded: "call_busy",
  expired: "call_expired",
};

/** Plays the server's recorded prompt for this refusal; false when it could not be heard. */
export async function playPrompt({ disposition, reason }) {
  const id = PROMPTS[`${disposition}.${reason}`] || PROMPTS[disposition];
  if (!id) return false;
  try {
    await new Audio(`/prompts/en/${id}.wav`).play();
    return true;
  } catch {
    return false; // the words on the page say the same
  }
}
