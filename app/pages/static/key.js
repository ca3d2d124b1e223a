// The key, or the page token of a gateway without keys: asked for in one dialog, kept for this tab.

import { byId, setText } from "./dom.js";

const STORED_AS = "codex-gateway-key";

const WORDS = {
  key: {
    title: "Access key",
    label: "Key",
    use: "Use this key",
    why: "This gateway has keys. Yours is kept in this tab until you close it.",
  },
  token: {
    title: "Page token",
    label: "Token",
    use: "Use this token",
    why: "To change the account, give the token at the end of the page’s address, as the gateway printed it.",
  },
};

const listeners = new Set();
let inMemory = null;
let pending = null;

/** @returns {string | null} */
export function getKey() {
  // A browser that keeps nothing for this site throws here.
  try {
    return sessionStorage.getItem(STORED_AS) ?? inMemory;
  } catch {
    return inMemory;
  }
}

/** Calls back whenever another key or token is in use. */
export function onKeyChange(listener) {
  listeners.add(listener);
}

/** Takes the token out of an address like `/#token=...`, which `make run` prints. */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname + location.search);
  keep(token);
}

/**
 * Asks the person. Who asks while the dialog is open gets the same answer.
 * @param {"key" | "token"} kind
 * @param {string} [complaint] what was wrong with the last one
 * @returns {Promise<string | null>} `null` where the person declined
 */
export async function askKey(kind, complaint = "") {
  pending ??= ask(kind, complaint).finally(() => (pending = null));
  return pending;
}

async function ask(kind, complaint) {
  const dialog = byId("key-dialog");
  const input = byId("key-input");
  fillIn(WORDS[kind], complaint);
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  const key = input.value.trim();
  input.value = "";
  if (dialog.returnValue !== "use" || !key) return null;
  keep(key);
  return key;
}

function fillIn(words, complaint) {
  setText(byId("key-title"), words.title);
  setText(byId("key-why"), words.why);
  setText(byId("key-label"), words.label);
  setText(byId("key-use"), words.use);
  setText(byId("key-complaint"), complaint);
}

function keep(key) {
  inMemory = key;
  try {
    sessionStorage.setItem(STORED_AS, key);
  } catch {
    // `inMemory` has it until the page is left.
  }
  for (const listener of listeners) listener();
}

export function startKeyDialog() {
  const dialog = byId("key-dialog");
  byId("key-form").addEventListener("submit", (event) => {
    // The dialog is closed here: the page's policy lets no form be sent.
    event.preventDefault();
    dialog.close("use");
  });
  byId("key-cancel").addEventListener("click", () => dialog.close(""));
}
