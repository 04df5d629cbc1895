// Tests of the page's modules without a browser: node --test (with Node.js alone). The document below has what they use, and records every node.
import assert from "node:assert/strict";
import test from "node:test";

class Node {
  constructor(name) { this.nodeName = name.toUpperCase(); this.childNodes = []; this.listeners = {}; }
  append(...nodes) { for (const n of nodes) this.childNodes.push(typeof n === "string" ? document.createTextNode(n) : Object.assign(n, { parent: this })); }
  remove() { this.parent.childNodes = this.parent.childNodes.filter((n) => n !== this); }
  setAttribute() {}
  get lastChild() { return this.childNodes.at(-1); }
  replaceChildren(...nodes) { this.childNodes = nodes; }
  addEventListener(type, f) { this.listeners[type] = f; }
  get children() { return this.childNodes.filter((n) => n.nodeName !== "#TEXT"); }
  get firstChild() { return this.childNodes[0]; }
  set textContent(t) { this.childNodes = t === "" ? [] : [document.createTextNode(t)]; }
  get textContent() { return this.nodeName === "#TEXT" ? this.data : this.childNodes.map((n) => n.textContent).join(""); }
  // html writes the tree down; class and href are the only attributes that the page takes from text.
  html() {
    if (this.nodeName === "#TEXT") return this.data.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const name = this.nodeName.toLowerCase();
    const attributes = (this.className ? ` class="${this.className}"` : "") + (this.href ? ` href="${this.href}"` : "");
    return `<${name}${attributes}>${this.childNodes.map((n) => n.html()).join("")}</${name}>`;
  }
}
globalThis.document = {
  createElement: (name) => new Node(name),
  createTextNode: (data) => Object.assign(new Node("#text"), { data }),
};

const { Growing, render, renderPlain } = await import("../page/markdown.js");
const { Connection, Watch } = await import("../page/connection.js");
const { Answer, pack, unpack } = await import("../page/answer.js");
const { colored, language } = await import("../page/highlight.js");
const { excerpt, find } = await import("../page/list.js");
const { readable } = await import("../page/math.js");
const portable = await import("../page/portable.js");
const { continues, readSchema, readTools, request } = await import("../page/request.js");
const { Store } = await import("../page/store.js");
const tree = await import("../page/tree.js");

function html(text) {
  const root = new Node("root");
  render(root, text);
  return root.childNodes.map((n) => n.html()).join("");
}

