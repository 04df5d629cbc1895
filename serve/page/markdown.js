// Markdown to DOM nodes. The text comes from a model and is not trusted: nodes are made with createElement and
// createTextNode only, links only to http and https, and no images. What is not understood stays as it is written.
//
// Every character keeps its offset in the source, so that it can be marked with who wrote it. Formulas alone do not.

import { copy, button } from "./dom.js";
import { colored, language } from "./highlight.js";
import { formula, readable } from "./math.js";

const maxDepth = 6; // nested quotes, lists and emphasis; deeper ones are drawn as text
const longestAddress = 2000; // characters of a link's address

const fence = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const heading = /^ {0,3}(#{1,6})(?:[ \t]+|$)/;
const rule = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const quote = /^ {0,3}> ?/;
const item = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const openFormula = /^ {0,3}(\$\$|\\\[)/;
const delimiters = /^[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

/**
 * Appends the Markdown text to an element.
 * @param {Node} into
 * @param {string} text
 * @param {Uint8Array} [who] for every UTF-16 unit of text, an index into classes
 * @param {string[]} [classes] class names of those indices; "" is no mark
 */
export function render(into, text, who, classes) {
  new Renderer(text, who, classes).blocks(into, split(text, 0, text.length), 0);
}

/**
 * A text that grows: what is drawn of it stays, but for its last two blocks, which more text may change (a line and the
 * beginning of a list become a table).
 */
export class Growing {
  /** @param {Node} into an element of which this is the only content */
  constructor(into, classes) {
    this.into = into;
    this.classes = classes;
    this.text = "";
    this.blocks = []; // of the last two: where their text and their nodes begin
  }

  /** Draws the text, which begins with the text of the call before, or is another one. */
  draw(text, who) {
    if (!text.startsWith(this.text)) this.blocks = [];
    this.text = text;
    const [from = { offset: 0, nodes: 0 }] = this.blocks;
    while (this.into.childNodes.length > from.nodes) this.into.lastChild.remove();
    this.blocks = [];
    const r = new Renderer(text, who, this.classes);
    r.started = (line) => { this.blocks = [...this.blocks.slice(-1), { offset: line.start, nodes: this.into.childNodes.length }]; };
    r.blocks(this.into, split(text, from.offset, text.length), 0);
  }
}

/** Appends the text as it is, marked in the same way. */
export function renderPlain(into, text, who, classes) {
  const r = new Renderer(text, who, classes);
  r.emit(into, r.piece([{ start: 0, end: text.length }]), 0, text.length);
}

// split cuts [start, end) of the text into lines without their line feeds.
function split(text, start, end) {
  const lines = [];
  while (start < end) {
    let stop = text.indexOf("\n", start);
    if (stop < 0 || stop > end) stop = end;
    lines.push({ start, end: stop });
    start = stop + 1;
  }
  return lines;
}

class Renderer {
  constructor(source, who, classes) {
    this.source = source;
    this.who = who;
    this.classes = classes || [""];
  }

  line(l) { return this.source.slice(l.start, l.end); }

  // piece joins ranges of the source by line feeds: the text, and the offset of each of its characters.
  piece(ranges) {
    let text = "";
    const at = [];
    ranges.forEach((r, i) => {
      if (i > 0) { text += "\n"; at.push(ranges[i - 1].end); }
      text += this.source.slice(r.start, r.end);
      for (let k = r.start; k < r.end; k++) at.push(k);
    });
    return { text, at };
  }

  // emit appends p.text[from:to], one span for each run of characters with the same mark.
  emit(into, p, from, to) {
    while (from < to) {
      const mark = this.mark(p.at[from]);
      let end = from + 1;
      while (end < to && this.mark(p.at[end]) === mark) end++;
      const node = document.createTextNode(p.text.slice(from, end));
      if (mark) {
        const span = document.createElement("span");
        span.className = mark;
        span.append(node);
        into.append(span);
      } else {
        into.append(node);
      }
      from = end;
    }
  }

  mark(offset) { return this.who && offset < this.who.length ? this.classes[this.who[offset]] || "" : ""; }

  blocks(into, lines, depth) {
    for (let i = 0; i < lines.length;) {
      const text = this.line(lines[i]);
      let m;
      if (text.trim() === "") { i++; continue; }
      if (depth === 0 && this.started) this.started(lines[i]);
      if ((m = fence.exec(text))) i = this.code(into, lines, i, m);
      else if ((m = heading.exec(text))) i = this.heading(into, lines, i, m);
      else if (openFormula.test(text) && (m = this.formulaEnd(lines, i))) i = this.formula(into, lines, i, m);
      else if (rule.test(text)) { into.append(document.createElement("hr")); i++; }
      else if (depth < maxDepth && quote.test(text)) i = this.quote(into, lines, i, depth);
      else if (depth < maxDepth && (m = item.exec(text))) i = this.list(into, lines, i, m, depth);
      else if (i + 1 < lines.length && text.includes("|") && this.line(lines[i + 1]).includes("|") && delimiters.test(this.line(lines[i + 1]))) i = this.table(into, lines, i);
      else i = this.paragraph(into, lines, i, depth);
    }
  }

  // A fence that is not closed yet runs to the end: the text may still be streaming.
  code(into, lines, i, m) {
    const indent = m[0].indexOf(m[1]);
    const close = new RegExp("^ {0,3}" + m[1][0] + "{" + m[1].length + ",}[ \\t]*$");
    const body = [];
    let k = i + 1;
    while (k < lines.length && !close.test(this.line(lines[k]))) {
      let { start, end } = lines[k];
      for (let s = 0; s < indent && start < end && this.source[start] === " "; s++) start++;
      body.push({ start, end });
      k++;
    }
    const name = m[2].trim().split(/\s/)[0];
    const p = this.piece(body);
    const box = document.createElement("div");
    const head = document.createElement("div");
    head.className = "codehead";
    const label = document.createElement("span");
    label.textContent = name;
    const copying = button("Copy", async () => { copying.textContent = (await copy(p.text)) ? "Copied" : "Not allowed"; }, { className: "copy" });
    copying.setAttribute("aria-label", "Copy code");
    head.append(label, copying);
    const pre = document.createElement("pre");
    pre.tabIndex = 0;
    const inner = document.createElement("code");
    let at = 0;
    for (const [from, to, color] of colored(p.text, language(name))) {
      this.emit(inner, p, at, from);
      const part = document.createElement("span");
      part.className = color;
      this.emit(part, p, from, to);
      inner.append(part);
      at = to;
    }
    this.emit(inner, p, at, p.text.length);
    pre.append(inner);
    box.append(head, pre);
    into.append(box);
    return k + 1;
  }

  // formulaEnd is the line in which a formula that begins with line i ends, if it does and nothing stands behind it.
  formulaEnd(lines, i) {
    const start = lines[i].start + this.line(lines[i]).search(/\S/);
    const f = formula(this.source, start, lines.at(-1).end);
    if (!f) return null;
    const k = lines.findIndex((l, n) => n >= i && f.end <= l.end);
    return k >= 0 && this.source.slice(f.end, lines[k].end).trim() === "" ? { f, k } : null;
  }

  formula(into, lines, i, { f, k }) {
    into.append(drawFormula(this.source, f));
    return k + 1;
  }

  // Headings of an answer stand below the message's own heading, which is level 2.
  heading(into, lines, i, m) {
    const h = document.createElement("h" + Math.min(6, m[1].length + 2));
    let { start, end } = lines[i];
    start += m[0].length;
    const blank = (k) => " \t".includes(this.source[k]);
    while (end > start && blank(end - 1)) end--;
    // A closing mark has a space before it: that of "C#" is text.
    let close = end;
    while (close > start && this.source[close - 1] === "#") close--;
    if (close === start || blank(close - 1)) end = close;
    while (end > start && blank(end - 1)) end--;
    this.inline(h, this.piece([{ start, end }]));
    into.append(h);
    return i + 1;
  }

  quote(into, lines, i, depth) {
    const inner = [];
    let k = i;
    for (; k < lines.length; k++) {
      const text = this.line(lines[k]);
      const m = quote.exec(text);
      if (!m) break;
      inner.push({ start: lines[k].start + m[0].length, end: lines[k].end });
    }
    const q = document.createElement("blockquote");
    this.blocks(q, inner, depth + 1);
    into.append(q);
    return k;
  }

  list(into, lines, i, first, depth) {
    const ordered = /\d/.test(first[2]);
    const list = document.createElement(ordered ? "ol" : "ul");
    if (ordered) list.start = parseInt(first[2], 10);
    while (i < lines.length) {
      const m = item.exec(this.line(lines[i]));
      if (!m || /\d/.test(m[2]) !== ordered || rule.test(this.line(lines[i]))) break;
      const width = m[0].length > m[1].length + m[2].length + 4 ? m[1].length + m[2].length + 1 : m[0].length;
      const inner = [{ start: Math.min(lines[i].start + width, lines[i].end), end: lines[i].end }];
      for (i++; i < lines.length; i++) {
        const text = this.line(lines[i]);
        const indent = text.length - text.trimStart().length;
        if (text.trim() === "") {
          // A blank line belongs to the item if an indented line follows.
          const next = i + 1 < lines.length ? this.line(lines[i + 1]) : "";
          if (next.trim() === "" || next.length - next.trimStart().length < width) break;
          inner.push(lines[i]);
        } else if (indent >= width) inner.push({ start: lines[i].start + width, end: lines[i].end });
        else if (item.test(text) || fence.test(text) || heading.test(text) || quote.test(text)) break;
        else inner.push(lines[i]);
      }
      const li = document.createElement("li");
      this.blocks(li, inner, depth + 1);
      // An item of one paragraph is drawn without the paragraph's margins.
      if (li.children.length === 1 && li.firstChild.nodeName === "P") li.replaceChildren(...li.firstChild.childNodes);
      list.append(li);
      let next = i;
      while (next < lines.length && this.line(lines[next]).trim() === "") next++;
      if (next < lines.length && item.test(this.line(lines[next]))) i = next;
    }
    into.append(list);
    return i;
  }

  table(into, lines, i) {
    const table = document.createElement("table");
    const sides = this.cells(lines[i + 1]).map((c) => {
      const d = this.source.slice(c.start, c.end);
      return d.endsWith(":") ? (d.startsWith(":") ? "center" : "right") : "";
    });
    const row = (line, cell) => {
      const tr = document.createElement("tr");
      this.cells(line).slice(0, sides.length).forEach((range, n) => {
        const c = document.createElement(cell);
        if (sides[n]) c.className = sides[n];
        this.inline(c, this.piece([range]));
        tr.append(c);
      });
      return tr;
    };
    const head = document.createElement("thead");
    head.append(row(lines[i], "th"));
    const body = document.createElement("tbody");
    let k = i + 2;
    for (; k < lines.length && this.line(lines[k]).includes("|"); k++) body.append(row(lines[k], "td"));
    table.append(head, body);
    into.append(table);
    return k;
  }

  // cells are the ranges between the bars of a line.
  cells(line) {
    let { start, end } = line;
    const blank = (k) => " \t".includes(this.source[k]);
    while (start < end && blank(start)) start++;
    while (end > start && blank(end - 1)) end--;
    if (this.source[start] === "|") start++;
    if (end > start && this.source[end - 1] === "|" && this.source[end - 2] !== "\\") end--;
    const out = [];
    for (let k = start; k <= end; k++) {
      if (k < end && (this.source[k] !== "|" || this.source[k - 1] === "\\")) continue;
      let a = start, b = k;
      while (a < b && blank(a)) a++;
      while (b > a && blank(b - 1)) b--;
      out.push({ start: a, end: b });
      start = k + 1;
    }
    return out;
  }

  paragraph(into, lines, i, depth) {
    const ranges = [];
    for (let first = true; i < lines.length; first = false, i++) {
      const text = this.line(lines[i]);
      if (text.trim() === "") break;
      if (!first && (fence.test(text) || heading.test(text) || rule.test(text) || (depth < maxDepth && (quote.test(text) || item.test(text))))) break;
      ranges.push(lines[i]);
    }
    const p = document.createElement("p");
    this.inline(p, this.piece(ranges));
    into.append(p);
    return i;
  }

  inline(into, p) { this.span(into, p, 0, p.text.length, 0); }

  // span draws p.text[from:to]. missing remembers delimiters without a closing one, so that the search stays linear.
  span(into, p, from, to, depth) {
    const { text } = p;
    const missing = new Set();
    let plain = from;
    const flush = (end) => { this.emit(into, p, plain, end); };
    const wrap = (name, a, b, next, k) => {
      flush(k);
      const e = document.createElement(name);
      if (name === "code") this.emit(e, p, a, b); else this.span(e, p, a, b, depth + 1);
      into.append(e);
      plain = next;
      return next;
    };
    for (let k = from; k < to;) {
      const c = text[k];
      const f = c === "$" || c === "\\" ? formula(text, k, to) : null;
      if (f) {
        flush(k);
        into.append(drawFormula(text, f));
        k = plain = f.end;
        continue;
      }
      if (c === "\\" && k + 1 < to && /[!-/:-@[-`{-~]/.test(text[k + 1])) {
        flush(k);
        plain = k + 1;
        k += 2;
      } else if (c === "`") {
        let n = 1;
        while (text[k + n] === "`" && k + n < to) n++;
        const end = missing.has("`" + n) ? -1 : closingRun(text, k + n, to, n);
        if (end < 0) { missing.add("`" + n); k += n; } else k = wrap("code", k + n, end, end + n, k);
      } else if ("*_~".includes(c)) {
        const mark = k + 1 < to && text[k + 1] === c ? c + c : c;
        const n = mark.length;
        const word = c === "_" && k > from && /\w/.test(text[k - 1]);
        const opens = mark !== "~" && !word && depth < maxDepth && !/\s/.test(text[k + n] || " ");
        const end = opens && !missing.has(mark) ? closing(text, k + n, to, mark) : -1;
        if (end < 0) {
          if (opens) missing.add(mark);
          k += n;
        } else k = wrap(mark === "~~" ? "del" : n === 2 ? "strong" : "em", k + n, end, end + n, k);
      } else if (c === "[") {
        const link = missing.has("[") || depth >= maxDepth ? null : this.link(text, k, to);
        if (!link) { if (text.indexOf("](", k) < 0) missing.add("["); k++; continue; }
        flush(k);
        const a = anchor(link.url);
        this.span(a, p, k + 1, link.label, maxDepth);
        into.append(a);
        k = plain = link.end;
      } else if (c === "h" && (k === from || !/\w/.test(text[k - 1])) && /^https?:\/\//.test(text.slice(k, k + 8))) {
        let end = k;
        for (let open = 0; end < to && !/[\s<>"'`\[\]]/.test(text[end]); end++) {
          if (text[end] === "(") open++;
          else if (text[end] === ")" && open-- === 0) break; // of what stands around the address
        }
        while (/[.,:;!?*_(]/.test(text[end - 1])) end--;
        flush(k);
        const a = anchor(text.slice(k, end));
        this.emit(a, p, k, end);
        into.append(a);
        k = plain = end;
      } else if (c === "\n" && k >= from + 2 && text[k - 1] === " " && text[k - 2] === " ") {
        flush(k);
        into.append(document.createElement("br"));
        plain = ++k;
      } else k++;
    }
    flush(to);
  }

  // link reads [label](url) at text[k]; only absolute http and https addresses are links.
  link(text, k, to) {
    const label = text.indexOf("](", k);
    if (label < 0 || label >= to || text.slice(k + 1, label).includes("[")) return null;
    const end = closingParenthesis(text, label + 2, Math.min(to, label + longestAddress));
    if (end < 0) return null;
    const url = text.slice(label + 2, end).trim();
    return /^https?:\/\/[^\s]+$/i.test(url) ? { label, url, end: end + 1 } : null;
  }
}

function drawFormula(text, f) {
  const e = document.createElement(f.block ? "div" : "span");
  e.className = f.block ? "math block" : "math";
  e.title = text.slice(f.from, f.until).trim();
  e.textContent = readable(e.title);
  return e;
}

function anchor(url) {
  const a = document.createElement("a");
  a.href = url;
  a.target = "_blank";
  a.rel = "noopener noreferrer nofollow";
  return a;
}

// closingParenthesis is the place of the one that ends an address: those within the address come in pairs.
function closingParenthesis(text, from, to) {
  for (let k = from, open = 0; k < to; k++) {
    if (text[k] === "(") open++;
    else if (text[k] === ")" && open-- === 0) return k;
  }
  return -1;
}

// closing finds the mark that ends an emphasis: after something that is not a space, and not part of a longer run.
function closing(text, from, to, mark) {
  for (let k = text.indexOf(mark, from + 1); k >= 0 && k + mark.length <= to; k = text.indexOf(mark, k + 1)) {
    if (/\s/.test(text[k - 1]) || text[k - 1] === "\\") continue;
    if (mark.length === 1 && (text[k - 1] === mark || (k + 1 < to && text[k + 1] === mark))) continue;
    if (mark[0] === "_" && k + mark.length < to && /\w/.test(text[k + mark.length])) continue;
    // Of three the first one ends an emphasis within, where one is open: ***a***, **a *b***.
    const three = mark.length === 2 && k + 3 <= to && text[k + 2] === mark[0] && text[k + 3] !== mark[0];
    return three && count(text, from, k, mark[0]) % 2 === 1 ? k + 1 : k;
  }
  return -1;
}

// count is how often a character stands in text[from:to].
function count(text, from, to, c) {
  let n = 0;
  for (let k = from; k < to; k++) if (text[k] === c) n++;
  return n;
}

// closingRun finds a run of exactly n backticks.
function closingRun(text, from, to, n) {
  for (let k = text.indexOf("`", from); k >= 0 && k < to;) {
    let run = 1;
    while (text[k + run] === "`") run++;
    if (run === n) return k;
    k = text.indexOf("`", k + run);
  }
  return -1;
}
