// The key, or the page token of a gateway without keys: asked for in one dialog, kept for this tab.

import { ask } from "./dialog.js";
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
/** @type {"key" | "token" | null} what the dialog asks for just now */
let asksFor = null;

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

/** Takes a token that was not typed: into the dialog where it is asked for, which closes with it. */
export function offerToken(token) {
  if (asksFor !== "token") return keep(token);
  byId("key-input").value = token;
  byId("key-dialog").close("use");
}

/**
 * Asks the person. Who asks while the dialog is open gets the same answer.
 * @param {"key" | "token"} kind
 * @param {string} [complaint] what was wrong with the last one
 * @returns {Promise<string | null>} `null` where the person declined
 */
export async function askKey(kind, complaint = "") {
  pending ??= askFor(kind, complaint).finally(() => (pending = null));
  return pending;
}

async function askFor(kind, complaint) {
  const input = byId("key-input");
  fillIn(WORDS[kind], complaint);
  input.value = "";
  asksFor = kind;
  const choice = await ask(byId("key-dialog"));
  asksFor = null;
  const key = input.value.trim();
  input.value = "";
  if (choice !== "use" || !key) return null;
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
