// The messages of the open conversation. The last ones are drawn at once, the earlier ones in pieces between the browser's
// other work, so that a long conversation is there as quickly as a short one.

import { el } from "./dom.js";
import { MessageView } from "./message.js";

const firstPiece = 12, piece = 8; // messages drawn at once, and in each later turn
const near = 160;                 // pixels from the end within which the log follows an answer

export class Log {
  /**
   * @param {HTMLElement} element
   * @param {Object<string, (m: object, view: MessageView, event: Event) => void>} actions by the names of message.js
   */
  constructor(element, actions) {
    this.element = element;
    this.views = new Map();   // by id of the message
    this.path = [];
    this.waiting = 0;         // messages at the beginning that are not drawn yet
    this.turn = 0;
    element.addEventListener("click", (e) => {
      const b = e.target.closest("[data-action]"), box = b && b.closest("article");
      const m = box && this.path.find((x) => x.id === box.dataset.id);
      if (m) actions[b.dataset.action](m, this.views.get(m.id).view, e);
    });
  }

  /**
   * Shows a path of messages.
   * @param {object[]} path
   * @param {(m: object, i: number) => object} how each is drawn, see MessageView
   * @param {{end?: boolean, empty?: Node}} options end: go to the end; empty: what an empty conversation shows
   */
  show(path, how, { end = false, empty = null } = {}) {
    const follow = end || this.atEnd();
    clearTimeout(this.turn);
    this.path = path;
    this.how = how;
    const ids = new Set(path.map((m) => m.id));
    for (const id of this.views.keys()) if (!ids.has(id)) this.views.delete(id);
    this.waiting = path.findLastIndex((m, i) => !this.views.has(m.id) && path.length - i > firstPiece) + 1;
    const drawn = [...path.slice(this.waiting).map((m, i) => this.view(m, this.waiting + i)), ...(path.length === 0 && empty ? [empty] : [])];
    // What stays is not moved: an element that is put back where it was loses the focus, and who edits there with it.
    while (this.element.firstChild && this.element.firstChild !== drawn[0]) this.element.firstChild.remove();
    drawn.forEach((e, i) => { if (this.element.children[i] !== e) this.element.insertBefore(e, this.element.children[i] || null); });
    while (this.element.children.length > drawn.length) this.element.lastChild.remove();
    this.element.dataset.drawn = path.length - this.waiting;
    if (follow) this.toEnd();
    if (this.waiting > 0) this.turn = setTimeout(() => this.more());
  }

  // view is the element of a message, drawn again where it has changed.
  view(m, i) {
    const how = this.how(m, i), signature = MessageView.signature(m, how), old = this.views.get(m.id);
    if (old && (old.signature === signature || old.view.editing)) return old.view.element;
    const view = old ? old.view : new MessageView(m, how);
    if (old) view.draw(m, how);
    this.views.set(m.id, { view, signature });
    return view.element;
  }

  // more draws the piece before what is drawn, and keeps what the reader sees where it is.
  more() {
    const from = Math.max(0, this.waiting - piece), fromEnd = this.element.scrollHeight - this.element.scrollTop;
    const far = this.path.slice(from, this.waiting).map((m, i) => this.view(m, from + i));
    for (const e of far) e.dataset.far = ""; // out of sight the browser leaves them out, see style.css
    this.element.prepend(...far);
    this.waiting = from;
    this.element.dataset.drawn = this.path.length - from;
    this.element.scrollTop = this.element.scrollHeight - fromEnd;
    if (from > 0) this.turn = setTimeout(() => this.more());
  }

  /** Draws what has come of a message that streams. */
  grow(m) {
    const v = this.views.get(m.id);
    if (!v) return;
    const follow = this.atEnd();
    v.view.text(m);
    v.signature = ""; // at its end it is drawn with what can be done with it
    if (follow) this.toEnd();
  }

  atEnd() { return this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < near; }

  toEnd() { this.element.scrollTop = this.element.scrollHeight; }

  /** Forgets what is drawn: the next show is of another conversation. */
  clear() {
    clearTimeout(this.turn);
    this.views.clear();
    this.path = [];
    this.element.replaceChildren();
  }
}

/** What an empty conversation shows: what to do here. */
export function emptyHint(chatting, example) {
  return el("div", { className: "empty" },
    el("p", {}, chatting ? "Write a message below. Answers are computed on this server, and conversations stay in this browser."
      : "This model continues text and has no chat template. Write the beginning of a text below."),
    !chatting && example);
}