test("blocks", () => {
  for (const [text, want] of [
    ["a\nb", "<p>a\nb</p>"],
    ["a  \nb", "<p>a  <br></br>b</p>"],
    ["# A `b` #", "<h3>A <code>b</code></h3>"],
    ["# C# and F# ##\n## C#", "<h3>C# and F#</h3><h4>C#</h4>"],
    ["#no heading", "<p>#no heading</p>"],
    ["- a\n- b\n  - c", "<ul><li>a</li><li><p>b</p><ul><li>c</li></ul></li></ul>"],
    ["3. a\n4. b", "<ol><li>a</li><li>b</li></ol>"],
    ["1. a\n\n2. b", "<ol><li>a</li><li>b</li></ol>"],
    ["> a\n> b", "<blockquote><p>a\nb</p></blockquote>"],
    ["a\n***\nb", "<p>a</p><hr></hr><p>b</p>"],
    ["|a|b|\n|-|-|\n|1|*2*|\nend", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><em>2</em></td></tr></tbody></table><p>end</p>"],
    ["|a|b|c|\n|:-|-:|:-:|\n|1|2|3|too many|", '<table><thead><tr><th>a</th><th class="right">b</th><th class="center">c</th></tr></thead><tbody><tr><td>1</td><td class="right">2</td><td class="center">3</td></tr></tbody></table>'],
    ["$$\n- x_1\n+ *y*\n$$\nend", '<div class="math block">- x₁\n+ *y*</div><p>end</p>'],
    ["\\[a\\]", '<div class="math block">a</div>'],
    ["$$ never closed\n- a", "<p>$$ never closed</p><ul><li>a</li></ul>"],
  ]) assert.equal(html(text), want, text);
  assert.match(html("```go\nx < y\n\n*z*\n```\nend"), /<pre><code>x &lt; y\n\n\*z\*<\/code><\/pre><\/div><p>end<\/p>/);
  assert.match(html("~~~\nnot closed"), /<pre><code>not closed<\/code><\/pre>/);
  assert.match(html("```go\nreturn 1 // x\n```"), /<code><span class="h-k">return<\/span> <span class="h-n">1<\/span> <span class="h-c">\/\/ x<\/span><\/code>/);
});

test("inline", () => {
  for (const [text, want] of [
    ["**a *b* c**", "<strong>a <em>b</em> c</strong>"],
    ["***a*** **b *c*** **d***e*, ___f___", "<strong><em>a</em></strong> <strong>b <em>c</em></strong> <strong>d</strong><em>e</em>, <strong><em>f</em></strong>"],
    ["2 * 3 * 4 and a_b_c", "2 * 3 * 4 and a_b_c"],
    ["a_b and _c_, a__b and __c__", "a_b and <em>c</em>, a__b and <strong>c</strong>"],
    ["``a ` b``", "<code>a ` b</code>"],
    ["`open", "`open"],
    ["\\*a\\* \\q", "*a* \\q"],
    ["~~a~~ ~b~", "<del>a</del> ~b~"],
    ["$a_1*b_2*c$ and *d*", '<span class="math">a₁*b₂*c</span> and <em>d</em>'],
    ["\\(x\\) and \\\\(x", '<span class="math">x</span> and \\(x'],
    ["it costs $5, or $6 and $7$8", "it costs $5, or $6 and $7$8"],
    ["$HOME/a and $PATH/b", "$HOME/a and $PATH/b"],
    ["[a](https://x.org/b)", '<a href="https://x.org/b">a</a>'],
    ["see https://x.org/b.", 'see <a href="https://x.org/b">https://x.org/b</a>.'],
    ["([a](https://x.org/b_(c)))", '(<a href="https://x.org/b_(c)">a</a>)'],
    ["(see https://x.org/b_(c)).", '(see <a href="https://x.org/b_(c)">https://x.org/b_(c)</a>).'],
  ]) assert.equal(html(text), `<p>${want}</p>`, text);
});

test("text of a model becomes neither markup nor a script's address", () => {
  for (const text of [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "[a](data:text/html,x)", "[a]( JaVaScRiPt:alert(1))",
    "![a](javascript:x)", "[a](//evil.example)", "[a](/relative)", "```<b>\n</code></pre><script>\n```", "| <b> |\n|---|\n| <i> |",
  ]) {
    const out = html(text);
    assert.doesNotMatch(out.replaceAll(/<\/?(p|div|span|button|pre|code|table|thead|tbody|tr|th|td)( class="[\w-]*")?>/g, ""), /<|href/, text);
  }
});

test("nothing of a text is lost, and hostile text takes linear time", () => {
  const n = 20000;
  for (const piece of ["*", "**a ", "_", "`", "` `` ", "[", "[a](", "> ", "- ", "|", "~~a ", "# ", "\\", "https://", "1. ", "  ", "***a", "[a](b", "$a ", "$$", "$", "\\(", "\\[", "$$a\n", "{", "$x_{", "[a]((", "https://x(", "***a* ", "# #"]) {
    const text = piece.repeat(n), start = Date.now();
    const root = new Node("root");
    render(root, text);
    assert.ok(Date.now() - start < 10000, `${JSON.stringify(piece)} took ${Date.now() - start} ms`);
    assert.ok(root.textContent.length <= text.length);
  }
});

test("marks follow the characters", () => {
  const text = "a **bc** d", who = [0, 0, 0, 0, 1, 2, 2, 2, 2, 2];
  const root = new Node("root");
  render(root, text, who, ["", "x", "y"]);
  assert.equal(root.childNodes[0].html(), '<p>a <strong><span class="x">b</span><span class="y">c</span></strong><span class="y"> d</span></p>');
  const plain = new Node("root");
  renderPlain(plain, text, who, ["", "x", "y"]);
  assert.equal(plain.textContent, text);
});

test("an answer knows who wrote each character", () => {
  const a = new Answer();
  const tokens = (...list) => ({ tokens: list.map(([text, source]) => ({ text, source })), rounds: [{ n_draft: 3, n_accept: list.length - 1 }] });
  a.take({ choices: [{ delta: { reasoning_content: "hm" } }], speculation: tokens(["<think>", "target"], ["hm", "draft"]) });
  a.take({ choices: [{ delta: { content: "He" } }], speculation: tokens(["</think>", "target"], ["Hello", "lookup"], [" x", "target"]) });
  a.take({ choices: [{ delta: { content: "llo x" }, finish_reason: "stop" }], timings: { predicted_per_second: 5 } });
  assert.equal(a.content, "Hello x");
  assert.equal(a.reasoning, "hm");
  assert.deepEqual(a.who, [2, 2, 2, 2, 2, 0, 0]);
  assert.deepEqual(a.counts, [3, 1, 1, 0]);
  assert.deepEqual(a.figures(), { rate: 5, drafted: 6, accepted: 3, perPass: 2.5 });
  assert.equal(a.finish, "stop");
  assert.deepEqual(unpack(pack(a.who)), a.who);
});

test("a growing text is drawn as the whole one is, and what is finished is not drawn again", () => {
  const text = "# A\n\nb *c*\n- d\n  - e\n\n- f\n\ng|h\n-|-\n1|2\n\n```go\nx := 1\n\ny\n```\n> q\n\n$$\na\n$$\n1. a\n\n\n2. b\n\nend";
  const root = new Node("root"), growing = new Growing(root, [""]);
  let first = null;
  for (let n = 1; n <= text.length; n++) {
    growing.draw(text.slice(0, n));
    assert.equal(root.childNodes.map((c) => c.html()).join(""), html(text.slice(0, n)), JSON.stringify(text.slice(0, n)));
    if (n === 20) first = root.childNodes[0];
  }
  assert.equal(root.childNodes[0], first);
  growing.draw("another");
  assert.equal(root.childNodes.map((c) => c.html()).join(""), "<p>another</p>");
});

test("formulas become readable text, and nothing that is not known is lost", () => {
  for (const [tex, want] of [
    ["E = mc^2", "E = mc²"], ["x_{12} \\leq \\alpha", "x₁₂ ≤α"], ["\\frac{a+1}{b}", "(a+1)/b"], ["\\sqrt{2}", "√2"], ["\\sqrt[3]{xy}", "³√xy"],
    ["\\sum_{i=1}^{n} i", "∑ᵢ₌₁ⁿ i"], ["e^{-x^2}", "e^(-x²)"], ["\\text{if } x", "if x"], ["\\mathbb{R}", "ℝ"], ["\\unknown{x}", "\\unknownx"],
    ["\\begin{pmatrix}1 & 2\\\\3 & 4\\end{pmatrix}", "1 2\n3 4"], ["{{{", ""], ["\\", ""], ["a^", "a^"], ["\\left( x \\right)", "( x )"],
    ["\\constructor{x}", "\\constructorx"], ["\\mathbb{toString}", "toString"],
  ]) assert.equal(readable(tex), want, tex);
  for (const piece of ["{", "^", "\\frac", "_{", "\\sqrt[", "\\begin"]) readable(piece.repeat(1000));
});

test("the colors of code", () => {
  const parts = (text, name) => colored(text, language(name)).map(([a, b, c]) => c[2] + ":" + text.slice(a, b)).join(" ");
  for (const [name, text, want] of [
    ["go", 'for i := 0; i < 10; i++ { s += "a\\"b" } // end', 'k:for n:0 n:10 s:"a\\"b" c:// end'],
    ["python", "def f(x):  # it's\n  return '''a\nb''' + 1", "k:def c:# it's k:return s:'''a\nb''' n:1"],
    ["sql", "SELECT a1 FROM t -- x", "k:SELECT k:FROM c:-- x"],
    ["JavaScript", "const a = `x\n${y}`", "k:const s:`x\n${y}`"],
    ["c", "/* not closed", "c:/* not closed"],
    ["json", '{"a": null}', 's:"a" k:null'],
    ["html", "<a href='x'>don't</a>", "k:<a s:'x' k:</a"],
    ["sh", "echo $#; # c", "k:echo c:# c"],
  ]) assert.equal(parts(text, name), want, text);
  assert.deepEqual(colored("for", language("no such language")), []);
});

const m = (id, parent, created, more = {}) => ({ id, conversation: "c", parent, created, role: "user", content: id, ...more });
const mapOf = (...list) => new Map(list.map((x) => [x.id, x]));

test("a conversation is a tree of messages", () => {
  const all = mapOf(m("a", null, 1), m("b", "a", 2), m("c", "a", 3), m("d", "b", 4), m("e", null, 5));
  const ids = (list) => list.map((x) => x.id).join("");
  assert.equal(ids(tree.path(all, "d")), "abd");
  assert.equal(ids(tree.siblings(all, all.get("c"))), "bc");
  assert.equal(tree.newest(all, null), "e");
  assert.equal(tree.newest(all, "a"), "c");
  assert.equal(tree.newest(all, "b"), "d");
  assert.equal(ids(tree.below(all, all.get("a"))), "abcd");
  assert.deepEqual([tree.leadsTo(all, "a", "d"), tree.leadsTo(all, "c", "d"), tree.leadsTo(all, null, "e")], [true, false, true]);
  const round = mapOf(m("x", "y", 1), m("y", "x", 2)); // of a hostile file
  assert.ok(tree.path(round, "x").length <= 3);
  tree.newest(round, "x");
  assert.equal(tree.below(round, round.get("x")).length, 2);
});

test("what is sent for a conversation", () => {
  const how = { chatting: true, model: "m", seed: 7, speculation: {} };
  const calls = [{ id: "1", name: "f", arguments: "{}" }];
  const list = [m("q", null, 1), m("", "q", 2, { role: "assistant", content: "", state: "lost" }), m("a", "q", 3, { role: "assistant", calls }), m("r", "a", 4, { role: "tool", call: "1", name: "f" })];
  const settings = { system: "s", temperature: "0.5", seed: "3", when_full: "drop", tools: '{"name": "f"}', tool_choice: "required", schema: '{"type": "object"}' };
  assert.deepEqual(request(list, settings, how), { path: "v1/chat/completions", body: {
    model: "m", stream: true, timings_per_token: true, speculation: {}, temperature: 0.5, seed: 7, when_full: "drop",
    messages: [
      { role: "system", content: "s" }, { role: "user", content: "q" },
      { role: "assistant", content: "a", tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }] },
      { role: "tool", tool_call_id: "1", content: "r" },
    ],
    tools: [{ type: "function", function: { name: "f" } }], tool_choice: "required",
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } },
  } });
  const thought = request([m("q", null, 1, { reasoning: "x" }), m("a", "q", 2, { role: "assistant", reasoning: "why" })], {}, { ...how, goOn: true }).body;
  assert.deepEqual(thought.messages.map((x) => x.reasoning_content), [undefined, "why"], "an answer goes on with what it was reasoned");
  const part = m("part", "q", 2, { role: "assistant", state: "lost" });
  const more = request([m("q", null, 1), part], {}, { ...how, goOn: true }).body;
  assert.deepEqual([more.continue_final_message, more.messages.at(-1).content], [true, "part"]);
  assert.deepEqual(request([m("a", null, 1), m("b", "a", 2)], {}, { ...how, chatting: false }).body.prompt, "ab");
  assert.deepEqual(request([m("a", null, 1)], { schema: '{"type": "object"}' }, { ...how, chatting: false }).body.json_schema, { type: "object" });
  assert.equal(continues(part, {}), true);
  assert.equal(continues({ ...part, content: "", reasoning: "so" }, {}), true, "reasoning goes on too");
  assert.equal(continues(part, { schema: "{}" }), false, "a schema holds for a whole answer");
  for (const other of [{ state: "done" }, { state: "cut", full: true }, { content: "" }, { calls }, { role: "user" }]) assert.equal(continues({ ...part, ...other }, {}), false, JSON.stringify(other));
  for (const bad of ["[", "5", "[{}]", '{"description": "x"}']) assert.throws(() => readTools(bad), bad);
  for (const bad of ["{", "[]", "null", "3"]) assert.throws(() => readSchema(bad), bad);
  assert.equal(readTools(" "), null);
});

