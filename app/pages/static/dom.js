// Making elements without markup in strings, which the page's policy forbids.

const SPECIAL = {
  text: (node, text) => (node.textContent = text),
  dataset: (node, values) => Object.assign(node.dataset, values),
  on: (node, handlers) => {
    for (const [event, handler] of Object.entries(handlers)) node.addEventListener(event, handler);
  },
};

/**
 * `properties`: `text`, `dataset`, `on` ({event: handler}), or any attribute, `class` too; `true` sets an empty one,
 * `false`, `null` and `undefined` remove it. Children that are `null` or `false` are left out.
 */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (Object.hasOwn(SPECIAL, name)) SPECIAL[name](node, value);
    else setAttribute(node, name, value);
  }
  node.append(...shown(children));
  return node;
}

function setAttribute(node, name, value) {
  if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`The page has no #${id}.`);
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren(...shown(children));
}

/** A text that is the same already is left alone, so that nothing is announced or laid out again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function shown(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false);
}
