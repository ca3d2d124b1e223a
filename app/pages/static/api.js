// Every request to the gateway: with the key, and with errors as exceptions.

import { askKey, getKey } from "./key.js";
import { SseParser } from "./sse.js";

/** What the gateway refused, or, with status 0, a gateway that did not answer. */
export class ApiError extends Error {
  constructor(message, { status = 0, code = null, type = null, requestId = null } = {}) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, type, requestId });
  }
}

let declinedAt = -Infinity;

/**
 * Throws an `ApiError` for every status but 2xx. Where a key or the page token is missing or wrong, the person is
 * asked, until it is right or they decline.
 * @returns {Promise<Response>}
 */
export async function request(path, { method = "GET", body, headers = {}, signal, asksKey = true } = {}) {
  const startedAt = performance.now();
  for (;;) {
    const key = getKey();
    const response = await send(path, { method, signal, ...pack(body, headers, key) });
    if (response.ok) return response;
    const error = await readError(response);
    const kind = findMissing(error);
    if (!asksKey || !kind || !(await getAnother(kind, key, startedAt))) throw error;
  }
}

export async function getJson(path, options) {
  const response = await request(path, options);
  return response.json();
}

/**
 * The frames of a stream, as soon as they come; who stops reading closes the connection.
 * @returns {AsyncGenerator<import("./sse.js").Frame & {at: number}>}
 */
export async function* readFrames(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new SseParser();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      const at = performance.now();
      const frames = parser.feed(decoder.decode(value, { stream: !done }));
      if (done) frames.push(...parser.finish());
      for (const frame of frames) yield { ...frame, at };
      if (done) return;
    }
  } finally {
    await reader.cancel();
  }
}

async function send(path, options) {
  try {
    return await fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The gateway does not answer.", { code: "unreachable" });
  }
}

function pack(body, headers, key) {
  const all = { ...headers };
  if (key) all.authorization = `Bearer ${toHeaderText(key)}`;
  if (body === undefined) return { headers: all };
  return { headers: { "content-type": "application/json", ...all }, body: JSON.stringify(body) };
}

/** A header holds bytes; the gateway compares keys as UTF-8. */
function toHeaderText(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}

async function readError(response) {
  const fields = { status: response.status, requestId: response.headers.get("x-request-id") };
  const text = await response.text();
  try {
    const { message, code, type } = JSON.parse(text).error;
    return new ApiError(message, { ...fields, code, type });
  } catch {
    // Not the gateway's words: a proxy stands in front of it.
    return new ApiError(`The server answered ${response.status} ${response.statusText}`.trim(), fields);
  }
}

function findMissing(error) {
  if (error.status === 401) return "key";
  return error.code === "page_token_required" ? "token" : null;
}

const COMPLAINTS = {
  key: "This key is not known here. Is it complete?",
  token: "This is not the token that the gateway printed. It is a new one after every start.",
};

/** Whether there is another key than `tried` to try. */
async function getAnother(kind, tried, startedAt) {
  if (getKey() !== tried) return true;
  // Several requests fail together; the person declines once for all of them.
  if (startedAt < declinedAt) return false;
  const given = await askKey(kind, tried ? COMPLAINTS[kind] : "");
  if (given === null) declinedAt = performance.now();
  return given !== null;
}
