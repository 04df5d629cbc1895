// One message as it is drawn: title, reasoning (folded), text, calls of tools, what is to be said about it, and what can be
// done with it. Buttons have data-action; log.js hears them.

import { classes, unpack } from "./answer.js";
import { button, el } from "./dom.js";
import { Growing, render, renderPlain } from "./markdown.js";
import { continues } from "./request.js";

const folded = 20_000; // characters of a message of the user, or of a tool's result, that are shown of a longer one

const titles = { user: "You", assistant: "Assistant", tool: "Result", system: "System" };

const action = (name, text, label) => button(text, null, { data: { action: name }, "aria-label": label });

/** JSON with line breaks; the text itself where it is no JSON. */
export function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

/** What a message's end has to say to the reader; "" for nothing. */
export function note(m, context) {
  const lines = [];
  if (m.dropped) lines.push(`The oldest turns were left out of this request: the conversation no longer fits the context${context ? ` of ${context} tokens` : ""}.`);
  if (m.state === "stopped") lines.push("Stopped.");
  if (m.state === "lost") lines.push(m.error || "The connection was lost here.");
  if (m.state === "cut") lines.push(m.full ? `The context of ${context || "the model"} tokens is full: the answer ends here.` : "The answer was cut at the most tokens allowed.");
  if (m.json && m.state === "done") lines.push("JSON, as the schema demands.");
  if (m.elsewhere) lines.push("Another tab is writing this answer.");
  return lines.join(" ");
}

/** The line of figures below an answer. */
export function figures(m) {
  const f = m.figures;
  if (!f) return "";
  return `${f.tokens} tokens` + (f.rate ? `, ${f.rate < 100 ? f.rate.toFixed(1) : Math.round(f.rate)} per second` : "");
}

/**
 * How a message is drawn:
 *   siblings, at   how many alternatives there are, and which this is
 *   last           it ends the conversation
 *   busy           an answer is under way: nothing can be changed
 *   marks          tokens show who wrote them
 *   settings, context  of the conversation and its model
 */
export class MessageView {
  constructor(m, how) {
    this.element = el("article", { data: { id: m.id } });
    this.body = el("div");
    this.growing = null;
    this.editing = false;
    this.draw(m, how);
  }

  /** A text that is another one when the message has to be drawn again. */
  static signature(m, how) {
    return [m.id, m.state, m.error, m.content.length, (m.reasoning || "").length, (m.calls || []).length, m.elsewhere, m.dropped,
      how.siblings, how.at, how.last, how.last && continues(m, how.settings), how.busy, how.marks, how.context, m.figures && m.figures.tokens].join("|");
  }

  draw(m, how) {
    this.how = how;
    const title = m.plain ? (m.role === "user" ? "Prompt" : "Continuation") : titles[m.role] || m.role;
    this.element.className = "message " + m.role + (m.plain ? " plain" : "");
    const open = !!this.details && this.details.open;
    this.details = null;
    this.element.replaceChildren(el("h2", {}, m.role === "tool" ? `${title} of ${m.name || "a tool"}` : title));
    this.growing = null;
    this.body = el("div", { className: "body" + (how.marks && m.role === "assistant" ? " marked" : "") });
    this.element.append(this.body);
    this.text(m);
    if (this.details) this.details.open = open; // what a reader has unfolded stays so
    if (m.calls) this.element.append(...m.calls.map((c) => this.call(c)));
    if (m.calls && how.last && !how.busy && ["done", "cut"].includes(m.state)) {
      this.element.append(el("form", { className: "results" },
        ...m.calls.map((c) => el("label", {}, `Result of ${c.name}`, el("textarea", { rows: 2, name: c.id }))),
        button("Send results", null, { data: { action: "results" } })));
    }
    const said = note(m, how.context), counted = m.role === "assistant" && m.state !== "streaming" ? figures(m) : "";
    if (said) this.element.append(el("p", { className: "note" + (m.state === "lost" ? " bad" : "") }, said));
    this.element.append(this.actions(m, how, counted));
  }

