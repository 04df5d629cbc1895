// Conversations as files: JSON with everything, Markdown to read. Both can be read back.

import { settingNames } from "./request.js";
import { newID, path } from "./tree.js";

const form = "spec.conversations", version = 1;

/** All of some conversations as JSON. Of the messages those of other conversations (one that was deleted) are left out. */
export function toJSON(conversations, messages) {
  const kept = ({ who, elsewhere, ...m }) => m; // of this tab alone
  const ids = new Set(conversations.map((c) => c.id));
  return JSON.stringify({ form, version, conversations, messages: messages.filter((m) => ids.has(m.conversation)).map(kept) }, null, 1);
}

const heads = { user: "You", assistant: "Assistant", tool: "Tool", system: "System" };
const head = /^(\\*)## (You|Assistant|Tool|System)(?: \((.*)\))?$/;

const isRole = (role) => Object.hasOwn(heads, role);
const isText = (v) => typeof v === "string";
const textOf = (v) => (isText(v) ? v : undefined);

// A line of a text that looks like one of our headings has a backslash before it.
const escapeLines = (text) => text.split("\n").map((l) => (head.test(l) ? "\\" + l : l)).join("\n");
const unescapeLines = (text) => text.split("\n").map((l) => (l.startsWith("\\") && head.test(l) ? l.slice(1) : l)).join("\n");

/** The messages of one branch as Markdown. */
export function toMarkdown(c, messages) {
  const parts = ["# " + (c.title || "Conversation")];
  if (c.settings && (c.settings.system || "").trim()) parts.push("## System\n\n" + escapeLines(c.settings.system));
  for (const m of path(messages, c.leaf)) {
    let text = escapeLines(m.content);
    for (const call of m.calls || []) text += (text ? "\n\n" : "") + "```json\n" + JSON.stringify({ call: call.name, arguments: call.arguments }) + "\n```";
    parts.push("## " + heads[m.role] + (m.name ? ` (${m.name})` : "") + "\n\n" + text);
  }
  return parts.join("\n\n") + "\n";
}

// chain makes a conversation of messages that follow each other.
function chain(title, settings, list) {
  const now = Date.now(), c = { id: newID(), title, created: now, updated: now, leaf: null, settings };
  const messages = list.map((m, i) => ({ ...m, id: newID(), conversation: c.id, created: now + i, state: m.role === "assistant" ? "done" : undefined }));
  messages.forEach((m, i) => { m.parent = i > 0 ? messages[i - 1].id : null; });
  c.leaf = messages.length > 0 ? messages.at(-1).id : null;
  return { conversations: [c], messages };
}

function fromMarkdown(text) {
  if (!/(^|[^\r])\n/.test(text)) text = text.replaceAll("\r\n", "\n"); // of a file that Windows programs have written
  const lines = text.split("\n"), list = [], settings = {};
  let title = "", now = null;
  for (const l of lines) {
    const m = head.exec(l);
    if (m && m[1] === "") {
      now = { role: Object.keys(heads).find((r) => heads[r] === m[2]), content: [], name: m[3] };
      list.push(now);
    } else if (now) now.content.push(l);
    else if (l.startsWith("# ")) title = l.slice(2);
  }
  if (list.length === 0) throw new Error("it has no line “## You”, by which a message begins");
  for (const m of list) m.content = unescapeLines(m.content.join("\n").replace(/^\n/, "").replace(/\n+$/, ""));
  if (list[0].role === "system") settings.system = list.shift().content;
  return chain(title, settings, list);
}

// text is the content of a message of other programs' files; images are refused by a word.
function text(content) {
  if (typeof content === "string") return content;
  if (content === null || content === undefined) return "";
  if (!Array.isArray(content)) throw new Error("a message has no text");
  return content.map((p) => {
    if (p.type !== "text") throw new Error(`a message has a part of type ${p.type}; only text is understood here`);
    return p.text;
  }).join("");
}

