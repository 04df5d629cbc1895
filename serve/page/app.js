// The page put together: conversations on the left, the text in the middle, the panel of speculation on the right when it is
// open. What it shows comes from the store, and every change goes there first.

import { get } from "./api.js";
import { ask, stopped } from "./ask.js";
import { Connection } from "./connection.js";
import { $, button, copy, download, fillSelect, notice, report } from "./dom.js";
import { drawList, find } from "./list.js";
import { Log, emptyHint } from "./log.js";
import { Models } from "./models.js";
import { fromOld, read, toJSON, toMarkdown } from "./portable.js";
import { continues, request } from "./request.js";
import * as settings from "./settings.js";
import * as speculation from "./speculation.js";
import { Store } from "./store.js";
import { alone, changed, locks, onchanged, written } from "./tabs.js";
import { below, children, leadsTo, newID, newest, path, siblings } from "./tree.js";

const drawEvery = 80, saveEvery = 400;  // milliseconds between drawings, and writings, of a streaming answer
const soon = 250;                       // before a change of another tab, or of the search, is drawn
const abandoned = 15_000;               // without locks: a streaming message that nobody has touched for so long is lost
const titleLength = 60;
const oldKey = "spec.conversations", settingsKey = "spec.settings", panelKey = "spec.panel", draftKey = "spec.draft.";

const state = {
  conversations: [],        // those of the store
  c: null,                  // the open one; it is stored with its first message
  messages: new Map(),      // of the open conversation
  run: null,                // the answer under way: {c, messages, m, controller}
  answer: null,             // Answer that the panel shows
  last: null,               // path and body of the last request, for the measurement
  props: null,              // what the server says of the model
  found: null,              // what the search found
};

const key = () => $("key").value;
const chatting = () => !state.props || state.props.has_chat_template !== false;
const context = () => (state.props && state.props.n_ctx) || 0;
const shownPath = () => path(state.messages, state.c.leaf);
const runsHere = () => state.run && state.run.c.id === state.c.id;

// --- the store

const store = new Store(({ where, pending, error }) => {
  $("where").textContent = where === "kept" ? "Conversations stay in this browser." : "Conversations are lost when this tab closes.";
  $("full").hidden = where === "kept" || (where === "memory" && pending === 0);
  $("full-retry").hidden = where === "memory";
  $("full-text").textContent = where === "memory"
    ? `This browser keeps nothing for this page (${error && error.message}). What you write is in this tab only: export it before you close the tab.`
    : `This browser's storage is full${error && error.name === "QuotaExceededError" ? "" : ` (${error && error.message})`}. What is new is in this tab only: export it, or delete conversations and try again.`;
});

addEventListener("beforeunload", (e) => { if (store.unsaved > 0) e.preventDefault(); });

// --- the open conversation

function blank() {
  return { id: newID(), title: "", created: Date.now(), updated: Date.now(), leaf: null, settings: settings.defaults() };
}

const isStored = (c) => state.conversations.some((x) => x.id === c.id);

// mark tells streaming messages of other tabs from those that nobody writes any more. Who holds the lock knows that nobody does.
async function mark(id, messages, locked) {
  const busy = await written();
  for (const m of messages.values()) {
    if (m.state !== "streaming") continue;
    m.elsewhere = !locked && (locks ? busy.has(id) : Date.now() - (m.touched || m.created) < abandoned);
    if (!m.elsewhere) Object.assign(m, { state: "lost", error: "The page was closed or loaded again here." });
  }
  return messages;
}

const readMessages = async (id, locked) => (state.run && state.run.c.id === id ? state.run.messages : mark(id, await store.messages(id), locked));

// open shows a conversation: null for a new one. What was pressed before is begun first, and of two the later one is shown.
async function open(c) {
  keepDraft();
  report("");
  const turn = ++opened;
  let messages;
  do {
    await starting;
    messages = c ? await readMessages(c.id) : new Map();
  } while (starting);
  if (turn !== opened) return;
  c &&= state.conversations.find((x) => x.id === c.id) || c;
  state.c = c ? (state.run && state.run.c.id === c.id ? state.run.c : structuredClone(c)) : blank();
  if (c && !messages.has(state.c.leaf)) state.c.leaf = newest(messages, null);
  state.messages = messages;
  state.answer = state.run && state.run.c === state.c ? state.run.answer : null;
  state.last = null;
  history.replaceState(null, "", c ? "#" + c.id : location.pathname + location.search);
  $("title").value = state.c.title;
  $("prompt").value = draft(state.c.id);
  log.clear();
  chooseModel();
  drawConversations();
  draw({ end: true });
}

