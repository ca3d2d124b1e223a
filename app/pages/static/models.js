// The models on offer, asked for once for all views, and which of them answers as things stand.

import { getJson } from "./api.js";
import { onKeyChange } from "./key.js";
import { onStatus } from "./status.js";

const listeners = new Set();
/** @type {{ids: string[] | null, error: Error | null}} */
let known = { ids: null, error: null };
/** What was so when they were asked for; it decides about them. */
let askedFor = null;
let asked = 0;

let offersDemo = false;
/** As codex told it last: one that cannot be asked just now has not been logged out. */
let login = "unknown";

/** Calls back with `(ids, null)`, or `(null, error)`, whenever they or what is said of them may have changed. */
export function onModels(listener) {
  listeners.add(listener);
}

/** For who cannot do without them. @returns {Promise<string[]>} none where they cannot be had; it is told why */
export async function loadModels({ asksKey = true } = {}) {
  const number = ++asked;
  const found = await ask(asksKey);
  if (number === asked) {
    known = found;
    // The next status asks again.
    if (found.error) askedFor = null;
    tell();
  }
  return known.ids ?? [];
}

export function startModels() {
  onKeyChange(() => (askedFor = null));
  onStatus((status, error) => {
    if (status) take(status);
    else {
      // Back again, it may be another gateway.
      askedFor = null;
      if (error.asksForKey) known = { ids: null, error };
      tell();
    }
  });
}

function take(status) {
  offersDemo = status.demo;
  if (status.account.state !== "unknown") login = status.account.state;
  const facts = JSON.stringify([login, offersDemo]);
  if (facts !== askedFor) {
    askedFor = facts;
    loadModels({ asksKey: false });
  }
  tell();
}

async function ask(asksKey) {
  try {
    const { data } = await getJson("/v1/models", { asksKey });
    return { ids: data.map(({ id }) => id), error: null };
  } catch (error) {
    return { ids: null, error };
  }
}

function tell() {
  if (known.ids || known.error) for (const listener of listeners) listener(known.ids, known.error);
}

/**
 * The model that answers as things stand: without a login only `demo` does.
 * @param {string[]} ids
 * @returns {string | undefined} `undefined` where there is none
 */
export function chooseModel(ids) {
  const needsDemo = offersDemo && ids.includes("demo") && ["out", "unknown"].includes(login);
  return needsDemo ? "demo" : (ids.find((id) => id !== "demo") ?? ids[0]);
}

/** Whether this one can only fail until somebody logs in. */
export function needsLogin(id) {
  return login === "out" && id !== "demo";
}
