// Several tabs with one store: who may write into a conversation, and who changed what.

const prefix = "spec.conversation.";
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("spec") : null;

/**
 * Does something while this tab alone may write into a conversation. False if another tab does.
 * Browsers have locks in secure contexts only (https, localhost). Elsewhere two tabs may answer at once; as messages are
 * only added, that makes two branches.
 */
export async function alone(conversation, work) {
  if (!navigator.locks) { await work(); return true; }
  return navigator.locks.request(prefix + conversation, { ifAvailable: true }, async (lock) => {
    if (!lock) return false;
    await work();
    return true;
  });
}

/** The conversations into which some tab writes. */
export async function written() {
  if (!navigator.locks) return new Set();
  return new Set((await navigator.locks.query()).held.map((l) => l.name).filter((n) => n.startsWith(prefix)).map((n) => n.slice(prefix.length)));
}

/** Tells the other tabs that a conversation has changed. */
export const changed = (conversation) => channel && channel.postMessage(conversation);

/** Calls back when another tab changed a conversation. */
export function onchanged(f) { if (channel) channel.onmessage = (e) => f(e.data); }