// reload reads the open conversation again, after another tab may have changed it, and follows what was added.
async function reload(locked = false) {
  const id = state.c.id, stored = (await store.conversations()).find((c) => c.id === id);
  const messages = await readMessages(id, locked);
  if (state.c.id !== id || runsHere() || (starting && !locked)) return;
  state.messages = messages;
  if (stored) Object.assign(state.c, { title: stored.title, settings: stored.settings });
  if (stored && leadsTo(messages, state.c.leaf, stored.leaf)) state.c.leaf = stored.leaf;
  if (!messages.has(state.c.leaf)) state.c.leaf = newest(messages, null);
  if (document.activeElement !== $("title")) $("title").value = state.c.title;
}

const draft = (id) => { try { return sessionStorage.getItem(draftKey + (isStored({ id }) ? id : "new")) || ""; } catch { return ""; } };

// keepDraft keeps what is written and not sent, also when the page is loaded again.
function keepDraft() {
  if (!state.c) return;
  try {
    const k = draftKey + (isStored(state.c) ? state.c.id : "new");
    if ($("prompt").value) sessionStorage.setItem(k, $("prompt").value); else sessionStorage.removeItem(k);
  } catch { /* it is on the screen */ }
}

let opened = 0;          // conversations that were to be opened
let starting = null;     // until what was begun is done, or its answer under way: nothing else is begun or opened
let started = () => {};  // ends that

// mine does something while this tab alone may write into the open conversation, with what other tabs have written.
async function mine(work) {
  if (starting) return false; // a second press
  let end;
  const begun = new Promise((resolve) => { end = () => { if (starting === begun) starting = null; resolve(); }; });
  [starting, started] = [begun, end];
  try {
    const done = await alone(state.c.id, async () => { await reload(true); await work(); });
    if (!done) report("Another tab is writing in this conversation. Wait until it is done, or stop it there.");
    return done;
  } catch (e) {
    report(e.message);
    throw e;
  } finally {
    end();
  }
}

// save writes messages and the conversation's end. The conversation itself is written with its first message.
async function save(c, messages) {
  c.updated = Date.now();
  if (isStored(c)) {
    await store.put({ messages });
    await store.change("conversations", c.id, { leaf: c.leaf, updated: c.updated });
  } else {
    await store.put({ conversations: [c], messages });
    if (state.c === c) history.replaceState(null, "", "#" + c.id);
    try { sessionStorage.removeItem(draftKey + "new"); } catch { /* as above */ }
  }
  await readConversations();
  changed(c.id);
}

async function changeConversation(fields) {
  Object.assign(state.c, fields);
  if (!isStored(state.c)) return;
  await store.change("conversations", state.c.id, fields);
  await readConversations();
  changed(state.c.id);
}

// --- what is shown

async function readConversations() {
  state.conversations = await store.conversations();
  drawConversations();
}

function drawConversations() {
  drawList($("conversations"), state.conversations, {
    current: state.c && state.c.id, found: state.found, busy: state.run && state.run.c.id,
    open: async (c) => { closeSide(); await open(c); $("prompt").focus(); },
  });
  $("export-all").disabled = state.conversations.length === 0;
}

const log = new Log($("log"), {
  before: (m) => turn(m, -1),
  after: (m) => turn(m, 1),
  copy: async (m) => { if (!(await copy(m.content))) report("The browser does not allow copying."); },
  edit: (m, view) => view.edit(m, (text) => branch(m, text), () => draw()),
  delete: (m) => deleteMessage(m),
  regenerate: (m) => act(async () => { await answer(latest(m)); }),
  goon: (m) => act(async () => { await answer(latest(m), true); }),
  answer: (m) => act(async () => { await answer(fresh(m.id)); }),
  drop: (m) => act(async () => {
    await changeConversation({ settings: { ...state.c.settings, when_full: "drop" } });
    await answer(latest(m), true); // a part of an answer stays
  }),
  results: (m, _, e) => {
    const form = e.target.closest("form"), texts = m.calls.map((c) => form.elements.namedItem(c.id).value);
    act(() => sendResults(m, texts));
  },
});

