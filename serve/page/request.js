// What is sent to the server for a conversation.

/** Settings that are numbers, by the names of the request's fields. */
export const numbers = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "seed", "max_tokens"];

/** Settings that a new conversation takes over as defaults. */
export const settingNames = ["system", ...numbers, "when_full", "tools", "tool_choice", "schema"];

/** Reads the tools that a user has pasted: a list of functions in OpenAI's form, or one; bare functions are wrapped. */
export function readTools(text) {
  if (!text || text.trim() === "") return null;
  const value = JSON.parse(text);
  return (Array.isArray(value) ? value : [value]).map((t) => {
    if (!t || typeof t !== "object") throw new Error("a tool is an object");
    const tool = t.type === "function" ? t : { type: "function", function: t };
    if (!tool.function || !tool.function.name) throw new Error("a tool has no name");
    return tool;
  });
}

/** Reads a JSON Schema that a user has pasted. */
export function readSchema(text) {
  if (!text || text.trim() === "") return null;
  const value = JSON.parse(text);
  if (typeof value !== "object" && typeof value !== "boolean" || value === null || Array.isArray(value)) throw new Error("a schema is an object");
  return value;
}

// sent is a message as the API has it.
function sent(m) {
  if (m.role === "tool") return { role: "tool", tool_call_id: m.call, content: m.content };
  const out = { role: m.role, content: m.content };
  if (m.role === "assistant" && m.reasoning) out.reasoning_content = m.reasoning; // the model's template says which of it counts
  if (m.calls && m.calls.length > 0) {
    out.tool_calls = m.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
  }
  return out;
}

/** Whether an answer can go on where it ended: there is room, no schema that holds for the whole of it, and no call. */
export function continues(m, settings) {
  return m.role === "assistant" && Boolean(m.content || m.reasoning) && !(m.calls && m.calls.length) && !(settings.schema || "").trim() &&
    !m.full && ["stopped", "lost", "cut"].includes(m.state);
}

/**
 * The request for the next message of a conversation, or for more of its last one.
 * @param {object[]} path the messages so far
 * @param {object} settings of the conversation
 * @param {{chatting: boolean, model?: string, seed: number, speculation: object, goOn?: boolean}} how
 * @returns {{path: string, body: object}}
 */
export function request(path, settings, { chatting, model, seed, speculation, goOn }) {
  const body = { model: model || undefined, stream: true, timings_per_token: true, speculation };
  for (const f of numbers) if (settings[f] !== undefined && settings[f] !== "") body[f] = Number(settings[f]);
  body.seed = seed; // always, so that an answer can go on, or be measured, as the same text
  if (settings.when_full) body.when_full = settings.when_full;
  const messages = path.filter((m, i) => m.role !== "assistant" || m.content !== "" || m.calls || (goOn && i === path.length - 1));
  const schema = readSchema(settings.schema);
  if (!chatting) return { path: "v1/completions", body: { ...body, prompt: messages.map((m) => m.content).join(""), ...(schema !== null && { json_schema: schema }) } };
  body.messages = messages.map(sent);
  if ((settings.system || "").trim()) body.messages.unshift({ role: "system", content: settings.system });
  if (goOn) body.continue_final_message = true;
  const tools = readTools(settings.tools);
  if (tools && !goOn) {
    body.tools = tools;
    if (settings.tool_choice) body.tool_choice = settings.tool_choice;
  }
  if (schema !== null) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
  return { path: "v1/chat/completions", body };
}
