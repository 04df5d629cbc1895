// The page: conversations on the left, the text in the middle, what speculation does on the right.
// All text is drawn by text nodes; nothing from the model becomes markup (markdown.js).

import { get, stream, ApiError } from "./api.js";
import { Answer, classes, pack, sources, unpack } from "./answer.js";
import { draw } from "./chart.js";
import { render, renderPlain } from "./markdown.js";

const $ = (id) => document.getElementById(id);
const drawEvery = 80;        // milliseconds between drawings of a streaming answer
const storeKey = "spec.conversations", settingsKey = "spec.settings", secretKey = "spec.key";
const measuredTokens = 128;  // of one run of "Measure speedup"
const measuredPairs = 3;     // runs without and with drafts, taken in turn
const fewTokens = 32;        // a run of fewer is too short for a figure
const titleLength = 60;
const off = "off";           // the choice of drafter that stands for plain decoding

const legend = {
  target: "target model alone", draft: "draft model or head, accepted", lookup: "lookup, accepted", grammar: "grammar, forced",
};

const state = {
  conversations: [], current: null, props: null,
  running: null,             // AbortController of the request under way
  answer: null,              // Answer that the figures on the right show
  last: null,                // path and body of the last request, for the measurement
};

// --- storage

function load(key, fallback) {
  try { return JSON.parse(localStorage.getItem(key)) ?? fallback; } catch { return fallback; }
}

function save() {
  try {
    localStorage.setItem(storeKey, JSON.stringify(state.conversations));
  } catch {
    report("This browser's storage is full: the conversation is not kept. Delete old conversations.");
  }
}

const fields = ["system", "temperature", "top_p", "seed", "max_tokens", "drafter", "schedule", "max"];

function saveSettings() {
  const s = Object.fromEntries(fields.map((f) => [f, $(f).value]));
  s.sources = $("sources").checked;
  try { localStorage.setItem(settingsKey, JSON.stringify(s)); } catch { /* settings are not worth a message */ }
  try { sessionStorage.setItem(secretKey, $("key").value); } catch { /* as above */ }
}

function loadSettings() {
  const s = load(settingsKey, {});
  for (const f of fields) if (s[f] !== undefined) $(f).value = s[f];
  if (s.sources !== undefined) $("sources").checked = s.sources;
  try { $("key").value = sessionStorage.getItem(secretKey) || ""; } catch { /* none */ }
}

// --- messages to the user

function report(message) {
  $("error").textContent = message;
  $("error").hidden = !message;
}

// --- conversations

const chatting = () => !state.props || state.props.has_chat_template !== false;

function newConversation() {
  const empty = state.conversations.find((c) => c.messages.length === 0);
  const c = empty || { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: "", messages: [] };
  if (!empty) state.conversations.unshift(c);
  open(c);
}

function open(c) {
  if (state.running) return;
  state.current = c;
  state.answer = null;
  report("");
  drawConversations();
  drawLog();
  drawFigures();
}

function drawConversations() {
  const list = $("conversations");
  list.replaceChildren();
  for (const c of state.conversations) {
    const li = document.createElement("li");
    const go = button(c.title || "New conversation", () => { open(c); $("prompt").focus(); });
    go.className = "open";
    if (c === state.current) go.setAttribute("aria-current", "true");
    li.append(go);
    if (c.messages.length > 0) {
      const remove = button("×", () => {
        if (state.running) return;
        state.conversations = state.conversations.filter((x) => x !== c);
        save();
        if (c === state.current) newConversation(); else drawConversations();
        $("new").focus();
      });
      remove.setAttribute("aria-label", "Delete conversation " + (c.title || ""));
      li.append(remove);
    }
    list.append(li);
  }
}

function button(text, action) {
  const b = document.createElement("button");
  b.type = "button";
  b.textContent = text;
  b.addEventListener("click", action);
  return b;
}

// --- the text

function drawLog() {
  $("log").replaceChildren(...state.current.messages.map(messageElement));
  if (state.current.messages.length === 0) $("log").append(emptyHint());
  $("again").disabled = !!state.running || !state.current.messages.some((m) => m.role === "assistant");
  scroll(true);
}

