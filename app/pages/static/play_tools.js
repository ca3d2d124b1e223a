// The tools to try: two ready ones, and the person's own as JSON.

/** @typedef {import("./play_conversation.js").Tool} Tool */

/** @type {Tool[]} */
export const EXAMPLES = [
  {
    name: "get_weather",
    description: "Tells the current weather in a city.",
    parameters: {
      type: "object",
      properties: { city: { type: "string", description: "The city's name." } },
      required: ["city"],
      additionalProperties: false,
    },
  },
  {
    name: "search_notes",
    description: "Searches the user's notes for words, and lists the best matches.",
    parameters: {
      type: "object",
      properties: {
        query: { type: "string", description: "The words to look for." },
        limit: { type: "integer", description: "How many notes at most." },
      },
      required: ["query"],
      additionalProperties: false,
    },
  },
];

const EXAMPLE_RESULTS = {
  get_weather: { temperature_c: 21, conditions: "clear", wind_kmh: 9 },
  search_notes: [
    { path: "Garden/Tomatoes.md", excerpt: "Water in the morning, at the roots." },
    { path: "Journal/2025-06-01.md", excerpt: "Planted the tomatoes today." },
  ],
};

/** What the tool of that name could answer. */
export function buildExampleResult(name) {
  return JSON.stringify(EXAMPLE_RESULTS[name] ?? { ok: true, answer: "An example of what this tool could say." });
}

export const OWN_TOOL_EXAMPLE = JSON.stringify(
  {
    name: "roll_dice",
    description: "Rolls dice and tells what they show.",
    parameters: {
      type: "object",
      properties: { sides: { type: "integer" }, count: { type: "integer" } },
      required: ["sides"],
    },
  },
  null,
  2,
);

/** Of a tool, in either dialect. */
const FIELDS = new Set(["type", "name", "description", "parameters", "strict"]);

/** What is wrong with the person's own tool, in words for them. */
export class ToolError extends Error {}

/**
 * @param {string} text
 * @param {string[]} taken names of the other tools
 * @returns {Tool}
 */
export function parseOwnTool(text, taken) {
  const found = parseObject(text);
  // Pasted from a chat request, a tool stands in an envelope of its own.
  const tool = isObject(found.function) ? found.function : found;
  if (typeof tool.name !== "string" || !/^[\w-]{1,64}$/.test(tool.name)) {
    throw new ToolError("“name” must be 1 to 64 letters, digits, underscores or hyphens.");
  }
  if (taken.includes(tool.name)) throw new ToolError(`There is a tool named “${tool.name}” already.`);
  if (tool.description !== undefined && typeof tool.description !== "string") {
    throw new ToolError("“description” must be a text.");
  }
  if (tool.parameters !== undefined && !isObject(tool.parameters)) {
    throw new ToolError("“parameters” must be a JSON Schema: an object.");
  }
  const odd = Object.keys(tool).find((field) => !FIELDS.has(field));
  if (odd !== undefined) throw new ToolError(`A tool has no “${odd}” here; its JSON Schema is called “parameters”.`);
  const { name, description, parameters, strict } = tool;
  return { name, description, parameters, strict };
}

function parseObject(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw new ToolError(`This is no JSON: ${error.message}`);
  }
  if (!isObject(found)) throw new ToolError("A tool is a JSON object with “name”, “description” and “parameters”.");
  return found;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
