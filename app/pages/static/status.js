// What `/ui/status` tells, for every part of the page that shows some of it.

import { getJson } from "./api.js";
import { onKeyChange } from "./key.js";
import { onUnreachable, UNREACHABLE } from "./wire.js";

const CALM_MS = 30_000;
const EAGER_MS = 5_000;
/** A gateway that takes longer to say how it is counts as one that does not answer. */
const PATIENCE_MS = 15_000;

const listeners = new Set();
let latest = null;
/** Given up as soon as there is a later one, perhaps with another key. */
let question = new AbortController();
let timer = null;

/** Calls back with `(status, null)`, or `(null, error)`, at every reply, and at once with the last one. */
export function onStatus(listener) {
  listeners.add(listener);
  if (latest) listener(latest.status, latest.error);
}

/** @returns {Promise<object | null>} the status as it is then known */
export async function refreshStatus({ asksKey = true } = {}) {
  giveUp();
  const { signal } = (question = new AbortController());
  const reply = await ask(asksKey, signal);
  if (!signal.aborted) tell(reply);
  return latest?.status ?? null;
}

export function startStatus() {
  onKeyChange(() => refreshStatus());
  onUnreachable(loseGateway);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !isWaitingForKey(latest)) refreshStatus({ asksKey: false });
  });
  refreshStatus();
}

/** Whoever finds that the gateway is gone finds it for all. */
function loseGateway(error) {
  if (latest?.error?.code === UNREACHABLE) return;
  giveUp();
  tell({ status: null, error });
}

function giveUp() {
  clearTimeout(timer);
  question.abort();
}

function tell(reply) {
  latest = reply;
  for (const listener of listeners) listener(reply.status, reply.error);
  askAgainLater(reply);
}

async function ask(asksKey, signal) {
  try {
    const makeSignal = () => AbortSignal.timeout(PATIENCE_MS);
    return { status: await getJson("/ui/status", { asksKey, signal, makeSignal }), error: null };
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
  return Boolean(reply?.error?.asksForKey);
}