function draw(options = {}) {
  const list = shownPath(), marks = speculation.marks(), busy = !!state.run || list.some((m) => m.elsewhere);
  const counts = new Map();
  for (const m of state.messages.values()) counts.set(m.parent, (counts.get(m.parent) || 0) + 1);
  log.show(list, (m, i) => {
    const others = counts.get(m.parent) > 1 ? siblings(state.messages, m) : [m];
    return { siblings: others.length, at: others.indexOf(m), last: i === list.length - 1, busy, marks, settings: state.c.settings, context: context() };
  }, { ...options, empty: emptyHint(chatting(), button("Try an example", () => { $("prompt").value = "func (r *Ring) Push(v int) {\n"; $("prompt").focus(); })) });
  $("delete").disabled = $("export-json").disabled = $("export-markdown").disabled = list.length === 0;
  $("log").setAttribute("aria-busy", runsHere() ? "true" : "false");
  drawFigures();
  if (list.some((m) => m.elsewhere)) setTimeout(() => { if (!state.run) refreshSoon(state.c.id); }, abandoned / 5); // its tab may be gone without a word
}

function drawFigures() { speculation.drawFigures(state.answer, state.last && !state.run); }

// turn shows another alternative of a message.
function turn(m, by) {
  const list = siblings(state.messages, m), other = list[list.indexOf(m) + by];
  if (!other) return;
  changeConversation({ leaf: newest(state.messages, other.id) });
  draw();
}

// --- writing

const fresh = (parent) => ({ id: newID(), conversation: state.c.id, parent, created: Date.now(), role: "assistant", content: "", plain: !chatting() || undefined });

const add = (m) => { state.messages.set(m.id, m); state.c.leaf = m.id; };

// latest is a message as it is after other tabs have written.
const latest = (m) => state.messages.get(m.id) || m;

// act does something to the conversation that ends with an answer, if none is under way.
async function act(work) {
  if (state.run) { report("An answer is under way. Stop it first."); return false; }
  report("");
  return mine(work);
}

async function send() {
  const text = $("prompt").value;
  if (text.trim() === "") return;
  await act(async () => {
    const m = { id: newID(), conversation: state.c.id, parent: state.c.leaf, created: Date.now(), role: "user", content: text, plain: !chatting() || undefined };
    if (!state.c.title) {
      const lines = text.trim().split("\n"), line = lines.find((l) => /[\p{L}\p{N}]/u.test(l)) || lines[0]; // not the mark in front of a file
      const title = [...line.slice(0, 2 * titleLength)].slice(0, titleLength).join(""); // whole characters
      $("title").value = title;
      await changeConversation({ title });
    }
    add(m);
    await save(state.c, [m]); // the question is kept before anything can be lost
    $("prompt").value = "";
    keepDraft();
    await answer(fresh(m.id));
  });
}

// branch puts another text beside a message: what was said stays as an alternative. False: nothing was done.
async function branch(m, text) {
  return act(async () => {
    const other = { ...m, id: newID(), created: Date.now(), content: text, runs: undefined, figures: undefined, error: undefined, code: undefined, state: m.role === "assistant" ? "done" : undefined };
    add(other);
    await save(state.c, [other]);
    if (m.role === "user") await answer(fresh(other.id)); else draw();
  });
}

async function sendResults(m, texts) {
  let parent = m.id;
  const results = m.calls.map((c, i) => {
    const r = { id: newID(), conversation: state.c.id, parent, created: Date.now() + i, role: "tool", call: c.id, name: c.name, content: texts[i] };
    parent = r.id;
    add(r);
    return r;
  });
  await save(state.c, results);
  await answer(fresh(parent));
}

function busy(run) {
  state.run = run;
  $("send").hidden = !!run;
  $("stop").hidden = !run;
  if (!run) document.body.dataset.requests = Number(document.body.dataset.requests || 0) + 1; // that ended; tests wait for it
  drawConversations();
}

