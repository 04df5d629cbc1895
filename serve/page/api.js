// Requests to the server: addresses are relative to the page, answers are streamed as server-sent events or lines of JSON.

/** An answer of the server that is an error. */
export class ApiError extends Error {
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function headers(key) {
  const h = { "Content-Type": "application/json" };
  if (key) h.Authorization = "Bearer " + key;
  return h;
}

// asError reads {"error": {"message", "code"}}, and Ollama's {"error": "message"}.
function asError(error, status) {
  return new ApiError(error.message || String(error), status, error.code || "");
}

async function fail(response) {
  let body = {};
  try { body = await response.json(); } catch { /* the status has to do */ }
  throw body.error ? asError(body.error, response.status) : new ApiError(response.status + " " + response.statusText, response.status);
}

export async function get(path, key, signal) {
  const response = await fetch(path, { headers: headers(key), signal });
  if (!response.ok) await fail(response);
  return response.json();
}

export async function post(path, body, key) {
  const response = await fetch(path, { method: "POST", headers: headers(key), body: JSON.stringify(body) });
  if (!response.ok) await fail(response);
  return response.json();
}

/** How many streams of this tab are under way, answers and downloads: each has a connection. */
export let streaming = 0;

// pieces posts a request and yields the parts of its answer between separators. onbytes is called for every arrival.
async function* pieces(path, body, separator, { key, signal, onbytes }) {
  streaming++;
  try {
    const response = await fetch(path, { method: "POST", headers: headers(key), body: JSON.stringify(body), signal });
    if (!response.ok) await fail(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      if (onbytes) onbytes();
      rest += value;
      const parts = rest.split(separator);
      rest = parts.pop();
      yield* parts;
    }
    if (rest.trim() !== "") throw new TypeError("the answer ended inside an event");
  } finally {
    streaming--;
  }
}

/**
 * Posts a request and yields the JSON of each event until the stream ends. A stream that ends without its last event,
 * [DONE], is broken: a TypeError, as fetch has it.
 * @param {string} path
 * @param {object} body
 * @param {{key?: string, signal?: AbortSignal, onbytes?: () => void}} options
 */
export async function* stream(path, body, options = {}) {
  for await (const event of pieces(path, body, "\n\n", options)) {
    const data = event.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
    if (data === "") continue;
    if (data === "[DONE]") return;
    const message = JSON.parse(data);
    if (message.error) throw asError(message.error, 0);
    yield message;
  }
  throw new TypeError("the connection ended before the answer did");
}

/** Posts a request and yields the JSON of each line. */
export async function* lines(path, body, options = {}) {
  for await (const line of pieces(path, body, "\n", options)) {
    if (line.trim() === "") continue;
    const message = JSON.parse(line);
    if (message.error) throw asError(message.error, 0);
    yield message;
  }
}
