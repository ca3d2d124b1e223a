// One request and its stream: what came, when, and what it means.

import { ApiError, readFrames, request } from "./api.js";
import { StreamError } from "./play_frame_json.js";

/** @typedef {import("./play_conversation.js").PlayEvent} PlayEvent */
/** @typedef {import("./play_conversation.js").Failure} Failure */

/**
 * @typedef {object} Call
 * @property {string} path
 * @property {object} body
 * @property {Record<string, string>} headers
 * @property {{feed: (data: string) => PlayEvent[], isOver: boolean}} reader
 * @property {AbortSignal} signal
 * @property {(reply: Response) => void} onReply
 */

/**
 * Yields each frame with its events; throws where the request is refused or the stream breaks off.
 * @param {Call} call
 */
export async function* runTurn({ path, body, headers, reader, signal, onReply }) {
  const reply = await request(path, { method: "POST", body, headers, signal });
  onReply(reply);
  for await (const frame of readFrames(reply)) {
    yield { frame, events: frame.data === null ? [] : reader.feed(frame.data) };
  }
  if (!reader.isOver) throw new StreamError("The connection ended before the answer did.", "connection_cut");
}

/**
 * What to tell the person. An error that is none of these is this page's own, or a frame that no reader foresaw.
 * @param {unknown} error
 * @returns {Failure}
 */
export function describeFailure(error) {
  if (error instanceof ApiError) {
    const code = [error.status ? `HTTP ${error.status}` : "", error.code ?? error.type].filter(Boolean).join(" · ");
    return { message: error.message, code, requestId: error.reply?.headers.get("x-request-id") };
  }
  if (error instanceof StreamError) return { message: error.message, code: error.code };
  console.error(error);
  return { message: `This page could not read the answer (${error.message}).`, code: "page_fault" };
}