test("files: JSON and Markdown are read back as they were, and others' messages are read", () => {
  const c = { id: "c", title: "T", created: 1, updated: 2, leaf: "d", settings: { system: "## You\nsys", temperature: "0.5", secret: "x" } };
  const list = [m("a", null, 1, { content: "## You\n\\## Assistant\n# x" }), m("b", "a", 2, { role: "assistant", content: "x\n\ny", state: "done" }), m("d", "a", 3, { role: "assistant", content: "other", state: "streaming", who: [0] })];
  const back = portable.read("x.json", portable.toJSON([c], list));
  const texts = (data) => data.messages.map((x) => [x.role, x.content, x.state]);
  assert.deepEqual(texts(back), [["user", list[0].content, undefined], ["assistant", "x\n\ny", "done"], ["assistant", "other", "lost"]]);
  assert.equal(back.messages[1].parent, back.messages[0].id);
  const deleted = m("gone", null, 1, { conversation: "a deleted one" }); // is still stored, for its undo
  assert.deepEqual(texts(portable.read("x.json", portable.toJSON([c], [...list, deleted]))), texts(back), "a file that can be read");
  assert.notEqual(back.messages[0].id, "a", "read twice it is there twice");
  assert.equal(back.conversations[0].leaf, back.messages[2].id);
  assert.deepEqual(back.conversations[0].settings, { system: "## You\nsys", temperature: "0.5" });

  const text = portable.toMarkdown({ ...c, leaf: "b" }, mapOf(...list)), md = portable.read("x.md", text);
  assert.deepEqual(md.messages.map((x) => [x.role, x.content]), [["user", list[0].content], ["assistant", "x\n\ny"]]);
  assert.deepEqual([md.conversations[0].title, md.conversations[0].settings.system], ["T", "## You\nsys"]);
  const windows = portable.read("x.md", text.replaceAll("\n", "\r\n"));
  assert.deepEqual(windows.messages.map((x) => [x.role, x.content]), md.messages.map((x) => [x.role, x.content]));

  const chat = portable.read("chat.json", '{"schema":1,"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"r"}]}');
  assert.deepEqual(chat.messages.map((x) => x.content), ["q", "a"]);
  assert.deepEqual([chat.conversations[0].settings.system, chat.messages[1].reasoning], ["s", "r"]);
  assert.equal(portable.read("x.json", portable.toJSON([c], [list[1]])).messages[0].parent, null, "without the message before it, it begins the conversation");
  const odd = portable.read("odd.json", JSON.stringify({ title: 5, messages: [
    { role: "user", content: "q" }, { role: "developer", content: "d" }, { role: "assistant", content: "a", reasoning: { effort: "low" }, tool_calls: [] },
  ] }));
  assert.deepEqual([odd.conversations[0].title, odd.messages[1].role, odd.messages[2].reasoning, odd.messages[2].calls], ["q", "system", undefined, undefined]);
  assert.deepEqual(texts(portable.read("x.json", portable.toJSON(odd.conversations, odd.messages))), texts(odd), "what was imported can be exported");
  assert.equal(find("word", odd.conversations, odd.messages).size, 0, "and searched");
  for (const [file, content, what] of [
    ["x.json", '{"messages":[{"role":"toString","content":""}]}', /role toString/], ["x.json", portable.toJSON([c], [list[0], m("a", null, 2)]), /the same id/],
    ["x.json", "{", /x.json cannot be read/], ["x.json", "{}", /neither/], ["x.md", "hello", /## You/], ["x.json", '{"messages":[{"role":"robot","content":""}]}', /role robot/],
    ["x.json", '{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}', /image_url; only text/], ["x.json", portable.toJSON([c], [m("z", null, 1)]).replace('"conversation": "c"', '"conversation": "other"'), /belongs to no/],
    ["x.json", portable.toJSON([c], list).replace('"version": 1', '"version": 2'), /version 2/],
  ]) assert.throws(() => portable.read(file, content), what, content);
  assert.deepEqual(portable.fromOld([{ title: "o", messages: [{ role: "user", content: "q" }] }, { messages: [] }]).messages.map((x) => x.content), ["q"]);
});

// fakeDB is what store.js uses of IndexedDB. A transaction writes all or nothing; full says for which records there is no room.
function fakeDB(full) {
  const data = { conversations: new Map(), messages: new Map() };
  const transaction = () => {
    const t = { error: null }, now = { conversations: new Map(data.conversations), messages: new Map(data.messages) };
    let open = 0;
    const soon = (f) => {
      open++;
      setImmediate(() => {
        open--;
        f();
        if (open > 0) return;
        if (t.error) t.onabort(); else { Object.assign(data, now); t.oncomplete(); }
      });
    };
    const request = (result) => { const r = {}; soon(() => { r.result = result(); r.onsuccess?.(); }); return r; };
    t.objectStore = (name) => {
      const all = (c) => [...now[name].values()].filter((r) => c === undefined || r.conversation === c);
      return {
        put: (v) => request(() => { if (full(v)) t.error = new DOMException("no room", "QuotaExceededError"); else now[name].set(v.id, structuredClone(v)); }),
        get: (id) => request(() => now[name].get(id)),
        getAll: () => request(() => all()),
        delete: (id) => request(() => now[name].delete(id)),
        index: () => ({ getAll: (c) => request(() => all(c)), getAllKeys: (c) => request(() => all(c).map((r) => r.id)) }),
        openCursor: () => {
          const r = {}, list = all();
          const next = () => soon(() => {
            const value = list.shift();
            r.result = value ? { value, continue: next, delete: () => now[name].delete(value.id) } : null;
            r.onsuccess();
          });
          next();
          return r;
        },
      };
    };
    soon(() => {}); // one without requests ends too
    return t;
  };
  return { open: () => { const r = {}; setImmediate(() => { r.result = { transaction }; r.onsuccess(); }); return r; } };
}

test("full storage: what waits in memory is neither lost nor kept for conversations that were deleted", async () => {
  let room = Infinity;
  globalThis.indexedDB = fakeDB((r) => JSON.stringify(r).length > room);
  let state = {};
  const store = new Store((s) => { state = s; }), long = "long ".repeat(100), messages = [m("m", null, 1, { conversation: "d", content: long })];
  await store.open();
  await store.put({ conversations: [{ id: "c", title: "t", updated: 1, settings: {} }] });
  assert.deepEqual([state.where, store.unsaved], ["kept", 0]);

  // A large system message is not written, and the next message's end, for which there is room, does not take its place.
  room = 200;
  await store.change("conversations", "c", { settings: { system: long } });
  assert.deepEqual([state.where, store.unsaved], ["full", 1]);
  await store.change("conversations", "c", { leaf: "x" });
  const [c] = await store.conversations();
  assert.deepEqual([c.leaf, c.title, c.settings.system], ["x", "t", long]);
  room = Infinity;
  await store.retry();
  assert.deepEqual([state.where, (await store.conversations())[0].settings.system], ["kept", long]);

  // A conversation with a large message is deleted to make room: then nothing waits.
  room = 200;
  await store.put({ conversations: [{ id: "d", title: "t", updated: 2, settings: {} }], messages });
  assert.equal(store.unsaved, 2);
  await store.change("conversations", "d", { deleted: 1 });
  assert.deepEqual((await store.conversations()).map((x) => x.id), ["c"]);
  await store.retry();
  assert.deepEqual([state.where, store.unsaved, (await store.allMessages()).length], ["kept", 0, 0]);
});

test("a database that the browser has closed is opened again; where it cannot be, what is new stays in memory", async () => {
  const data = fakeDB(() => false), opened = [];
  let newer = false, state = {};
  globalThis.indexedDB = { open: () => {
    const r = {}, inner = data.open();
    inner.onsuccess = () => {
      if (newer) { r.error = new DOMException("newer", "VersionError"); r.onerror(); return; }
      const db = { closed: false, close() { db.closed = true; }, transaction() { if (db.closed) throw new DOMException("closed", "InvalidStateError"); return inner.result.transaction(); } };
      opened.push(db);
      r.result = db;
      r.onsuccess();
    };
    return r;
  } };
  const store = new Store((s) => { state = s; }), ids = async () => (await store.conversations()).map((c) => c.id);
  await store.open();
  await store.put({ conversations: [{ id: "a", updated: 1 }] });
  opened.at(-1).close();
  assert.deepEqual([await Promise.all([ids(), ids()]), opened.length], [[["a"], ["a"]], 2]);
  opened.at(-1).close();
  await store.put({ conversations: [{ id: "b", updated: 2 }] });
  opened.at(-1).close();
  await store.change("conversations", "a", { title: "t" });
  assert.deepEqual([(await store.conversations()).map((c) => c.title), state.where, store.unsaved], [[undefined, "t"], "kept", 0]);

  // Another tab has a newer page: the store is its own from then on.
  newer = true;
  opened.at(-1).onversionchange();
  assert.deepEqual([await ids(), state.where], [[], "memory"]);
  await store.put({ conversations: [{ id: "c", updated: 3 }] });
  assert.deepEqual([await ids(), state.where, store.unsaved, state.error.name], [["c"], "memory", 1, "VersionError"]);
});

test("the search finds titles, system messages and texts", () => {
  const list = [{ id: "1", title: "Needle" }, { id: "2", title: "b", settings: { system: "a needle" } }, { id: "3", title: "c" }, { id: "4", title: "d" }];
  const found = find("needle", list, [m("x".repeat(50) + " NEEDLE\nhere", null, 1, { conversation: "3" }), m("hay", null, 1, { conversation: "4" })]);
  assert.deepEqual([...found.keys()], ["1", "2", "3"]);
  assert.match(found.get("3"), /^…x+ NEEDLE here$/);
  assert.equal(excerpt("abc", "d"), "");
});

test("an answer collects the calls of tools", () => {
  const a = new Answer();
  a.take({ choices: [{ delta: { tool_calls: [{ index: 0, id: "1", function: { name: "f", arguments: "" } }] } }] });
  a.take({ choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] } }] });
  a.take({ choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: "1}" } }, { index: 1, id: "2", function: { name: "g", arguments: "{}" } }] } }] });
  assert.deepEqual(a.calls, [{ id: "1", name: "f", arguments: '{"a":1}' }, { id: "2", name: "g", arguments: "{}" }]);
  a.take({ choices: [{ delta: { tool_calls: [{ index: 2, id: "3", function: { name: "h", arguments: "" } }] } }] });
  assert.equal(a.wholeCalls().length, 2, "a call that is cut off is none");
  a.take({ choices: [{ delta: {}, finish_reason: "tool_calls" }] });
  assert.equal(a.wholeCalls().length, 3, "one without arguments is");
});