  /** Draws what has come since, of a message that streams. */
  text(m) {
    if (m.reasoning && !this.details) {
      this.thought = el("div");
      this.details = el("details", { className: "reasoning" }, el("summary", {}, "Reasoning"), this.thought);
      this.element.insertBefore(this.details, this.body);
    }
    if (m.reasoning) this.thought.textContent = m.reasoning;
    const who = this.how.marks ? m.who || (m.runs && unpack(m.runs)) || undefined : undefined;
    if (m.role !== "assistant") {
      const long = m.content.length > folded && !this.unfolded;
      this.body.textContent = long ? m.content.slice(0, folded) + "…" : m.content;
      if (long) {
        this.body.after(button(`Show all ${m.content.length} characters`, (e) => { this.unfolded = true; this.body.textContent = m.content; e.target.remove(); }));
      }
    } else if (m.plain) {
      this.body.replaceChildren();
      renderPlain(this.body, m.content, who, classes);
    } else if (m.json) {
      this.body.replaceChildren();
      render(this.body, "~~~~~~ json\n" + pretty(m.content) + "\n~~~~~~");
    } else {
      this.growing ||= new Growing(this.body, classes);
      this.growing.draw(m.content, who);
    }
  }

  call(c) {
    return el("div", { className: "call" }, el("h3", {}, `Calls ${c.name}`), el("pre", { tabIndex: 0 }, el("code", {}, pretty(c.arguments || "{}"))));
  }

  actions(m, how, counted) {
    const box = el("div", { className: "actions" });
    if (how.siblings > 1) {
      const before = action("before", "‹", "The version before"), after = action("after", "›", "The next version");
      before.disabled = how.at === 0;
      after.disabled = how.at === how.siblings - 1;
      box.append(before, el("span", { className: "count" }, `${how.at + 1} of ${how.siblings}`), after);
    }
    if (!how.busy) {
      if (m.role === "assistant" && how.last && continues(m, how.settings)) box.append(action("goon", "Continue"));
      if (m.role === "assistant") box.append(action("regenerate", m.content || m.calls ? "Regenerate" : "Try again"));
      if (m.code === "context_length_exceeded") box.append(action("drop", "Go on without the oldest turns"));
      if (m.role === "user" && how.last) box.append(action("answer", "Answer"));
      if (m.role !== "tool" && !m.calls && m.content) box.append(action("edit", "Edit"));
    }
    if (m.content) box.append(action("copy", "Copy"));
    if (!how.busy) box.append(action("delete", "Delete"));
    if (counted) box.append(el("span", { className: "figures" }, counted));
    return box;
  }

  /**
   * Puts a field in the place of the text; until it is closed nothing is drawn.
   * @param {(text: string) => Promise<boolean>} take is given the new text; where it does not take it, the field stays with it
   * @param {() => void} left is called when the field is left without a change
   */
  edit(m, take, left) {
    if (this.editing) return;
    const field = el("textarea", { value: m.content, rows: Math.min(12, m.content.split("\n").length + 1), "aria-label": "The message" });
    const close = () => { this.editing = false; this.element.querySelector(".editor").remove(); this.body.hidden = false; };
    const cancel = () => { close(); left(); this.element.querySelector("[data-action=edit]")?.focus(); };
    const save = button(m.role === "user" ? "Send" : "Save", async () => {
      if (field.value.trim() === "" || field.value === m.content) return cancel();
      save.disabled = true; // until it is taken, which for a question is the end of its answer
      if (await take(field.value)) close(); else save.disabled = false;
    }, { className: "main" });
    this.editing = this.body.hidden = true;
    this.body.after(el("div", { className: "editor" }, field, el("div", { className: "row" }, save, button("Cancel", cancel))));
    field.focus();
  }
}
