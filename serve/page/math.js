// Formulas as text. What a model writes in TeX becomes readable Unicode: letters, operators, fractions with a slash, raised
// and lowered digits. A command that is not known stays as it is written, so nothing is lost.

const symbols = Object.fromEntries(`
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ
upsilon υ phi φ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω
times × cdot · div ÷ pm ± mp ∓ ast ∗ star ⋆ circ ∘ bullet • oplus ⊕ otimes ⊗ leq ≤ le ≤ geq ≥ ge ≥ neq ≠ ne ≠ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅
propto ∝ ll ≪ gg ≫ in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ supset ⊃ supseteq ⊇ cup ∪ cap ∩ setminus ∖ emptyset ∅ forall ∀ exists ∃ nexists ∄ neg ¬ lnot ¬
land ∧ wedge ∧ lor ∨ vee ∨ to → rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⇒ iff ⇔ mapsto ↦
sum ∑ prod ∏ int ∫ iint ∬ oint ∮ partial ∂ nabla ∇ infty ∞ dots … ldots … cdots ⋯ vdots ⋮ ddots ⋱ prime ′ angle ∠ perp ⊥ parallel ∥ mid | vert | Vert ‖
lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ langle ⟨ rangle ⟩ lbrace { rbrace } hbar ℏ ell ℓ Re ℜ Im ℑ aleph ℵ therefore ∴ because ∵ top ⊤ bot ⊥ vdash ⊢ models ⊨
`.trim().split(/\s+/).reduce((pairs, w, i) => { if (i % 2) pairs.at(-1).push(w); else pairs.push([w]); return pairs; }, []));

