// Several tabs with one store: who may write into a conversation, and who changed what.

const prefix = "spec.conversation.";
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("spec") : null;

/** The browser's locks, null where it has none: outside of secure contexts (https, localhost), and where the reader forbids pages to keep anything. */
export const locks = navigator.locks ? await navigator.locks.query().then(() => navigator.locks, () => null) : null;

/**
 * Does something while this tab alone may write into a conversation. False if another tab does.
 * Without locks two tabs may answer at once; as messages are only added, that makes two branches.
 */
export async function alone(conversation, work) {
  if (!locks) { await work(); return true; }
  return locks.request(prefix + conversation, { ifAvailable: true }, async (lock) => {
    if (!lock) return false;
    await work();
    return true;
  });
}

/** The conversations into which some tab writes. */
export async function written() {
  if (!locks) return new Set();
  return new Set((await locks.query()).held.map((l) => l.name).filter((n) => n.startsWith(prefix)).map((n) => n.slice(prefix.length)));
}

/** Tells the other tabs that a conversation has changed. */
export const changed = (conversation) => channel && channel.postMessage(conversation);

/** Calls back when another tab changed a conversation. */
export function onchanged(f) { if (channel) channel.onmessage = (e) => f(e.data); }
