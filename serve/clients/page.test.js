// Tests of the page's modules without a browser: node --test (with Node.js alone). The document below has what they use, and records every node.
import assert from "node:assert/strict";
import test from "node:test";

class Node {
  constructor(name) { this.nodeName = name.toUpperCase(); this.childNodes = []; this.listeners = {}; }
  append(...nodes) { for (const n of nodes) this.childNodes.push(n); }
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

const { render, renderPlain } = await import("../page/markdown.js");
const { Answer, pack, unpack } = await import("../page/answer.js");

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
    ["#no heading", "<p>#no heading</p>"],
    ["- a\n- b\n  - c", "<ul><li>a</li><li><p>b</p><ul><li>c</li></ul></li></ul>"],
    ["3. a\n4. b", "<ol><li>a</li><li>b</li></ol>"],
    ["1. a\n\n2. b", "<ol><li>a</li><li>b</li></ol>"],
    ["> a\n> b", "<blockquote><p>a\nb</p></blockquote>"],
    ["a\n***\nb", "<p>a</p><hr></hr><p>b</p>"],
    ["|a|b|\n|-|-|\n|1|*2*|\nend", "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><em>2</em></td></tr></tbody></table><p>end</p>"],
  ]) assert.equal(html(text), want, text);
  assert.match(html("```go\nx < y\n\n*z*\n```\nend"), /<pre><code>x &lt; y\n\n\*z\*<\/code><\/pre><\/div><p>end<\/p>/);
  assert.match(html("~~~\nnot closed"), /<pre><code>not closed<\/code><\/pre>/);
});

test("inline", () => {
  for (const [text, want] of [
    ["**a *b* c**", "<strong>a <em>b</em> c</strong>"],
    ["2 * 3 * 4 and a_b_c", "2 * 3 * 4 and a_b_c"],
    ["``a ` b``", "<code>a ` b</code>"],
    ["`open", "`open"],
    ["\\*a\\* \\q", "*a* \\q"],
    ["~~a~~ ~b~", "<del>a</del> ~b~"],
    ["[a](https://x.org/b)", '<a href="https://x.org/b">a</a>'],
    ["see https://x.org/b.", 'see <a href="https://x.org/b">https://x.org/b</a>.'],
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
  for (const piece of ["*", "**a ", "_", "`", "` `` ", "[", "[a](", "> ", "- ", "|", "~~a ", "# ", "\\", "https://", "1. ", "  ", "***a", "[a](b"]) {
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
