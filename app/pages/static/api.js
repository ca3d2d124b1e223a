// Every request to the gateway: with the key, and with errors as exceptions.

import { forgetDoor, isDoorOpen } from "./door.js";
import { askKey, getKey } from "./key.js";
import { SseParser } from "./sse.js";
import { ApiError, KEY_NEEDED, readJson, send, toCut, TOKEN_NEEDED } from "./wire.js";

export { ApiError };

let declinedAt = -Infinity;

/**
 * Throws an `ApiError` for every status but 2xx. Where a key or the page token is missing or wrong, the person is
 * asked, until it is right or they decline; nothing is sent that could only be refused. What `makeSignal` makes is
 * for one attempt: the person's time is none.
 * @returns {Promise<Response>}
 */
export async function request(path, options = {}) {
  const { method = "GET", body, headers = {}, signal, makeSignal = () => signal } = options;
  const { asksKey = true, needsToken = false } = options;
  const startedAt = performance.now();
  for (;;) {
    let key = getKey();
    try {
      if (!key) await checkDoor(needsToken);
      key = getKey();
      return await send(path, { method, signal: makeSignal(), ...pack(body, headers, key) });
    } catch (error) {
      // It may have been another gateway that was open.
      if (error.status === 401) forgetDoor();
      const kind = findMissing(error);
      if (!asksKey || !kind || !(await getAnother(kind, key, startedAt))) throw error;
      signal?.throwIfAborted();
    }
  }
}

export async function getJson(path, options) {
  return readJson(await request(path, options));
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
      const { value, done } = await readPiece(reader);
      const at = performance.now();
      const frames = parser.feed(decoder.decode(value, { stream: !done }));
      if (done) frames.push(...parser.finish());
      for (const frame of frames) yield { ...frame, at };
      if (done) return;
    }
  } finally {
    // One that was cut cannot be cancelled, which its reader was told already.
    await reader.cancel().catch(toCut);
  }
}

async function readPiece(reader) {
  try {
    return await reader.read();
  } catch (error) {
    throw toCut(error);
  }
}

/** For who has neither key nor token. */
async function checkDoor(needsToken) {
  const isOpen = await isDoorOpen();
  // One may have been found in the address meanwhile.
  if (getKey()) return;
  if (!isOpen) throw new ApiError("This gateway asks for an access key.", { code: KEY_NEEDED });
  if (needsToken) throw new ApiError("This takes the token that the gateway printed.", { code: TOKEN_NEEDED });
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

function findMissing(error) {
  if (error.asksForKey) return "key";
  return error.code === TOKEN_NEEDED ? "token" : null;
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
