// The list of conversations, and the search in them.

import { button, el } from "./dom.js";

const around = 30; // characters shown on both sides of what was found

/** The place of a word in a text with what is around it; "" if it is not there. */
export function excerpt(text, word) {
  const at = text.toLowerCase().indexOf(word.toLowerCase());
  if (at < 0) return "";
  const from = Math.max(0, at - around), to = Math.min(text.length, at + word.length + around);
  return (from > 0 ? "…" : "") + text.slice(from, to).replace(/\s+/g, " ") + (to < text.length ? "…" : "");
}

/**
 * The conversations in which a word stands: in the title, in a message, in the system message.
 * @returns {Map<string, string>} an excerpt by the conversation's id
 */
export function find(word, conversations, messages) {
  const found = new Map();
  for (const c of conversations) {
    const e = excerpt(c.title || "", word) || excerpt((c.settings && c.settings.system) || "", word);
    if (e) found.set(c.id, e);
  }
  for (const m of messages) {
    const e = found.has(m.conversation) ? "" : excerpt(m.content, word) || excerpt(m.reasoning || "", word);
    if (e) found.set(m.conversation, e);
  }
  return found;
}

/**
 * Draws the conversations, where something of them has changed: a button that is put anew loses the focus, and a click that
 * is under way. found (see find) leaves out those in which nothing was found; null: all are shown.
 */
export function drawList(list, conversations, { current, found, busy, open }) {
  const shown = conversations.filter((c) => !found || found.has(c.id));
  const drawn = JSON.stringify([!!found, ...shown.map((c) => [c.id, c.title, c.id === current, c.id === busy, found && found.get(c.id)])]);
  if (list.drawn === drawn) return;
  list.drawn = drawn;
  list.replaceChildren(...shown.map((c) => {
    const go = button(c.title || "New conversation", () => open(c), { className: "open" });
    if (c.id === current) go.setAttribute("aria-current", "true");
    const more = [];
    if (busy === c.id) more.push(el("span", { className: "hint" }, "answering"));
    if (found && found.get(c.id) !== c.title) more.push(el("span", { className: "hint excerpt" }, found.get(c.id)));
    return el("li", {}, go, ...more);
  }));
  if (found && shown.length === 0) list.append(el("li", { className: "hint" }, "Nothing was found."));
}