// answer streams the text of a message: behind what is there where it is to go on and can, else into it where nothing is
// written in it or behind it, else into another one beside it. The lock is held.
async function answer(m, goOn = false) {
  const c = state.c, messages = state.messages, model = $("model").value || undefined;
  goOn = goOn && continues(m, c.settings);
  if (!goOn && (m.content || m.reasoning || m.calls || children(messages, m.id).length > 0)) m = fresh(m.parent);
  const seed = goOn && m.seed !== undefined ? m.seed : c.settings.seed ? Number(c.settings.seed) : crypto.getRandomValues(new Uint32Array(1))[0];
  let wanted;
  try {
    wanted = request(path(messages, goOn ? m.id : m.parent), c.settings, { chatting: chatting(), model, seed, speculation: speculation.choice(), goOn });
  } catch (e) {
    report(e.message);
    draw();
    return;
  }
  add(m);
  const controller = new AbortController(), run = { c, messages, m, controller, answer: null, keep() {} };
  Object.assign(m, { seed, model, json: (c.settings.schema || "").trim() ? true : undefined, figures: undefined, dropped: undefined, full: undefined, state: "streaming", touched: Date.now() });
  busy(run);
  started();
  $("speedup").textContent = "–";
  await save(c, [m]);
  if (state.c === c) draw({ end: true });
  let drawTimer = 0, saveTimer = 0, savedAt = 0, writing = Promise.resolve();
  const keep = () => {
    clearTimeout(saveTimer);
    [saveTimer, savedAt] = [0, Date.now()];
    const { who, ...kept } = m;
    writing = writing.then(() => store.put({ messages: [kept] })).then(() => changed(c.id));
  };
  run.keep = keep;
  // Without locks other tabs know by this alone that the answer is under way, also while a long prompt is read.
  const alive = locks ? 0 : setInterval(() => { m.touched = Date.now(); keep(); }, abandoned / 3);
  const a = await ask(m, {
    ...wanted, key: key(), controller, connection, context: context(),
    onchange: (a, take) => {
      run.answer = a;
      if (drawTimer) return;
      drawTimer = setTimeout(() => {
        drawTimer = 0;
        take();
        saveTimer ||= setTimeout(keep, Math.max(0, savedAt + saveEvery - Date.now())); // also when nothing more comes
        if (state.c !== c) return;
        state.answer = a;
        log.grow(m);
        drawFigures();
      }, drawEvery);
    },
  });
  clearTimeout(drawTimer);
  clearTimeout(saveTimer);
  clearInterval(alive);
  await writing;
  await save(c, [m]);
  state.last = wanted;
  busy(null);
  if (state.c === c) state.answer = a;
  draw(); // of another conversation too: its messages can be changed again
}

async function deleteMessage(m) {
  if (state.run) return;
  const id = state.c.id, now = Date.now();
  let gone, leaf;
  const done = await mine(async () => {
    [gone, leaf] = [below(state.messages, m), state.c.leaf]; // with what another tab has added
    for (const x of gone) state.messages.delete(x.id);
    const others = children(state.messages, m.parent);
    state.c.leaf = others.length > 0 ? newest(state.messages, others.at(-1).id) : m.parent;
    await save(state.c, gone.map((x) => ({ ...x, deleted: now })));
    draw();
  });
  if (done) notice(gone.length > 1 ? `${gone.length} messages are deleted.` : "The message is deleted.", async () => {
    await store.put({ messages: gone });
    await store.change("conversations", id, { leaf });
    await afterUndo(id);
  });
}

async function deleteConversation() {
  const c = state.c;
  if (state.run && state.run.c.id === c.id) { report("An answer is under way. Stop it first."); return; }
  const done = await alone(c.id, () => store.change("conversations", c.id, { deleted: Date.now() }));
  if (!done) { report("Another tab is writing in this conversation."); return; }
  changed(c.id);
  await open(null); // while the deleted one is known still, so that what is written there is kept as its own
  await readConversations();
  notice(`“${c.title}” is deleted.`, async () => {
    await store.change("conversations", c.id, { deleted: undefined });
    await afterUndo(c.id);
  });
}

async function afterUndo(id) {
  changed(id);
  await readConversations();
  const c = state.conversations.find((x) => x.id === id);
  if (c) await open(c);
}

// --- files

async function exportAll() {
  download("conversations.json", "application/json", toJSON(state.conversations, await store.allMessages()));
}

const fileName = (ending) => (state.c.title.replace(/[^\p{L}\p{N}_-]+/gu, " ").trim().slice(0, 60) || "conversation") + ending;

