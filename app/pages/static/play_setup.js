// What a request is made with: model, effort, endpoint, output mode, instructions, tools.

import { byId, el, replace, setText } from "./dom.js";
import { chooseModel, needsLogin } from "./models.js";
import { chat } from "./play_chat.js";
import { responses } from "./play_responses.js";
import { EXAMPLES, OWN_TOOL_EXAMPLE, parseOwnTool, ToolError } from "./play_tools.js";

/** @typedef {import("./play_conversation.js").Settings} Settings */

const DIALECTS = { chat, responses };

export class Setup {
  #model = byId("play-model");
  #effort = byId("play-effort");
  #endpoint = byId("play-endpoint");
  #mode = byId("play-mode");
  #own = byId("play-own");
  #ownJson = byId("play-own-json");
  #complaint = byId("play-tool-complaint");
  /** The model that the person chose. */
  #chosen = "";

  constructor() {
    offerChoices(this.#effort, withDefault("default", []));
    offerChoices(this.#mode, withDefault("default", []));
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

  /**
   * What was chosen stays, if it is still there.
   * @param {string[] | null} ids
   * @param {Error | null} error
   */
  showModels(ids, error) {
    if (ids) {
      offerChoices(this.#model, ids.map((id) => [id, needsLogin(id) ? `${id} (needs a login)` : id]));
      const id = ids.includes(this.#chosen) ? this.#chosen : chooseModel(ids);
      if (id) this.#model.value = id;
    }
    setText(byId("play-models-complaint"), describeModels(ids, error));
  }

  /** What may be asked for. */
  showStatus({ efforts = [], output_modes: modes = [] }) {
    // Which of them a model knows is not told; one that it does not is refused by name.
    offerChoices(this.#effort, withDefault("default", efforts));
    // What the default comes to depends on the tools, too; the reply names it.
    offerChoices(this.#mode, withDefault("default", modes));
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
}

/** @param {string[] | null} ids @param {Error | null} error */
function describeModels(ids, error) {
  // Who needs a key is offered the dialog for it.
  if (error) return error.asksForKey ? "" : `The models cannot be listed: ${error.message}`;
  return ids.length ? "" : "The gateway offers no model.";
}

/** @param {string} none what stands for no choice @param {string[]} values */
function withDefault(none, values) {
  return [["", none], ...values.map((value) => [value, value])];
}

/**
 * What was chosen stays, and a list that is open is left alone where it would be the same.
 * @param {HTMLSelectElement} select
 * @param {[string, string][]} choices value and text of each
 */
function offerChoices(select, choices) {
  const offered = Array.from(select.options, ({ value, text }) => [value, text]);
  if (JSON.stringify(offered) === JSON.stringify(choices)) return;
  const chosen = select.value;
  replace(select, ...choices.map(([value, text]) => el("option", { value, text })));
  select.value = choices.some(([value]) => value === chosen) ? chosen : (choices[0]?.[0] ?? "");
}
