// JSON text made readable without changing a token of it.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
const OPENERS = new Set(["{", "["]);
const CLOSERS = new Set(["}", "]"]);
const INDENT = "  ";
// Deeper levels stay at this one: nobody reads them, and their spaces alone would fill the page.
const MAX_LEVELS = 40;

/**
 * The text indented; `null` where it is no JSON. Parsing and writing it anew would round long numbers and
 * drop repeated keys.
 * @param {string} text
 * @returns {string | null}
 */
export function formatJson(text) {
  if (!isJson(text)) return null;
  let out = "";
  let depth = 0;
  let last = "";
  const line = () => `\n${INDENT.repeat(Math.min(depth, MAX_LEVELS))}`;
  for (const token of text.match(TOKEN)) {
    if (CLOSERS.has(token)) {
      depth -= 1;
      out += OPENERS.has(last) ? token : line() + token;
    } else {
      out += OPENERS.has(last) || last === "," ? line() + token : token;
      if (token === ":") out += " ";
      if (OPENERS.has(token)) depth += 1;
    }
    last = token;
  }
  return out;
}

/** @param {string} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