async function importFiles(files) {
  for (const f of files) {
    try {
      const data = read(f.name, await f.text());
      await store.put(data);
      await readConversations();
      for (const c of data.conversations) changed(c.id);
      const first = data.conversations[0];
      if (first) await open(state.conversations.find((c) => c.id === first.id));
      notice(`${data.conversations.length === 1 ? "One conversation is" : `${data.conversations.length} conversations are`} imported from ${f.name}.`);
    } catch (e) {
      report(e.message);
    }
  }
}

// insertFiles takes what is dropped or pasted: the text of text files, and no images.
async function insertFiles(files) {
  for (const f of [...files]) { // the event's own list may be empty after a wait
    if (/^(image|audio|video)\//.test(f.type)) { report(`${f.name || "This"} is ${f.type.startsWith("image") ? "an image" : "a recording"}. The models of this server read text only.`); continue; }
    let text;
    try { text = await f.text(); } catch (e) { report(`${f.name} cannot be read: ${e.message}`); continue; } // a folder
    if (text.includes("\0")) { report(`${f.name} is no text. The models of this server read text only.`); continue; }
    $("prompt").setRangeText(`\n\`\`\`\`\n${f.name}:\n${text}\n\`\`\`\`\n`, $("prompt").selectionStart, $("prompt").selectionEnd, "end");
  }
  keepDraft();
}

// --- the server

// chooseModel shows the open conversation's model, where the server still has it.
function chooseModel() {
  const wanted = state.c.settings.model;
  if (wanted && [...$("model").options].some((o) => o.value === wanted) && $("model").value !== wanted) {
    $("model").value = wanted;
    readProps().catch((e) => report(e.message));
  }
}

async function readProps() {
  const model = $("model").value, props = await get("props" + (model ? "?model=" + encodeURIComponent(model) : ""), key());
  if ($("model").value !== model) return; // another one was chosen meanwhile, and is asked about
  state.props = props;
  speculation.offer(state.props, settings.load(settingsKey, {}));
  $("prompt-label").textContent = chatting() ? "Message" : "Text to continue (this model has no chat template)";
  if (!runsHere()) draw();
}

async function connect() {
  try {
    const models = (await get("v1/models", key())).data || [];
    fillSelect($("model"), models.map((m) => [m.id, m.id]), $("model").value || state.c.settings.model);
    try { await readProps(); } finally { $("model").disabled = models.length === 0; } // of one that fails: another one can be chosen
    report("");
  } catch (e) {
    report(e.message);
  }
}

const connection = new Connection((now, seconds) => {
  $("connection").hidden = now === "up";
  $("connection").dataset.state = now;
  $("connection").textContent = now === "down" ? `The server does not answer; the next try is in ${seconds} s.` : now === "loading" ? "The server is getting ready …" : "";
}, connect, async () => (await written()).size);

// --- other tabs

let refreshTimer = 0;
const news = new Set(); // conversations that have changed since the last look
function refreshSoon(id) {
  news.add(id);
  if (refreshTimer) return;
  refreshTimer = setTimeout(async () => {
    refreshTimer = 0;
    const ids = new Set(news);
    news.clear();
    await readConversations();
    if (ids.has(state.c.id) && !runsHere()) { await reload(); draw(); }
  }, soon);
}
onchanged(refreshSoon);

// --- events

function closeSide() {
  $("side").classList.remove("shown");
  $("menu").setAttribute("aria-expanded", "false");
}

function showPanel(on) {
  $("panel").hidden = !on;
  $("panel-open").setAttribute("aria-expanded", String(on));
  settings.keep(panelKey, on);
  draw();
}

// composes says that a key is of an input method. Safari sends the key that ends a composition behind it, with this code.
const composes = (e) => e.isComposing || e.keyCode === 229;

$("form").addEventListener("submit", (e) => { e.preventDefault(); send(); });
$("prompt").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !composes(e)) { e.preventDefault(); send(); }
});
$("prompt").addEventListener("input", keepDraft);
document.querySelector(".skip").addEventListener("click", (e) => { e.preventDefault(); $("prompt").focus(); }); // the address stays the conversation's
$("prompt").addEventListener("paste", (e) => {
  const { files } = e.clipboardData;
  if (files.length === 0 || (e.clipboardData.getData("text/plain") && [...files].every((f) => f.type.startsWith("image/")))) return; // spreadsheets add a picture to their text
  e.preventDefault();
  insertFiles(files);
});
document.addEventListener("dragover", (e) => { if (e.dataTransfer.types.includes("Files")) e.preventDefault(); });
document.addEventListener("drop", (e) => { if (e.dataTransfer.files.length > 0) { e.preventDefault(); insertFiles(e.dataTransfer.files); } });
const stop = () => { if (state.run) state.run.controller.abort(stopped()); };
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && !composes(e) && !document.querySelector("dialog[open]")) stop(); });
$("stop").addEventListener("click", () => { stop(); $("prompt").focus(); });
addEventListener("pagehide", () => { keepDraft(); if (state.run) state.run.keep(); });
document.addEventListener("visibilitychange", () => { if (document.hidden && state.run) state.run.keep(); });