// emptyHint is what an empty conversation shows: what to do here, and an example for models that continue text.
function emptyHint() {
  const box = document.createElement("div"), text = document.createElement("p");
  box.className = "empty";
  text.textContent = chatting()
    ? "Write a message below. While the answer comes, its tokens are marked by who proposed them."
    : "This model continues text. Write the beginning of one below; the tokens of the continuation are marked by who proposed them.";
  box.append(text);
  if (!chatting()) box.append(button("Try an example", () => { $("prompt").value = "func (r *Ring) Push(v int) {\n"; $("prompt").focus(); }));
  return box;
}

function messageElement(m) {
  const box = document.createElement("article");
  const title = document.createElement("h2");
  title.textContent = m.role === "user" ? (m.plain ? "Prompt" : "You") : (m.plain ? "Continuation" : "Assistant");
  box.append(title);
  box.className = "message " + m.role + (m.plain ? " plain" : "");
  fill(box, m);
  return box;
}

// fill draws what is below a message's title.
function fill(box, m) {
  while (box.childNodes.length > 1) {
    // The reader's choice to open the reasoning stays while the answer streams.
    if (box.lastChild.nodeName === "DETAILS") m.open = box.lastChild.open;
    box.lastChild.remove();
  }
  if (m.reasoning) {
    const d = document.createElement("details"), summary = document.createElement("summary"), text = document.createElement("div");
    d.open = !!m.open;
    summary.textContent = "Reasoning";
    text.textContent = m.reasoning;
    d.append(summary, text);
    box.append(d);
  }
  const body = document.createElement("div");
  body.className = "body" + ($("sources").checked && m.role === "assistant" ? " marked" : "");
  if (m.role === "user") body.textContent = m.content;
  else (m.plain ? renderPlain : render)(body, m.content, m.who || unpack(m.runs), classes);
  box.append(body);
  if (m.note) {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = m.note;
    box.append(note);
  }
}

// scroll follows the text, unless the reader has scrolled up.
function scroll(always) {
  const log = $("log");
  if (always || log.scrollHeight - log.scrollTop - log.clientHeight < 160) log.scrollTop = log.scrollHeight;
}

// --- figures

function drawFigures() {
  const f = state.answer ? state.answer.figures() : null;
  $("rate").textContent = f && f.rate ? f.rate.toFixed(1) : "–";
  $("acceptance").textContent = f && f.drafted ? `${f.accepted} of ${f.drafted}` : "–";
  $("perpass").textContent = f && f.perPass ? f.perPass.toFixed(2) : "–";
  draw($("chart"), state.answer ? state.answer.rounds : []);
  sources.forEach((s, i) => { $("count-" + s).textContent = state.answer ? state.answer.counts[i] : 0; });
  $("measure").disabled = !state.last || !!state.running || $("drafter").value === off;
}

function drawLegend() {
  $("legend").replaceChildren(...sources.map((s, i) => {
    const li = document.createElement("li"), name = document.createElement("span"), count = document.createElement("span");
    name.textContent = legend[s];
    name.className = classes[i];
    count.className = "count";
    count.id = "count-" + s;
    count.textContent = "0";
    li.append(name, count);
    return li;
  }));
}

// explain says what the chosen drafter and schedule are.
function explain() {
  const s = (state.props && state.props.speculation) || {};
  const drafter = $("drafter").value || s.drafter, schedule = $("schedule").value || s.schedule;
  const lines = [];
  const about = { ...s.about, [off]: (s.about || {}).none };
  if (about[drafter]) lines.push(`${drafter}: ${about[drafter]}.`);
  if (drafter !== off && drafter !== "none" && about[schedule]) lines.push(`${schedule}: ${about[schedule]}.`);
  $("explained").textContent = lines.join(" ");
}

// --- requests

function speculation() {
  if ($("drafter").value === off) return { off: true, trace: true };
  const s = { trace: true };
  if ($("drafter").value) s.drafter = $("drafter").value;
  if ($("schedule").value) s.schedule = $("schedule").value;
  if ($("max").value) s.max = Number($("max").value);
  return s;
}