// A laptop that slept: no event says so, only the time between two looks at the stream.
test("a stream that did not survive a sleep is ended, one that is only slow is not", async (t) => {
  let now = 0, up = true;
  t.mock.method(Date, "now", () => now);
  t.mock.timers.enable({ apis: ["setInterval"] });
  document.addEventListener = document.removeEventListener = () => {};
  const begin = () => {
    const x = { why: "" };
    x.watch = new Watch({ check: async () => up }, (e) => { x.why ||= e.message; });
    // look is a look at the stream, so many milliseconds after the last one.
    x.look = async (ms) => { now += ms; t.mock.timers.tick(1000); await new Promise(setImmediate); };
    return x;
  };
  const run = async (x, looks) => { for (const ms of looks) await x.look(ms); x.watch.end(); return x.why; };
  const seconds = (n) => new Array(n).fill(1000);
  assert.equal(await run(begin(), seconds(600)), "", "a prompt that is read for ten minutes");
  assert.equal(await run(begin(), [1000, 60_000, 60_000, ...seconds(9)]), "", "the slow timers of a hidden tab");
  assert.match(await run(begin(), [1000, 3_600_000, ...seconds(9)]), /did not survive the sleep/);
  const alive = begin();
  await alive.look(3_600_000);
  alive.watch.alive();
  assert.equal(await run(alive, seconds(9)), "", "a stream that goes on after the sleep");
  up = false;
  assert.match(await run(begin(), seconds(9)), /no longer answers/);
});

