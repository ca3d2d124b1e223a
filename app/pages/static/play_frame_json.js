// What a frame's data says, read as JSON.

/** A stream that said something that cannot be read, or that ended without its end. */
export class StreamError extends Error {
  /** @param {string} message @param {string} code */
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

/** @param {string} data @returns {object} */
export function parseFrame(data) {
  let found = null;
  try {
    found = JSON.parse(data);
  } catch {
    // Told below, as any other value that is no object.
  }
  if (found === null || typeof found !== "object") {
    throw new StreamError("The stream holds a frame that is no JSON object; see the frames.", "unreadable_frame");
  }
  return found;
}