// request builds the body for the conversation so far. The seed is always sent, so that a measurement can repeat the answer.
function request() {
  const seed = $("seed").value !== "" ? Number($("seed").value) : crypto.getRandomValues(new Uint32Array(1))[0];
  const body = { model: $("model").value || undefined, stream: true, timings_per_token: true, seed, speculation: speculation() };
  for (const f of ["temperature", "top_p", "max_tokens"]) if ($(f).value !== "") body[f] = Number($(f).value);
  const messages = state.current.messages;
  if (!chatting()) return { path: "v1/completions", body: { ...body, prompt: messages.map((m) => m.content).join("") } };
  body.messages = messages.map((m) => ({ role: m.role, content: m.content }));
  if ($("system").value.trim()) body.messages.unshift({ role: "system", content: $("system").value });
  return { path: "v1/chat/completions", body };
}

function busy(controller) {
  state.running = controller;
  $("send").hidden = !!controller;
  $("stop").hidden = !controller;
  $("model").disabled = !!controller;
  $("log").setAttribute("aria-busy", controller ? "true" : "false");
  if (!controller) document.body.dataset.requests = Number(document.body.dataset.requests || 0) + 1; // that ended; tests wait for it
  $("again").disabled = !!controller || !state.current.messages.some((m) => m.role === "assistant");
}

async function send() {
  const text = $("prompt").value;
  if (state.running || text.trim() === "") return;
  const c = state.current;
  c.messages.push({ role: "user", content: text, plain: !chatting() || undefined });
  if (!c.title) c.title = text.trim().slice(0, titleLength);
  $("prompt").value = "";
  drawConversations();
  drawLog();
  if (!(await answer())) {
    // Nothing came: the message goes back to where it can be sent again.
    c.messages.pop();
    if (c.messages.length === 0) c.title = "";
    $("prompt").value = text;
    drawConversations();
    drawLog();
  }
  save();
}

async function again() {
  const messages = state.current.messages;
  if (state.running || messages.length === 0) return;
  const old = messages.at(-1).role === "assistant" ? messages.pop() : null;
  drawLog();
  if (!(await answer()) && old) { messages.push(old); drawLog(); }
  save();
}

// answer asks for the next message and streams it; false if nothing of it came.
async function answer() {
  report("");
  const { path, body } = request();
  const a = new Answer();
  const m = { role: "assistant", content: "", who: a.who, plain: !chatting() || undefined };
  const box = messageElement(m);
  document.querySelectorAll("#log .empty").forEach((e) => e.remove());
  const controller = new AbortController();
  busy(controller);
  state.answer = a;
  $("speedup").textContent = "–";
  $("log").append(box);
  scroll(true);
  const show = () => {
    m.content = a.content;
    m.reasoning = a.reasoning || undefined;
    fill(box, m);
    drawFigures();
    scroll(false);
  };
  let timer = 0;
  try {
    for await (const event of stream(path, body, { key: $("key").value, signal: controller.signal })) {
      a.take(event);
      if (!timer) timer = setTimeout(() => { timer = 0; show(); }, drawEvery);
    }
  } catch (e) {
    if (e.name !== "AbortError") report(e instanceof ApiError ? e.message : "The connection broke: " + e.message);
    else m.note = "Stopped.";
  }
  clearTimeout(timer);
  if (a.finish === "length") m.note = "The answer was cut at the most tokens allowed.";
  state.last = { path, body };
  show();
  busy(null);
  delete m.who;
  delete m.open;
  m.runs = pack(a.who);
  drawFigures();
  if (a.content === "" && a.reasoning === "") { box.remove(); return false; }
  state.current.messages.push(m);
  $("again").disabled = false;
  return true;
}

