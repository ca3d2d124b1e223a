// What a request is made with: model, effort, endpoint, output mode, instructions, tools.

import { ApiError, getJson } from "./api.js";
import { byId, el, replace, setText } from "./dom.js";
import { chat } from "./play_chat.js";
import { responses } from "./play_responses.js";
import { EXAMPLES, OWN_TOOL_EXAMPLE, parseOwnTool, ToolError } from "./play_tools.js";

/** @typedef {import("./play_conversation.js").Settings} Settings */

// `/v1/models` does not tell which of them a model knows; one that it does not is refused by name.
const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"];
const MODES = ["obsidian-xml", "openai-json"];
const DIALECTS = { chat, responses };

export class Setup {
  #model = byId("play-model");
  #effort = byId("play-effort");
  #endpoint = byId("play-endpoint");
  #mode = byId("play-mode");
  #own = byId("play-own");
  #ownJson = byId("play-own-json");
  #complaint = byId("play-tool-complaint");
  /** The model that the person chose, and the one to begin with. */
  #chosen = "";
  #preferred = "";

  constructor() {
    replace(this.#effort, ...buildOptions("default", EFFORTS));
    replace(this.#mode, ...buildOptions("default", MODES));
    this.#ownJson.value = OWN_TOOL_EXAMPLE;
    this.#model.addEventListener("change", () => (this.#chosen = this.#model.value));
    this.#endpoint.addEventListener("change", () => this.#follow());
    this.#own.addEventListener("change", () => this.#follow());
    // A browser that comes back to the page fills in what was chosen.
    this.#follow();
  }

  /** @returns {boolean} */
  get hasModels() {
    return this.#model.options.length > 0;
  }

  get dialect() {
    return DIALECTS[this.#endpoint.value];
  }

  /** Asks anew for the models, which change with a login; what was chosen stays. */
  async load() {
    const complaint = byId("play-models-complaint");
    try {
      const { data } = await getJson("/v1/models");
      this.#offer(data.map((model) => model.id));
      setText(complaint, data.length ? "" : "The gateway offers no model.");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setText(complaint, `The models cannot be listed: ${error.message}`);
    }
  }

  /** Which model works as things stand. */
  showStatus({ demo, account }) {
    this.#preferred = demo && account.state === "out" ? "demo" : "";
    this.#select();
  }

  /** @returns {Settings | null} `null` where the person's own tool is none; they are told */
  read() {
    const tools = EXAMPLES.filter((tool) => byId(`play-tool-${tool.name}`).checked);
    try {
      if (this.#own.checked) tools.push(parseOwnTool(this.#ownJson.value, tools.map((tool) => tool.name)));
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      this.#complain(error.message);
      return null;
    }
    this.#complain("");
    return {
      model: this.#model.value,
      effort: this.#effort.value,
      outputMode: this.#mode.value,
      instructions: byId("play-instructions").value,
      tools,
    };
  }

  #follow() {
    this.#mode.disabled = this.dialect !== chat;
    byId("play-own-field").hidden = !this.#own.checked;
    if (!this.#own.checked) this.#complain("");
  }

  /** @param {string} complaint */
  #complain(complaint) {
    setText(this.#complaint, complaint);
    this.#ownJson.setAttribute("aria-invalid", String(Boolean(complaint)));
    if (complaint) this.#ownJson.focus();
  }

  /** @param {string[]} ids */
  #offer(ids) {
    replace(this.#model, ...ids.map((id) => el("option", { value: id, text: id })));
    this.#select();
  }

  #select() {
    const ids = Array.from(this.#model.options, (option) => option.value);
    const id = [this.#chosen, this.#preferred, ids[0]].find((each) => ids.includes(each));
    if (id) this.#model.value = id;
  }
}

/** @param {string} none what stands for no choice @param {string[]} values */
function buildOptions(none, values) {
  return [el("option", { value: "", text: none }), ...values.map((value) => el("option", { value, text: value }))];
}