// fromMessages reads {"messages": [{"role", "content"}]}, which `spec chat` saves and other programs have.
function fromMessages(value) {
  const settings = {};
  const list = value.messages.map((m) => {
    const role = m.role === "developer" ? "system" : m.role; // OpenAI's newer name
    if (!isRole(role)) throw new Error(`a message has the role ${role}`);
    const out = { role, content: text(m.content) };
    if (textOf(m.reasoning_content) || textOf(m.reasoning)) out.reasoning = textOf(m.reasoning_content) || m.reasoning;
    if (m.tool_calls && m.tool_calls.length > 0) out.calls = m.tool_calls.map((c) => ({ id: c.id || newID(), name: c.function.name, arguments: typeof c.function.arguments === "string" ? c.function.arguments : JSON.stringify(c.function.arguments) }));
    if (role === "tool") Object.assign(out, { call: textOf(m.tool_call_id), name: textOf(m.name) });
    return out;
  });
  if (list.length && list[0].role === "system") settings.system = list.shift().content;
  return chain(textOf(value.title) || (list.find((m) => m.role === "user") || { content: "" }).content.trim().slice(0, 60), settings, list);
}

// clean is a message of a file with the fields that this page knows, each of its type.
function clean(m) {
  if (!isRole(m.role) || !isText(m.content)) throw new Error("a message has no role or no text");
  const runs = Array.isArray(m.runs) && m.runs.every(Number.isInteger) ? m.runs : [];
  return {
    created: Number(m.created) || 0, role: m.role, content: m.content, reasoning: textOf(m.reasoning), plain: m.plain === true || undefined,
    calls: Array.isArray(m.calls) ? m.calls.map((c) => ({ id: String(c.id), name: String(c.name), arguments: String(c.arguments) })) : undefined,
    call: textOf(m.call), name: textOf(m.name), model: textOf(m.model), seed: Number.isInteger(m.seed) ? m.seed : undefined, json: m.json === true || undefined,
    runs: runs.reduce((n, r, i) => n + (i % 2 ? 0 : r), 0) === m.content.length && runs.every((r) => r >= 0) ? runs : undefined,
    state: m.state === "streaming" ? "lost" : ["done", "cut", "stopped", "lost"].includes(m.state) ? m.state : undefined, error: textOf(m.error),
  };
}

// fromOurs checks what this page wrote, and gives everything new ids: a file that is read twice is there twice.
function fromOurs(value) {
  if (value.version !== version) throw new Error(`it has version ${value.version} of this form, and this page reads ${version}`);
  const ids = new Map(), fresh = (id) => { if (!ids.has(id)) ids.set(id, newID()); return ids.get(id); };
  const known = new Set(value.conversations.map((c) => c.id)), ours = new Set(value.messages.map((m) => m.id));
  if (ours.size < value.messages.length) throw new Error("two messages have the same id, or none");
  const conversations = value.conversations.map((c) => ({
    id: fresh(c.id), leaf: c.leaf ? fresh(c.leaf) : null, title: textOf(c.title) || "", created: Number(c.created) || 0, updated: Date.now(),
    settings: Object.fromEntries([...settingNames, "model"].map((f) => [f, textOf((c.settings || {})[f])]).filter(([, v]) => v !== undefined)),
  }));
  const messages = value.messages.map((m) => {
    if (!known.has(m.conversation)) throw new Error("a message belongs to no conversation of the file");
    return { ...clean(m), id: fresh(m.id), conversation: fresh(m.conversation), parent: ours.has(m.parent) ? fresh(m.parent) : null };
  });
  return { conversations, messages };
}

/** Reads a file of conversations: this page's JSON or Markdown, or a list of messages as `spec chat` saves it. */
export function read(file, content) {
  try {
    if (/\.(md|markdown|txt)$/i.test(file)) return fromMarkdown(content);
    const value = JSON.parse(content);
    if (value && value.form === form && Array.isArray(value.conversations) && Array.isArray(value.messages)) return fromOurs(value);
    if (Array.isArray(value)) return fromMessages({ messages: value });
    if (value && Array.isArray(value.messages)) return fromMessages(value);
    throw new Error("it is neither this page's form nor has it messages");
  } catch (e) {
    throw new Error(`${file} cannot be read: ${e.message}`);
  }
}

/** Conversations as this page kept them in localStorage once. */
export function fromOld(list) {
  const out = { conversations: [], messages: [] };
  for (const c of list) {
    if (!c || !Array.isArray(c.messages) || c.messages.length === 0) continue;
    const one = chain(c.title || "", {}, c.messages.map((m) => ({ role: m.role, content: m.content || "", reasoning: m.reasoning, plain: m.plain, runs: m.runs })));
    out.conversations.push(...one.conversations);
    out.messages.push(...one.messages);
  }
  return out;
}
