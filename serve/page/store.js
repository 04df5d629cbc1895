// Conversations and their messages in IndexedDB. What cannot be written (the storage is full, or there is none) stays in
// memory and is read from there; `onstate` learns of it, and `retry` tries again.

const name = "spec", version = 1;
const stores = ["conversations", "messages"];
const forgetAfter = 24 * 3600 * 1000; // milliseconds after which something deleted is gone for good

export class Store {
  /** @param {(state: {where: "kept"|"memory"|"full", pending: number, error?: Error}) => void} onstate */
  constructor(onstate = () => {}) {
    this.onstate = onstate;
    this.db = null;
    this.opening = null; // while it is opened again
    this.error = null;
    this.pending = { conversations: new Map(), messages: new Map() }; // what is in memory only
  }

  async open() {
    try {
      await this.#connect();
      await this.#purge(Date.now() - forgetAfter);
    } catch (e) {
      this.error = e;
    }
    this.#tell();
  }

  async #connect() {
    this.db = await new Promise((resolve, reject) => {
      const r = indexedDB.open(name, version);
      r.onupgradeneeded = () => {
        r.result.createObjectStore("conversations", { keyPath: "id" });
        r.result.createObjectStore("messages", { keyPath: "id" }).createIndex("conversation", "conversation");
      };
      r.onsuccess = () => resolve(r.result);
      r.onerror = () => reject(r.error);
    });
    const db = this.db;
    db.onversionchange = () => db.close(); // a newer page in another tab may change the form
  }

  // #again opens the database when it was closed: by the browser, or for another tab. Without it all is in memory.
  async #again() {
    try {
      await this.#connect();
    } catch (e) {
      this.db = null;
      this.error = e;
      this.#tell();
    }
  }

  /** How many records are in memory only. */
  get unsaved() { return stores.reduce((n, s) => n + this.pending[s].size, 0); }

  #tell() {
    const where = !this.db ? "memory" : this.unsaved > 0 ? "full" : "kept";
    this.onstate({ where, pending: this.unsaved, error: this.error });
  }

  // #run does something in one transaction; what it returns is the result once everything is written.
  async #run(mode, work) {
    const db = this.db;
    try {
      return await this.#once(mode, work);
    } catch (e) {
      if (e.name !== "InvalidStateError") throw e;
      if (this.db === db) await (this.opening ||= this.#again().finally(() => { this.opening = null; }));
      if (!this.db) throw this.error;
      return this.#once(mode, work);
    }
  }

  #once(mode, work) {
    return new Promise((resolve, reject) => {
      const t = this.db.transaction(stores, mode);
      let result;
      t.oncomplete = () => resolve(result);
      t.onabort = () => reject(t.error || new DOMException("not written", "AbortError"));
      work(t, (v) => { result = v; });
    });
  }

  #all(store, index, key) {
    return this.#run("readonly", (t, done) => {
      const from = t.objectStore(store);
      const r = index ? from.index(index).getAll(key) : from.getAll();
      r.onsuccess = () => done(r.result);
    });
  }

  // #read is what is stored, and what waits in memory in its place. The same where nothing is stored.
  async #read(store, index, key) {
    const list = this.db ? await this.#all(store, index, key).catch((e) => { if (this.db) throw e; return []; }) : [];
    const records = new Map(list.map((r) => [r.id, r]));
    for (const [id, r] of this.pending[store]) if (!index || r[index] === key) records.set(id, r);
    return [...records.values()].filter((r) => !r.deleted);
  }

  /** The conversations that are not deleted, the latest first. */
  async conversations() { return (await this.#read("conversations")).sort((a, b) => b.updated - a.updated); }

  /** The messages of a conversation that are not deleted, as a Map by id. */
  async messages(conversation) {
    return new Map((await this.#read("messages", "conversation", conversation)).map((m) => [m.id, m]));
  }

  /** All messages that are not deleted. */
  allMessages() { return this.#read("messages"); }

  /** Writes whole records. It never fails: what is not written is kept in memory, and onstate told. */
  async put({ conversations = [], messages = [] }) {
    const records = { conversations, messages };
    try {
      if (!this.db) throw this.error;
      await this.#run("readwrite", (t) => { for (const s of stores) for (const r of records[s]) t.objectStore(s).put(r); });
      for (const s of stores) for (const r of records[s]) this.pending[s].delete(r.id);
      this.#tell();
    } catch (e) {
      this.#keep(records, e);
    }
  }

  #keep(records, e) {
    for (const s of stores) for (const r of records[s]) this.pending[s].set(r.id, structuredClone(r));
    this.error = e;
    this.#tell();
  }

  /** Changes some fields of a record and leaves the others as they are now: in memory where it waits there, else in the store, also where another tab changed them. */
  async change(store, id, fields) {
    const waiting = this.pending[store].get(id);
    try {
      if (!this.db) throw this.error;
      await this.#run("readwrite", (t) => {
        const r = t.objectStore(store).get(id);
        r.onsuccess = () => { const old = waiting || r.result; if (old) t.objectStore(store).put({ ...old, ...fields }); };
      });
      this.pending[store].delete(id);
      this.#tell();
    } catch (e) {
      const old = waiting || (this.db && (await this.#all(store)).find((r) => r.id === id));
      if (old) this.#keep({ conversations: [], messages: [], [store]: [{ ...old, ...fields }] }, e);
    }
  }

  /** Writes what waits in memory, after what was deleted has made room. */
  async retry() {
    if (!this.db) return;
    try {
      const gone = new Set(await this.#purge(Date.now()));
      for (const c of this.pending.conversations.values()) if (c.deleted) gone.add(c.id);
      for (const m of this.pending.messages.values()) if (gone.has(m.conversation)) this.pending.messages.delete(m.id);
    } catch { /* what follows tells */ }
    await this.put(Object.fromEntries(stores.map((s) => [s, [...this.pending[s].values()]])));
  }

  // #purge removes what was deleted before a time, and returns the ids of the conversations among it.
  #purge(before) {
    return this.#run("readwrite", (t, done) => {
      const gone = (r) => r.deleted && r.deleted <= before, conversations = [];
      done(conversations);
      const c = t.objectStore("conversations").openCursor();
      c.onsuccess = () => {
        const at = c.result;
        if (!at) return;
        if (gone(at.value)) {
          const keys = t.objectStore("messages").index("conversation").getAllKeys(at.value.id);
          keys.onsuccess = () => keys.result.forEach((k) => t.objectStore("messages").delete(k));
          conversations.push(at.value.id);
          at.delete();
        }
        at.continue();
      };
      const m = t.objectStore("messages").openCursor();
      m.onsuccess = () => { const at = m.result; if (at) { if (gone(at.value)) at.delete(); at.continue(); } };
    });
  }
}
