// Whether the server answers: asked now and then, and again and again while it does not, so that the page says so and goes
// on by itself when the server is back.

import { ApiError, get, streaming } from "./api.js";

const idle = 15_000;                            // milliseconds between checks while all is well and the page is seen
const again = [1000, 2000, 4000, 8000, 15_000]; // between tries while the server does not answer
const patience = 10_000;                        // for an answer to a check
const connections = 6;                          // that browsers have at once to a server of HTTP/1.1; what is asked beyond them waits

let watched = 0; // answers of this tab

export class Connection {
  /**
   * @param {(state: "up"|"loading"|"down", seconds: number) => void} onstate also told in how many seconds the next try is
   * @param {() => void} onup called when the server answers for the first time, and when it is back
   * @param {() => Promise<number>} answers how many are under way, with those of other tabs
   */
  constructor(onstate, onup, answers = async () => 0) {
    this.onstate = onstate;
    this.onup = onup;
    this.answers = answers;
    this.state = "";
    this.tries = 0;
    this.timer = 0;
    addEventListener("online", () => this.check());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.check(); });
  }

  #set(state) {
    const was = this.state;
    this.state = state;
    this.tries = state === "up" ? 0 : this.tries + 1;
    const wait = state === "up" ? idle : again[Math.min(this.tries, again.length) - 1];
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (!document.hidden || this.state !== "up") this.check(); else this.#set(this.state); }, wait);
    this.onstate(state, Math.round(wait / 1000));
    if (state === "up" && was !== "up") this.onup();
  }

  // #waits says whether a check that had no answer may have waited in the browser: behind streams that hold all connections.
  async #waits(e) {
    if (e.name !== "TimeoutError" || this.state === "") return false;
    const others = Math.max(0, await this.answers().catch(() => 0) - watched); // of other tabs
    return Math.max(streaming, watched) + others >= connections;
  }

  /** Asks the server now. False if it does not answer. */
  async check() {
    try {
      await get("health", "", AbortSignal.timeout(patience));
      this.#set("up");
    } catch (e) {
      // Where nothing was asked all is as it was. A server that says why is there: it loads a model or shuts down.
      this.#set(await this.#waits(e) ? this.state : e instanceof ApiError ? (e.status === 503 ? "loading" : "up") : "down");
    }
    return this.state !== "down";
  }
}

const tick = 1000;         // milliseconds between looks at a stream
const silence = 5000;      // of a stream, after which the server is asked whether it is there
const slept = 90_000;      // a gap between two looks that is no slow timer of a hidden tab: the machine was asleep
const wakeTime = 5000;     // for a stream to show after waking that it is alive

/**
 * Ends a stream that is dead without a sign: the server is gone, or the machine slept while its connection was closed.
 * @param {Connection} connection
 * @param {(reason: Error) => void} abort
 */
export class Watch {
  constructor(connection, abort) {
    this.connection = connection;
    this.abort = abort;
    this.heard = this.looked = Date.now();
    this.begun = false; // something of the answer has come
    this.woken = 0;
    this.asking = false;
    watched++;
    this.timer = setInterval(() => this.#look(), tick);
    this.onresume = () => { this.woken = Date.now(); };
    document.addEventListener("resume", this.onresume); // of a page that the browser had frozen
  }

  alive() { this.heard = Date.now(); this.begun = true; }

  end() {
    watched--;
    clearInterval(this.timer);
    document.removeEventListener("resume", this.onresume);
  }

  async #look() {
    const now = Date.now(), gap = now - this.looked;
    this.looked = now;
    if (gap > slept) this.woken = now;
    // A prompt that is still read is silent too: only a machine that slept, or a frozen page, makes its silence a sign.
    if (this.woken > this.heard && now - this.woken > wakeTime) return this.abort(new TypeError("the connection did not survive the sleep"));
    if (now - this.heard < silence || this.asking) return;
    this.asking = true;
    if (!(await this.connection.check())) this.abort(new TypeError("the server no longer answers"));
    this.asking = false;
  }
}
