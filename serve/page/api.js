// Requests to the server: addresses are relative to the page, answers are streamed as server-sent events.

export class ApiError extends Error {}

function headers(key) {
  const h = { "Content-Type": "application/json" };
  if (key) h.Authorization = "Bearer " + key;
  return h;
}

async function fail(response) {
  let message = response.status + " " + response.statusText;
  try {
    const body = await response.json();
    if (body.error) message = body.error.message || String(body.error);
  } catch { /* the status has to do */ }
  throw new ApiError(message);
}

export async function get(path, key) {
  const response = await fetch(path, { headers: headers(key) });
  if (!response.ok) await fail(response);
  return response.json();
}

/**
 * Posts a request and yields the JSON of each event until the stream ends.
 * @param {string} path
 * @param {object} body
 * @param {{key?: string, signal?: AbortSignal}} options
 */
export async function* stream(path, body, { key, signal } = {}) {
  const response = await fetch(path, { method: "POST", headers: headers(key), body: JSON.stringify(body), signal });
  if (!response.ok) await fail(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trimStart()).join("\n");
      if (data === "" || data === "[DONE]") continue;
      const message = JSON.parse(data);
      if (message.error) throw new ApiError(message.error.message || String(message.error));
      yield message;
    }
  }
  if (rest.trim() !== "") throw new ApiError("the stream ended inside an event");
}