const blackboard = { R: "ℝ", N: "ℕ", Z: "ℤ", Q: "ℚ", C: "ℂ", P: "ℙ", E: "𝔼" };
const over = { hat: "\u0302", bar: "\u0304", vec: "\u20d7", dot: "\u0307", ddot: "\u0308", tilde: "\u0303", overline: "\u0304", widehat: "\u0302" };
const plainArgument = new Set(["text", "textbf", "textit", "mathrm", "mathbf", "mathit", "mathcal", "mathsf", "operatorname", "boldsymbol", "boxed", "mbox"]);
const spaces = { ",": " ", ";": " ", ":": " ", " ": " ", "!": "", quad: "  ", qquad: "    " };
const noSign = new Set(["left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "textstyle", "limits", "nolimits"]);

const raised = pair("0123456789+-=()niabcdefghjklmoprstuvwxyzT", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱᵃᵇᶜᵈᵉᶠᵍʰʲᵏˡᵐᵒᵖʳˢᵗᵘᵛʷˣʸᶻᵀ");
const lowered = pair("0123456789+-=()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ");
const deepest = 20; // groups within groups; deeper ones stay as they are
const has = Object.hasOwn; // a name of every object, such as constructor, is none of a table's

function pair(from, to) {
  const out = [...to];
  return new Map([...from].map((c, i) => [c, out[i]]));
}

// script writes an exponent or index with raised or lowered characters where all of them have such a form.
function script(text, sign, forms) {
  const chars = [...text];
  if (chars.length > 0 && chars.every((c) => forms.has(c))) return chars.map((c) => forms.get(c)).join("");
  return sign + (chars.length > 1 ? "(" + text + ")" : text);
}

// whole puts parentheses around what is not one word.
const whole = (text) => (/^[\p{L}\p{N}.′]*$/u.test(text) ? text : "(" + text + ")");

class Reader {
  constructor(tex) { this.tex = tex; this.at = 0; }

  // group reads up to a closing brace, or one unit where there is no brace.
  argument(depth) {
    while (this.tex[this.at] === " ") this.at++;
    if (this.tex[this.at] !== "{") return this.unit(depth + 1);
    this.at++;
    return this.until("}", depth + 1);
  }

  // raw reads an argument as it is written.
  raw() {
    if (this.tex[this.at] !== "{") return this.tex[this.at++] || "";
    let level = 0;
    const start = this.at;
    for (; this.at < this.tex.length; this.at++) {
      if (this.tex[this.at] === "{") level++;
      if (this.tex[this.at] === "}" && --level === 0) break;
    }
    return this.tex.slice(start + 1, this.at++);
  }

  until(end, depth) {
    let out = "";
    while (this.at < this.tex.length) {
      if (this.tex[this.at] === end) { this.at++; return out; }
      out += this.unit(depth);
    }
    return out;
  }

  unit(depth) {
    const c = this.tex[this.at++];
    if (c === undefined) return "";
    if (depth > deepest) return c;
    if (c === "{") return this.until("}", depth + 1);
    if (c === "}") return "";
    if (c === "^") return script(this.argument(depth), "^", raised);
    if (c === "_") return script(this.argument(depth), "_", lowered);
    if (c === "~") return " ";
    if (c === "&") return "";
    return c === "\\" ? this.command(depth) : c;
  }

  command(depth) {
    const m = /^([A-Za-z]+)\*? ?/.exec(this.tex.slice(this.at, this.at + 40));
    if (!m) {
      const c = this.tex[this.at++] ?? "";
      if (c === "\\") return "\n";
      return has(spaces, c) ? spaces[c] : c;
    }
    const name = m[1];
    this.at += m[0].length;
    if (has(symbols, name)) return symbols[name] + (m[0].endsWith(" ") && /[A-Za-z]/.test(this.tex[this.at] || "") ? " " : "");
    if (has(spaces, name)) return spaces[name];
    if (noSign.has(name)) { if (this.tex[this.at] === ".") this.at++; return ""; }
    if (name === "frac" || name === "dfrac" || name === "tfrac") {
      const above = this.argument(depth);
      return whole(above) + "/" + whole(this.argument(depth));
    }
    if (name === "sqrt") {
      let root = "";
      if (this.tex[this.at] === "[") { this.at++; root = this.until("]", depth + 1); }
      return (root ? script(root, "", raised) : "") + "√" + whole(this.argument(depth));
    }
    if (name === "binom") { const n = this.argument(depth); return "C(" + n + ", " + this.argument(depth) + ")"; }
    if (name === "mathbb") { const s = this.raw(); return has(blackboard, s) ? blackboard[s] : s; }
    if (has(over, name)) return this.argument(depth) + over[name];
    if (plainArgument.has(name)) return name.startsWith("text") || name === "mbox" ? this.raw() : this.argument(depth);
    if (name === "begin" || name === "end") {
      const what = this.raw();
      if (what === "array" || what === "tabular") this.raw();
      return "";
    }
    return (/^(log|ln|exp|sin|cos|tan|min|max|lim|arg|det|gcd|sup|inf|mod|Pr)/.test(name) ? name : "\\" + name) + (m[0].endsWith(" ") ? " " : "");
  }
}

/** A formula in TeX as readable text. */
export function readable(tex) {
  return new Reader(tex).until("", 0).replace(/[ \t]+/g, " ").replace(/ *\n */g, "\n").trim();
}

const opening = ["$$", "\\[", "\\(", "$"], closing = { $$: "$$", "\\[": "\\]", "\\(": "\\)", $: "$" };
const longest = 4000; // characters of a formula; a longer one is not looked for

/**
 * The formula that begins at text[k], before text[to]: {from, until, end, block}; null if there is none.
 * A single $ opens one only before something that is not a space, and closes it only behind such and before no digit.
 */
export function formula(text, k, to) {
  const open = opening.find((o) => text.startsWith(o, k));
  if (!open) return null;
  const from = k + open.length, most = Math.min(to, from + longest);
  if (open === "$" && /[\s\d]/.test(text[from] || " ") && !/^\d[^$\n]{0,80}[\\^_=+*\/][^$\n]*\$/.test(text.slice(from, most))) return null;
  const inner = text.slice(from, most), close = closing[open];
  for (let e = inner.indexOf(close); e > 0; e = inner.indexOf(close, e + 1)) {
    if (inner[e - 1] === "\\" && open.startsWith("$")) continue;
    const until = from + e, end = until + close.length;
    if (open === "$" && (/\s/.test(inner[e - 1]) || /\d/.test(text[end] || " ") || inner.slice(0, e).includes("\n\n"))) return null;
    return { from, until, end, block: open === "$$" || open === "\\[" };
  }
  return null;
}