// measure runs the last request without and with drafts, in turn, and shows the median of the pairs' ratios.
async function measure() {
  if (state.running || !state.last) return;
  const controller = new AbortController();
  busy(controller);
  report("");
  const rates = { plain: [], fast: [] };
  let tokens = 0;
  const run = async (kind, spec) => {
    const a = new Answer();
    const most = Math.min(measuredTokens, state.last.body.max_tokens || measuredTokens);
    const body = { ...state.last.body, max_tokens: most, speculation: { ...spec, trace: true } };
    for await (const event of stream(state.last.path, body, { key: $("key").value, signal: controller.signal })) a.take(event);
    if (!a.timings) return;
    rates[kind].push(a.timings.predicted_per_second);
    tokens = a.timings.predicted_n;
  };
  try {
    for (let i = 1; i <= measuredPairs; i++) {
      // The order changes from pair to pair, so that a machine that warms up or slows down favors neither.
      const pair = [["plain", { off: true }], ["fast", speculation()]];
      if (i % 2 === 0) pair.reverse();
      for (const [k, [kind, spec]] of pair.entries()) {
        $("speedup").textContent = `run ${2 * i - 1 + k} of ${2 * measuredPairs}`;
        await run(kind, spec);
      }
    }
    const pairs = rates.fast.map((fast, i) => ({ fast, plain: rates.plain[i], ratio: fast / rates.plain[i] })).sort((x, y) => x.ratio - y.ratio);
    const ok = pairs.length === measuredPairs && pairs.every((p) => Number.isFinite(p.ratio));
    const median = pairs[Math.floor(pairs.length / 2)]; // its own two rates are told, so that they have the ratio that is shown
    $("speedup").textContent = ok ? `${median.ratio.toFixed(2)}×` : "–";
    $("measure-note").textContent = !ok ? "The answer was too short to measure." :
      `${median.fast.toFixed(1)} against ${median.plain.toFixed(1)} tokens per second: the median of ${measuredPairs} pairs of runs of ${tokens} tokens, which are between ${pairs[0].ratio.toFixed(2)}× and ${pairs.at(-1).ratio.toFixed(2)}×.` +
      (tokens < fewTokens ? " So few tokens give no reliable figure." : "");
  } catch (e) {
    $("speedup").textContent = "–";
    if (e.name !== "AbortError") report(e.message);
  }
  busy(null);
  drawFigures();
}

// --- the server's abilities

function choices(select, values, first) {
  const chosen = select.value || load(settingsKey, {})[select.id] || "";
  select.replaceChildren(...[["", first], ...values.map((v) => [v, v])].map(([value, text]) => {
    const o = document.createElement("option");
    o.value = value;
    o.textContent = text;
    return o;
  }));
  select.value = values.includes(chosen) ? chosen : "";
}

async function readProps() {
  const model = $("model").value;
  state.props = await get("props" + (model ? "?model=" + encodeURIComponent(model) : ""), $("key").value);
  const s = state.props.speculation || { drafters: [], schedules: [] };
  choices($("drafter"), [...(s.drafters || []).filter((d) => d !== off), off], s.drafter ? `default (${s.drafter})` : "default");
  choices($("schedule"), s.schedules || [], s.schedule ? `default (${s.schedule})` : "default");
  $("prompt-label").textContent = chatting() ? "Message" : "Text to continue (this model has no chat template)";
  if (state.current && state.current.messages.length === 0 && !state.running) drawLog();
  explain();
  drawFigures();
}

async function connect() {
  try {
    const models = (await get("v1/models", $("key").value)).data || [];
    $("model").replaceChildren(...models.map((m) => {
      const o = document.createElement("option");
      o.value = o.textContent = m.id;
      return o;
    }));
    $("model").disabled = models.length === 0;
    await readProps();
    report("");
  } catch (e) {
    report(e instanceof ApiError ? e.message : "The server does not answer: " + e.message);
  }
}

// --- events

$("form").addEventListener("submit", (e) => { e.preventDefault(); send(); });
$("prompt").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); send(); }
});
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && state.running) state.running.abort(); });
$("stop").addEventListener("click", () => { if (state.running) state.running.abort(); $("prompt").focus(); });
$("again").addEventListener("click", again);
$("measure").addEventListener("click", measure);
$("new").addEventListener("click", () => { if (!state.running) { newConversation(); $("prompt").focus(); } });
$("menu").addEventListener("click", () => {
  const shown = $("side").classList.toggle("shown");
  $("menu").setAttribute("aria-expanded", String(shown));
});
$("settings-open").addEventListener("click", () => $("settings").showModal());
$("settings").addEventListener("close", () => { saveSettings(); connect(); });
$("model").addEventListener("change", () => readProps().catch((e) => report(e.message)));
$("sources").addEventListener("change", () => { saveSettings(); if (!state.running) drawLog(); });
for (const f of ["drafter", "schedule", "max"]) $(f).addEventListener("change", () => { saveSettings(); explain(); drawFigures(); });
window.addEventListener("resize", drawFigures);

drawLegend();
loadSettings();
state.conversations = load(storeKey, []).filter((c) => c && Array.isArray(c.messages));
newConversation();
connect();
