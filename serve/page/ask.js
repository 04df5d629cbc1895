// One request for an answer, from the first byte to what is kept of it.

import { ApiError, stream } from "./api.js";
import { Answer, pack, unpack } from "./answer.js";
import { Watch } from "./connection.js";

/** The reason with which a reader stops an answer. */
export const stopped = () => new DOMException("stopped", "AbortError");

/**
 * Streams an answer into a message: content, reasoning, calls, who (who wrote each character), and at the end state:
 *   done     the model ended it
 *   cut      the most tokens, or the context, were reached
 *   stopped  the reader stopped it
 *   lost     the connection or the server did; error says why, code is the server's
 * What the message has already stays: the answer goes on behind it.
 * @param {object} m the message
 * @param {{path: string, body: object, key: string, controller: AbortController, connection: object, context: number,
 *   onchange: (a: Answer) => void}} how
 * @returns {Promise<Answer>}
 */
export async function ask(m, { path, body, key, controller, connection, context, onchange }) {
  const a = new Answer(), before = m.content, thought = m.reasoning || "", who = m.runs ? unpack(m.runs) : new Array(before.length).fill(0);
  const watch = new Watch(connection, (reason) => controller.abort(reason));
  const take = () => {
    m.content = before + a.content;
    if (a.reasoning) m.reasoning = thought + a.reasoning;
    if (a.calls.length) m.calls = a.calls.map((c) => ({ ...c }));
    m.who = [...who, ...a.who];
  };
  Object.assign(m, { state: "streaming", error: undefined, code: undefined });
  try {
    for await (const event of stream(path, body, { key, signal: controller.signal, onbytes: () => watch.alive() })) {
      a.take(event);
      m.touched = Date.now();
      onchange(a, take);
    }
    m.state = a.finish === "length" ? "cut" : "done";
  } catch (error) {
    const e = controller.signal.aborted ? controller.signal.reason : error; // some browsers say AbortError whatever the reason
    m.state = e.name === "AbortError" ? "stopped" : "lost";
    if (m.state === "lost") {
      m.error = e instanceof ApiError ? e.message : "The connection was lost: " + e.message + ".";
      m.code = e instanceof ApiError ? e.code : undefined;
      if (!(e instanceof ApiError)) connection.check();
    }
  } finally {
    watch.end();
  }
  take();
  if (m.calls && a.wholeCalls().length < a.calls.length) m.calls = a.wholeCalls().length > 0 ? a.wholeCalls() : undefined;
  if (m.who.some((w) => w !== 0)) m.runs = pack(m.who);
  delete m.who;
  if (a.timings) {
    const t = a.timings;
    m.figures = { tokens: t.predicted_n, rate: t.predicted_per_second || 0, drafted: t.draft_n, accepted: t.draft_n_accepted };
    m.dropped = t.truncated || undefined;
    m.full = (m.state === "cut" && context > 0 && t.cache_n + t.prompt_n + t.predicted_n >= context) || undefined;
  }
  return a;
}
