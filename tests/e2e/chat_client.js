// A plugin's chat client, as a page evaluates it: it streams one answer and keeps what its reader would have seen.
async ({ url, key, mode, body, leaveAt }) => {
  const leaving = new AbortController();
  const seen = { id: "", texts: {}, states: [], calls: [], finishes: [], error: null, end: "cut", raw: "" };
  const headers = { "content-type": "application/json" };
  if (key) headers.authorization = `Bearer ${key}`;
  if (mode) headers["x-proxy-output-mode"] = mode;

  const takeChoice = ({ index, delta, finish_reason: finish }) => {
    seen.texts[index] = (seen.texts[index] ?? "") + (delta.content ?? "");
    if (delta.content) seen.states.push(seen.texts[index]);
    for (const call of delta.tool_calls ?? []) if (call.id) seen.calls.push(call.function.name);
    if (finish) seen.finishes.push(finish);
  };
  const takeFrame = (frame) => {
    if (!frame.startsWith("data: ")) return;
    const data = frame.slice("data: ".length);
    if (data === "[DONE]") {
      seen.end = "done";
      return;
    }
    const { choices = [], error } = JSON.parse(data);
    if (error) seen.error = error.code;
    choices.forEach(takeChoice);
  };
  const readAll = async (reader) => {
    let rest = "";
    for (let got = await reader.read(); !got.done; got = await reader.read()) {
      seen.raw += got.value;
      const frames = (rest + got.value).split("\n\n");
      rest = frames.pop();
      frames.forEach(takeFrame);
      if (leaveAt && seen.raw.includes(leaveAt)) leaving.abort();
    }
  };

  try {
    const sent = { method: "POST", headers, body: JSON.stringify(body), signal: leaving.signal };
    const response = await fetch(url, sent);
    seen.id = response.headers.get("x-request-id");
    await readAll(response.body.pipeThrough(new TextDecoderStream()).getReader());
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    seen.end = "left";
  }
  return seen;
};
