// An answer while it streams: its text, who wrote each character, and the passes of the target model.

export const sources = ["target", "draft", "lookup", "grammar"];
export const classes = ["", "s-draft", "s-lookup", "s-grammar"];

export class Answer {
  constructor() {
    this.content = "";
    this.reasoning = "";
    this.who = [];          // per UTF-16 unit of content, an index into sources
    this.counts = sources.map(() => 0); // tokens by source
    this.rounds = [];       // {n_draft, n_accept}: one per pass
    this.calls = [];        // {id, name, arguments}: tools that the answer calls
    this.timings = null;
    this.finish = "";
    this.tokenText = "";    // texts of all tokens so far
    this.tokenWho = [];     // per UTF-16 unit of tokenText
    this.cursor = 0;        // what of tokenText the answer has used
  }

  /** Takes one event of /v1/chat/completions or /v1/completions. */
  take(event) {
    const trace = event.speculation;
    if (trace) {
      for (const t of trace.tokens || []) {
        const source = Math.max(0, sources.indexOf(t.source === "previous" ? "lookup" : t.source));
        this.counts[source]++;
        this.tokenText += t.text;
        for (let i = 0; i < t.text.length; i++) this.tokenWho.push(source);
      }
      for (const r of trace.rounds || []) this.rounds.push({ n_draft: r.n_draft, n_accept: r.n_accept });
    }
    if (event.timings) this.timings = event.timings;
    const choice = event.choices && event.choices[0];
    if (!choice) return;
    const delta = choice.delta || {};
    if (delta.reasoning_content) {
      this.reasoning += delta.reasoning_content;
      this.locate(delta.reasoning_content);
    }
    const text = choice.text || delta.content || "";
    if (text) {
      this.content += text;
      const at = this.locate(text);
      for (let i = 0; i < text.length; i++) this.who.push(at < 0 ? 0 : this.tokenWho[at + i]);
    }
    for (const call of delta.tool_calls || []) {
      const f = call.function || {}, i = call.index ?? this.calls.length;
      const c = this.calls[i] ||= { id: "", name: "", arguments: "" };
      if (call.id) c.id = call.id;
      c.name += f.name || "";
      c.arguments += f.arguments || "";
    }
    if (choice.finish_reason) this.finish = choice.finish_reason;
  }

  // locate finds a piece of the answer in the tokens' texts, at or after the cursor. Marks that the server removes lie between pieces.
  locate(text) {
    const at = this.tokenText.indexOf(text, this.cursor);
    if (at >= 0) this.cursor = at + text.length;
    return at;
  }

  /** The calls of tools that are whole. What an answer that was cut off, or broke, has of another one cannot be called. */
  wholeCalls() {
    return this.calls.filter((c) => {
      try { JSON.parse(c.arguments); return true; } catch { return c.arguments === "" && this.finish === "tool_calls"; }
    });
  }

  /** Accepted drafts, drafted tokens, tokens per pass; null while unknown. */
  figures() {
    const drafted = this.rounds.reduce((n, r) => n + r.n_draft, 0);
    const accepted = this.rounds.reduce((n, r) => n + r.n_accept, 0);
    const tokens = this.counts.reduce((n, c) => n + c, 0);
    return {
      rate: this.timings && this.timings.predicted_per_second > 0 ? this.timings.predicted_per_second : null,
      drafted, accepted,
      perPass: this.rounds.length > 0 ? tokens / this.rounds.length : null,
    };
  }
}

/** who as runs [count, source, count, source …], which is what is stored. */
export function pack(who) {
  const out = [];
  for (let i = 0; i < who.length;) {
    let k = i;
    while (k < who.length && who[k] === who[i]) k++;
    out.push(k - i, who[i]);
    i = k;
  }
  return out;
}

export function unpack(runs) {
  const out = [];
  for (let i = 0; i + 1 < (runs || []).length; i += 2) for (let k = 0; k < runs[i]; k++) out.push(runs[i + 1]);
  return out;
}
