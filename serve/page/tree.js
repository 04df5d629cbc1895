// A conversation is a tree of messages: an edited question or another answer is a sibling of the first one. Messages are
// only added, so two tabs that write into one conversation make branches, and neither overwrites the other.
//
// A message: {id, conversation, parent (an id; null: first), created, role, content, …}. Functions take a Map of id to message.

/** A name that no other message or conversation has. crypto.randomUUID needs a secure context; this does not. */
export const newID = () => [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("");

const byAge = (a, b) => a.created - b.created || (a.id < b.id ? -1 : 1);

/** The messages that follow one (null: those that begin the conversation), oldest first. */
export const children = (messages, parent) => [...messages.values()].filter((m) => m.parent === parent).sort(byAge);

/** Message and alternatives to it, oldest first. */
export const siblings = (messages, m) => children(messages, m.parent);

/** The messages from the first to a leaf, given by its id. */
export function path(messages, leaf) {
  const out = [];
  for (let m = messages.get(leaf); m && out.length <= messages.size; m = messages.get(m.parent)) out.push(m);
  return out.reverse();
}

/** The id of the leaf below a message (null: of the whole conversation) that is reached by the newest message each time. */
export function newest(messages, from) {
  const next = new Map();
  for (const m of messages.values()) {
    const other = next.get(m.parent);
    if (!other || byAge(other, m) < 0) next.set(m.parent, m);
  }
  const seen = new Set();
  while (next.has(from) && !seen.has(from)) { seen.add(from); from = next.get(from).id; }
  return from;
}

/** A message and all that follow it. */
export function below(messages, m) {
  const out = [m];
  for (let i = 0; i < out.length; i++) for (const c of children(messages, out[i].id)) if (!out.includes(c)) out.push(c);
  return out;
}

/** Whether one message (an id) is on the path to another. */
export function leadsTo(messages, ancestor, leaf) {
  return ancestor === null || path(messages, leaf).some((m) => m.id === ancestor);
}

/** The chains of messages from the first to each leaf, for exports and searches. */
export function leaves(messages) {
  const parents = new Set([...messages.values()].map((m) => m.parent));
  return [...messages.values()].filter((m) => !parents.has(m.id)).sort(byAge).map((m) => m.id);
}
