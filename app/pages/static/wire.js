// One request and its reply, with faults of every kind as one exception.

/** What the gateway refused, or, with status 0, what never reached it or broke off. */
export class ApiError extends Error {
  constructor(message, { status = 0, code = null, type = null, requestId = null } = {}) {
    super(message);
    this.name = "ApiError";
    Object.assign(this, { status, code, type, requestId });
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
  const fields = { status: response.status, requestId: response.headers.get("x-request-id") };
  const status = `The server answered ${response.status} ${response.statusText}`.trim();
  try {
    const { message = status, code, type } = (await response.json()).error;
    return new ApiError(message, { ...fields, code, type });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // Not the gateway's words, or not all of them: a proxy stands in front of it.
    return new ApiError(status, fields);
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
