// One request and its reply, with faults of every kind as one exception.

/** What the gateway refused, or, with status 0, what never reached it or broke off. */
export class ApiError extends Error {
  constructor(message, { status = 0, code = null, type = null, reply = null } = {}) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, type, reply });
  }

  /** Whether another key, or one at all, is what it takes. */
  get asksForKey() {
    return this.status === 401 || this.code === KEY_NEEDED;
  }
}

export const KEY_NEEDED = "key_needed";
export const TOKEN_NEEDED = "page_token_required";
export const UNREACHABLE = "unreachable";
export const CUT = "connection_cut";

const losers = new Set();

/** Calls back with the error whenever the gateway does not answer, whoever asked it. */
export function onUnreachable(listener) {
  losers.add(listener);
}

/** Throws an `ApiError` for every status but 2xx. @returns {Promise<Response>} */
export async function send(path, options) {
  const response = await reach(path, options);
  if (!response.ok) throw await readError(response);
  return response;
}

async function reach(path, options) {
  try {
    return await fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const loss = new ApiError("The gateway does not answer.", { code: UNREACHABLE });
    for (const listener of losers) listener(loss);
    throw loss;
  }
}

async function readError(response) {
  const { status, statusText, headers } = response;
  const body = await readText(response);
  const { message = `The server answered ${status} ${statusText}`.trim(), code, type } = parseError(body);
  return new ApiError(message, { status, code, type, reply: { status, headers, body } });
}

/** Of an error that is cut there is the status still. */
async function readText(response) {
  try {
    return await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return "";
  }
}

/** Nothing of what are not the gateway's words, or not all of them: a proxy stands in front of it. */
function parseError(text) {
  try {
    return JSON.parse(text).error ?? {};
  } catch {
    return {};
  }
}

export async function readJson(response) {
  try {
    return await response.json();
  } catch (error) {
    throw error instanceof SyntaxError ? new ApiError("The answer is no JSON.", { code: "unreadable" }) : toCut(error);
  }
}

/** The browser says no more of a body that breaks off than that the network failed. */
export function toCut(error) {
  if (error.name === "AbortError") return error;
  return new ApiError(`The connection was cut in the middle of the answer (${error.message}).`, { code: CUT });
}
