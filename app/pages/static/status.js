// What `/ui/status` tells, for every part of the page that shows some of it.

import { getJson } from "./api.js";
import { onKeyChange } from "./key.js";

const CALM_MS = 30_000;
const EAGER_MS = 5_000;

const listeners = new Set();
let latest = null;
let asked = 0;
let timer = null;

/** Calls back with `(status, null)`, or `(null, error)`, at every reply, and at once with the last one. */
export function onStatus(listener) {
  listeners.add(listener);
  if (latest) listener(latest.status, latest.error);
}

export async function refreshStatus({ asksKey = true } = {}) {
  clearTimeout(timer);
  const number = ++asked;
  const reply = await ask(asksKey);
  // A later question, perhaps with another key, has the last word.
  if (number !== asked) return;
  latest = reply;
  for (const listener of listeners) listener(reply.status, reply.error);
  askAgainLater(reply);
}

export function startStatus() {
  onKeyChange(() => refreshStatus());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isWaitingForKey(latest)) refreshStatus({ asksKey: false });
  });
  refreshStatus();
}

async function ask(asksKey) {
  try {
    return { status: await getJson("/ui/status", { asksKey }), error: null };
  } catch (error) {
    return { status: null, error };
  }
}

function askAgainLater(reply) {
  if (isWaitingForKey(reply)) return;
  const isCalm = reply.status?.codex.is_ready && reply.status.account.state !== "unknown";
  timer = setTimeout(() => {
    if (!document.hidden) refreshStatus({ asksKey: false });
  }, isCalm ? CALM_MS : EAGER_MS);
}

function isWaitingForKey(reply) {
  return reply?.error?.status === 401;
}
