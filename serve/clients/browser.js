// Chromium for the tests of the page, and a gate between it and the server: a proxy that holds a stream after so many bytes,
// cuts every connection, or stands before another server.
import fs from "node:fs";
import net from "node:net";
import puppeteer from "puppeteer-core";
import { key } from "./server.js";

const chromium = process.env.CHROMIUM || "/usr/bin/chromium";
export const minutes = 60_000;

// options of a test that needs Chromium.
export const inBrowser = { skip: !fs.existsSync(chromium) && `${chromium} is not here`, timeout: 10 * minutes };

export const launch = (more = {}) => puppeteer.launch({
  ...more, executablePath: chromium, headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// open opens the page in a tab of a context. defaults are settings of new conversations; problems collects what must not happen;
// before is run in the tab before the page.
export async function open(context, url, { width = 1280, height = 960, scheme = "light", defaults = {}, problems = [], panel = false, before = () => {} } = {}) {
  const page = await context.newPage();
  await page.evaluateOnNewDocument(before);
  await page.evaluateOnNewDocument((k, settings, panel) => {
    sessionStorage.setItem("spec.key", k);
    if (localStorage.getItem("spec.defaults") === null) localStorage.setItem("spec.defaults", settings);
    if (panel && localStorage.getItem("spec.panel") === null) { localStorage.setItem("spec.panel", "true"); localStorage.setItem("spec.settings", '{"sources":true}'); }
  }, key, JSON.stringify({ temperature: "0", max_tokens: "96", ...defaults }), panel);
  page.on("console", (m) => { if (["error", "warning", "warn"].includes(m.type()) && !/Failed to load resource/.test(m.text())) problems.push(`${m.type()}: ${m.text()}`); });
  page.on("pageerror", (e) => problems.push(e.message));
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url);
  await ready(page);
  return page;
}

// until waits for a condition in the page, also in one that the browser does not draw.
export const until = (page, condition, ...values) => page.waitForFunction(condition, { polling: 50, timeout: 2 * minutes }, ...values);

export const ready = (page) => until(page, () => !document.getElementById("model").disabled);

// ended does something that starts a request and waits until it has ended.
export async function ended(page, act) {
  const requests = () => Number(document.body.dataset.requests || 0);
  const before = await page.evaluate(requests);
  await act();
  await until(page, (n) => Number(document.body.dataset.requests || 0) > n, before);
}

export const write = async (page, text) => { await page.type("#prompt", text); await page.keyboard.press("Enter"); };
export const ask = (page, text) => ended(page, () => write(page, text));

// texts are those of the messages that are shown: "role: text".
export const texts = (page) => page.$$eval("#log article", (l) => l.map((a) => a.classList[1] + ": " + a.querySelector(".body").textContent));

// answerOf is the text of the last answer.
export const answerOf = (page) => page.$$eval(".message.assistant .body", (l) => (l.length ? l.at(-1).textContent : ""));

// clickAt clicks the element at a place of those that a selector finds, -1 for the last one. The page finds and clicks it in
// one turn: $$eval and $eval take two, and what the page draws again between them is clicked in vain.
export const clickAt = (page, selector, at) => page.evaluate((selector, at) => {
  const found = [...document.querySelectorAll(selector)].at(at);
  if (!found) throw new Error(`nothing is ${selector}`);
  found.click();
}, selector, at);

// press clicks an action of the last message that has it.
export const press = (page, action) => clickAt(page, `#log [data-action=${action}]`, -1);

// stored is what IndexedDB has.
export const stored = (page) => page.evaluate(() => new Promise((resolve, reject) => {
  const r = indexedDB.open("spec");
  r.onerror = () => reject(r.error);
  r.onsuccess = () => {
    const q = r.result.transaction("messages").objectStore("messages").getAll();
    q.onsuccess = () => { resolve(q.result.filter((m) => !m.deleted)); r.result.close(); };
  };
}));

// gate stands between browser and server.
export async function gate(target) {
  let to = new URL(target), limit = Infinity, waiting = [];
  const sockets = new Set();
  const server = net.createServer((client) => {
    if (!to) return client.destroy();
    const up = net.connect(Number(to.port), to.hostname);
    for (const s of [client, up]) {
      sockets.add(s);
      s.on("error", () => s.destroy());
      s.on("close", () => { sockets.delete(s); client.destroy(); up.destroy(); });
    }
    let streams = false, passed = 0;
    client.on("data", (d) => { streams = false; passed = 0; up.write(d); });
    const pass = (d) => {
      streams ||= d.includes("text/event-stream");
      const now = streams ? Math.max(0, Math.min(d.length, limit - passed)) : d.length;
      passed += now;
      if (now > 0) client.write(d.subarray(0, now));
      if (now < d.length) { up.pause(); waiting.push(() => { pass(d.subarray(now)); up.resume(); }); }
    };
    up.on("data", pass);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    hold(bytes) { limit = bytes; const w = waiting; waiting = []; for (const f of w) f(); }, // streams stop after so many bytes, without a sign
    release() { this.hold(Infinity); },
    cut() { to = null; for (const s of sockets) s.destroy(); }, // nobody answers
    behind(url) { to = new URL(url); waiting = []; limit = Infinity; },
    async close() { for (const s of sockets) s.destroy(); await new Promise((resolve) => server.close(resolve)); },
  };
}