// Browsers have six connections to a server of HTTP/1.1: behind six silent streams a check waits in the browser.
test("streams that hold all connections are no sign that the server is gone", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  document.addEventListener = document.removeEventListener = globalThis.addEventListener = () => {};
  const fetched = globalThis.fetch;
  t.after(() => { globalThis.fetch = fetched; });
  let error = null, others = 0, state = "";
  globalThis.fetch = async () => { if (error) throw error; return { ok: true, json: async () => ({}) }; };
  const connection = new Connection((s) => { state = s; }, () => {}, async () => others), late = new DOMException("late", "TimeoutError");
  assert.equal(await connection.check(), true);
  error = late;
  const watches = Array.from({ length: 6 }, () => new Watch(connection, () => {}));
  assert.deepEqual([await connection.check(), state], [true, "up"], "six streams of this tab");
  watches.pop().end();
  others = 6;
  assert.deepEqual([await connection.check(), state], [true, "up"], "six streams of several tabs");
  error = new TypeError("refused");
  assert.deepEqual([await connection.check(), state], [false, "down"], "a server that refuses");
  error = late;
  assert.deepEqual([await connection.check(), state], [false, "down"], "it is down until it answers");
  error = null;
  await connection.check();
  [error, others] = [late, 0];
  assert.deepEqual([await connection.check(), state], [false, "down"], "five streams");
  for (const w of watches) w.end();
});