$("new").addEventListener("click", async () => { closeSide(); await open(null); $("prompt").focus(); });
$("menu").addEventListener("click", () => $("menu").setAttribute("aria-expanded", String($("side").classList.toggle("shown"))));
let searchTimer = 0;
$("search").addEventListener("input", () => {
  clearTimeout(searchTimer);
  searchTimer = setTimeout(async () => {
    const word = $("search").value.trim();
    state.found = word ? find(word, state.conversations, await store.allMessages()) : null;
    drawConversations();
  }, soon);
});
$("title").addEventListener("change", () => changeConversation({ title: $("title").value.trim() }));
$("title").addEventListener("keydown", (e) => { if (e.key === "Enter" && !composes(e)) $("prompt").focus(); });
$("export-json").addEventListener("click", () => download(fileName(".json"), "application/json", toJSON([state.c], [...state.messages.values()])));
$("export-markdown").addEventListener("click", () => download(fileName(".md"), "text/markdown", toMarkdown(state.c, state.messages)));
$("delete").addEventListener("click", deleteConversation);
$("more").addEventListener("click", (e) => { if (e.target.nodeName === "BUTTON") $("more").open = false; });
$("more").addEventListener("focusout", (e) => { if (!$("more").contains(e.relatedTarget)) $("more").open = false; });
$("export-all").addEventListener("click", exportAll);
$("full-export").addEventListener("click", exportAll);
$("full-retry").addEventListener("click", async () => { await store.retry(); await readConversations(); });
$("import").addEventListener("click", () => $("import-file").click());
$("import-file").addEventListener("change", async () => { await importFiles([...$("import-file").files]); $("import-file").value = ""; });

settings.setup(() => state.c.settings, async (s) => {
  await changeConversation({ settings: { ...s, model: state.c.settings.model } });
  await connect();
});
$("model").addEventListener("change", async () => {
  await changeConversation({ settings: { ...state.c.settings, model: $("model").value } });
  readProps().catch((e) => report(e.message));
});
new Models({ key, props: () => state.props, changed: connect });

$("panel-open").addEventListener("click", () => showPanel($("panel").hidden));
$("panel-close").addEventListener("click", () => { showPanel(false); $("panel-open").focus(); });
const keepChoices = () => settings.keep(settingsKey, { ...Object.fromEntries(speculation.fields.map((f) => [f, $(f).value])), sources: $("sources").checked });
for (const f of speculation.fields) $(f).addEventListener("change", () => { keepChoices(); speculation.explain(state.props); drawFigures(); });
$("sources").addEventListener("change", () => { keepChoices(); draw(); });
$("measure").addEventListener("click", async () => {
  if (state.run || !state.last) return;
  const controller = new AbortController();
  busy({ c: { id: "" }, controller, keep() {} });
  drawFigures();
  try {
    await speculation.measure(state.last, key(), controller.signal);
    report("");
  } catch (e) {
    if (e.name !== "AbortError") report(e.message);
  }
  busy(null);
  draw();
});
addEventListener("resize", drawFigures);

// --- the beginning

settings.loadKey();
const chosen = settings.load(settingsKey, {});
if (chosen.max) $("max").value = chosen.max;
$("sources").checked = chosen.sources === true;
$("panel").hidden = settings.load(panelKey, false) !== true;
$("panel-open").setAttribute("aria-expanded", String(!$("panel").hidden));
speculation.drawLegend();
await store.open();
const old = settings.load(oldKey, null);
if (Array.isArray(old)) {
  await store.put(fromOld(old));
  if (store.unsaved === 0) localStorage.removeItem(oldKey);
}
await readConversations();
await open(state.conversations.find((c) => "#" + c.id === location.hash) || null);
await connection.check();
