// What the page does with conversations, texts, tools and models, each in Chromium.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { answerOf, ask, clickAt, ended, inBrowser, launch, open, press, ready, stored, texts, until, write } from "./browser.js";
import { start } from "./server.js";

// withPage runs a test with a server, a browser and a page; what was written to the console fails it.
const withPage = (name, f, { more = [], env = {}, defaults = {} } = {}) => test(name, inBrowser, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "spec-page-"));
  const server = await start(more, env), browser = await launch(), problems = [], context = await browser.createBrowserContext();
  t.after(async () => { await browser.close(); await server.stop(); fs.rmSync(folder, { recursive: true }); });
  const page = await open(context, server.url, { problems, defaults });
  const cdp = await page.createCDPSession();
  await cdp.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder, browserContextId: context.id });
  await f({ t, server, page, context, folder, problems });
  assert.deepEqual(problems, []);
});

// put fills a field of the settings, and the dialog is closed.
async function settings(page, values) {
  await page.click("#settings-open");
  for (const [id, v] of Object.entries(values)) await page.$eval("#" + id, (e, v) => { e.value = v; }, v);
  await page.click("#settings button[value=ok]");
}

const closed = (page) => until(page, () => !document.getElementById("settings").open);

async function file(folder, name) {
  const f = path.join(folder, name);
  for (let i = 0; i < 400 && !(fs.existsSync(f) && fs.statSync(f).size > 0); i++) await new Promise((resolve) => setTimeout(resolve, 50));
  return fs.readFileSync(f, "utf8");
}

// imported gives the page a file to import.
async function imported(page, folder, name, content) {
  const f = path.join(folder, "in-" + name);
  fs.writeFileSync(f, content);
  const input = await page.$("#import-file");
  await input.uploadFile(f);
}

const shown = (page, n) => until(page, (n) => document.querySelectorAll("#log article").length === n, n);
const versions = (page) => page.$$eval("#log .actions .count", (l) => l.map((e) => e.textContent));

withPage("edit and branch, answer again, delete with undo", async ({ page }) => {
  await ask(page, "func main() {");
  const first = await answerOf(page);

  // An edited question is a branch: the first one stays, and can be shown again.
  await press(page, "edit");
  await page.click(".editor button:not(.main)");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.action), "edit", "the keyboard goes on where it was");
  await press(page, "edit"); // of the answer: edited texts of the model are branches without a request
  await page.$eval(".editor textarea", (e) => { e.value = "an edited answer"; });
  await page.click(".editor .main");
  await until(page, () => document.querySelector(".message.assistant .body").textContent === "an edited answer");
  assert.deepEqual(await versions(page), ["2 of 2"]);
  await clickAt(page, ".message.user [data-action=edit]", 0);
  await page.$eval(".editor textarea", (e) => { e.value = "type Ring struct {"; });
  await ended(page, () => page.click(".editor .main"));
  assert.equal((await texts(page))[0], "user: type Ring struct {");
  assert.deepEqual(await versions(page), ["2 of 2"]);
  const other = await answerOf(page);
  await press(page, "before");
  await until(page, () => document.querySelector(".message.user .body").textContent === "func main() {");
  assert.equal(await answerOf(page), "an edited answer", "the branch that was last written");
  assert.deepEqual(await versions(page), ["1 of 2", "2 of 2"]);

  // Another answer stands beside the first one.
  await ended(page, () => press(page, "regenerate"));
  assert.equal(await answerOf(page), first, "the same text at temperature 0");
  assert.deepEqual(await versions(page), ["1 of 2", "3 of 3"]);

  // A message is deleted with what follows, also of another tab, and comes back.
  await page.evaluate(() => new Promise((resolve) => {
    const r = indexedDB.open("spec");
    r.onsuccess = () => {
      const t = r.result.transaction("messages", "readwrite"), messages = t.objectStore("messages"), q = messages.getAll();
      q.onsuccess = () => {
        const m = q.result.find((x) => x.content === "an edited answer");
        messages.put({ ...m, id: "late", parent: m.id, role: "user", content: "late" });
      };
      t.oncomplete = () => { r.result.close(); resolve(); };
    };
  }));
  await clickAt(page, ".message.user [data-action=delete]", 0);
  await until(page, () => document.querySelector("#notice").textContent.includes("messages are deleted"));
  assert.ok(!(await stored(page)).some((m) => m.content === "late"));
  assert.deepEqual(await texts(page), ["user: type Ring struct {", "assistant: " + other], "the other branch is shown");
  await clickAt(page, "#notice button", 0);
  await until(page, () => document.querySelector(".message.user .body").textContent === "func main() {");
  assert.deepEqual(await versions(page), ["1 of 2", "3 of 3"]);

  // So is a conversation, also for a page that is loaded again. What was not sent of another one stays.
  const all = await texts(page);
  await page.click("#new");
  await page.type("#prompt", "not sent");
  await page.click("#conversations .open");
  await shown(page, 2);
  await page.click("#more summary");
  await page.click("#delete");
  await until(page, () => document.querySelectorAll("#conversations .open").length === 0);
  assert.deepEqual([await texts(page), await page.$eval("#prompt", (e) => e.value)], [[], "not sent"]);
  await clickAt(page, "#notice button", 0);
  await shown(page, 2);
  assert.deepEqual(await texts(page), all);
  await page.click("#more summary");
  await page.click("#delete");
  await until(page, () => document.querySelectorAll("#conversations .open").length === 0);
  await page.reload();
  await ready(page);
  assert.equal((await page.$$("#conversations .open")).length, 0);
});

withPage("an answer never takes the place of what was written", async ({ page, folder }) => {
  const message = (id, parent, role, content, more) => ({ id, conversation: "c", parent, created: 1, role, content, ...more });
  // Its answers are short: a random object as the schema wants it may never end. It is open when its title is there.
  const conversation = async (name, ...messages) => {
    const settings = { temperature: "0", max_tokens: "24" };
    await imported(page, folder, name, JSON.stringify({
      form: "spec.conversations", version: 1, conversations: [{ id: "c", title: name, leaf: messages.at(-1).id, settings }], messages,
    }));
    await until(page, (name) => document.getElementById("title").value === name, name);
  };
  const again = () => ended(page, () => clickAt(page, "#log [data-action=goon], #log [data-action=regenerate]", 0));

  // A lost answer behind which the conversation went on is tried again: what follows it can still be reached.
  await conversation("lost.json", message("a", null, "user", "first"), message("b", "a", "assistant", "", { state: "lost" }), message("d", "b", "user", "second"), message("e", "d", "assistant", "its answer", { state: "done" }));
  await shown(page, 4);
  await again();
  assert.deepEqual(await versions(page), ["2 of 2"]);
  await press(page, "before");
  await shown(page, 4);

  // Reasoning without an answer is something, too.
  await conversation("reasoning.json", message("a", null, "user", "q"), message("b", "a", "assistant", "", { state: "stopped", reasoning: "thoughts" }));
  await shown(page, 2);
  await again();
  assert.ok((await stored(page)).some((m) => m.reasoning === "thoughts"));

  // A part of an answer cannot go on where a schema holds for the whole of it.
  await conversation("part.json", message("a", null, "user", "q"), message("b", "a", "assistant", "a part", { state: "stopped" }));
  await shown(page, 2);
  await settings(page, { schema: '{"type":"object"}' });
  await closed(page);
  await again();
  assert.ok((await stored(page)).some((m) => m.content === "a part"));
  assert.deepEqual(await versions(page), ["2 of 2"]);
});

withPage("what is pressed twice, or just before another conversation is opened, is done once and where it was meant", async ({ page }) => {
  await ask(page, "func main() {");
  await ended(page, () => page.evaluate(() => {
    document.getElementById("prompt").value = "pressed twice";
    document.getElementById("form").requestSubmit();
    document.getElementById("form").requestSubmit();
    document.getElementById("new").click();
  }));
  const all = await stored(page), sent = all.filter((m) => m.content === "pressed twice");
  assert.deepEqual(sent.map((m) => m.conversation), [all.find((m) => m.content === "func main() {").conversation]);
  assert.equal(await page.$eval("#error", (e) => e.textContent), "", "nobody else is writing");
  assert.deepEqual([await texts(page), await page.$eval("#prompt", (e) => e.value)], [[], ""], "the new conversation is shown");

  // What was opened during an answer can be changed when the answer has ended.
  await ended(page, () => page.evaluate(async () => {
    document.getElementById("prompt").value = "type Ring struct {";
    document.getElementById("form").requestSubmit();
    while (document.getElementById("stop").hidden) await new Promise((resolve) => setTimeout(resolve, 1));
    [...document.querySelectorAll("#conversations .open")].at(-1).click();
  }));
  await shown(page, 4);
  assert.equal((await page.$$("#log [data-action=regenerate]")).length, 2);
});

withPage("keys of an input method neither send nor stop", async ({ page }) => {
  const key = (key, more) => page.$eval("#prompt", (e, key, more) => { e.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more })); }, key, more);
  await page.type("#prompt", "func main() {");
  await key("Enter", { isComposing: true });
  await key("Enter", { keyCode: 229 });
  await new Promise((resolve) => setTimeout(resolve, 300)); // by then it would be sent
  assert.deepEqual([await texts(page), await page.$eval("#prompt", (e) => e.value)], [[], "func main() {"]);
  await ended(page, () => page.evaluate(async () => {
    document.getElementById("form").requestSubmit();
    while (document.getElementById("stop").hidden) await new Promise((resolve) => setTimeout(resolve, 1));
    document.getElementById("prompt").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", isComposing: true, bubbles: true }));
  }));
  assert.deepEqual((await stored(page)).filter((m) => m.state === "stopped"), []);
});

withPage("search, rename, export and import", async ({ page, folder }) => {
  await ask(page, "func needle() {");
  await page.click("#new");
  await ask(page, "type Ring struct {");
  await page.$eval("#title", (e) => { e.value = "Rings & <b>"; e.dispatchEvent(new Event("change")); });
  await until(page, () => [...document.querySelectorAll("#conversations .open")].some((b) => b.textContent === "Rings & <b>"));
  await page.type("#search", "NEEDLE");
  await until(page, () => document.querySelectorAll("#conversations .open").length === 1);
  assert.equal(await page.$eval("#conversations .open", (e) => e.textContent), "func needle() {");
  await page.$eval("#search", (e) => { e.value = "no such word"; e.dispatchEvent(new Event("input")); });
  await until(page, () => document.querySelector("#conversations").textContent === "Nothing was found.");
  await page.$eval("#search", (e) => { e.value = ""; e.dispatchEvent(new Event("input")); });
  await until(page, () => document.querySelectorAll("#conversations .open").length === 2);

  // The link to the prompt leaves the conversation its address.
  const named = page.url();
  await clickAt(page, ".skip", 0);
  assert.deepEqual([page.url(), await page.evaluate(() => document.activeElement.id)], [named, "prompt"]);

  // A conversation whose title was taken away has that of the next message, also when the page is loaded again.
  await page.$eval("#title", (e) => { e.value = ""; e.dispatchEvent(new Event("change")); });
  await until(page, () => [...document.querySelectorAll("#conversations .open")].some((b) => b.textContent === "New conversation"));
  await ended(page, () => page.evaluate((text) => {
    document.getElementById("prompt").value = text;
    document.getElementById("form").requestSubmit();
  }, "````\n" + "x".repeat(59) + "\u{1f600}y\n````\n"));
  await page.reload();
  await ready(page);
  assert.equal(await page.$eval("#title", (e) => e.value), "x".repeat(59) + "\u{1f600}");
  await page.$eval("#title", (e) => { e.value = "Rings & <b>"; e.dispatchEvent(new Event("change")); });

  const all = await texts(page);
  for (const [button, name] of [["export-json", "Rings b.json"], ["export-markdown", "Rings b.md"]]) {
    await page.click("#more summary");
    await page.click("#" + button);
    const content = await file(folder, name), address = page.url();
    await imported(page, folder, name, content);
    await until(page, (url) => location.href !== url && document.querySelector("#notice").textContent.includes("imported"), address);
    assert.deepEqual((await texts(page)).map((x) => x.trim()), all.map((x) => x.trim()), name);
    assert.equal(await page.$eval("#title", (e) => e.value), "Rings & <b>");
  }
  await page.click("#export-all");
  assert.equal(JSON.parse(await file(folder, "conversations.json")).conversations.length, 4);
  await imported(page, folder, "picture.json", '{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}');
  await until(page, () => /picture.json cannot be read: .*image_url; only text/.test(document.querySelector("#error").textContent));
});

withPage("settings belong to a conversation; a schema and tools are pasted in, and what comes of them is shown", async ({ page }) => {
  const sent = [];
  page.on("request", (r) => { if (r.url().endsWith("/v1/chat/completions")) sent.push(JSON.parse(r.postData())); });
  await settings(page, { system: "You write Go.", top_k: "7", schema: '{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9}},"required":["n"],"additionalProperties":false}' });
  await closed(page);
  await ask(page, "a number");
  assert.deepEqual([sent[0].messages[0], sent[0].top_k], [{ role: "system", content: "You write Go." }, 7]);
  assert.match(await page.$eval(".message.assistant pre", (e) => e.textContent), /^\{\n  "n": \d\n\}$/);
  assert.match(await page.$eval(".message.assistant .note", (e) => e.textContent), /as the schema demands/);

  await page.click("#new");
  await settings(page, { tools: "[{" });
  assert.match(await page.$eval("#settings-error", (e) => e.textContent), /^Tools: .*JSON/, "what is wrong is said, and nothing is lost");
  await page.$eval("#tools", (e) => { e.value = '[{"name":"look_up","parameters":{"type":"object","properties":{"word":{"enum":["ring"]}},"required":["word"]}}]'; });
  await page.select("#tool_choice", "required");
  await page.click("#settings button[value=ok]");
  await closed(page);
  await ask(page, "look");
  assert.equal(sent[1].messages[0].role, "user", "the other conversation's system message is not sent");
  assert.equal(await page.$eval(".call h3", (e) => e.textContent), "Calls look_up");
  for (const call of await page.$$eval(".call pre", (l) => l.map((e) => e.textContent))) assert.equal(call, '{\n  "word": "ring"\n}', "every call is whole, also where the answer was cut");
  await page.$$eval(".results textarea", (l) => { for (const e of l) e.value = "a buffer"; });
  await settings(page, { tool_choice: "none" });
  await closed(page);
  await ended(page, () => press(page, "results"));
  const [, call, result] = sent[2].messages;
  assert.deepEqual([result.role, result.tool_call_id, result.content], ["tool", call.tool_calls[0].id, "a buffer"]);
  assert.equal((await texts(page))[2], "tool: a buffer");

  // The settings are still there when the page is loaded again, each with its conversation.
  await page.reload();
  await ready(page);
  await page.click("#settings-open");
  assert.deepEqual(await page.$$eval("#system, #tools", (l) => l.map((e) => e.value !== "")), [false, true]);
});

const drawn = [
  "# Heading", "```go\nfunc f() int { return 42 } // why\n```", "|left|right|\n|:-|-:|\n|a|1|", "Inline $a_1 * b_2 * c$ and\n\n$$\n\\frac{a}{b} \\leq \\sqrt{2}\n$$",
].join("\n\n");

withPage("code with colors and copy, aligned tables, formulas, folded reasoning; images are refused by a word", async ({ page, context, folder, server }) => {
  await context.overridePermissions(server.url, ["clipboard-read", "clipboard-write"]);
  await imported(page, folder, "drawn.json", JSON.stringify({ messages: [{ role: "user", content: "q" }, { role: "assistant", content: drawn, reasoning_content: "because *I* think" }] }));
  await shown(page, 2);
  const style = (selector, name) => page.$eval(selector, (e, name) => getComputedStyle(e)[name], name);
  const colors = new Set(await Promise.all([".h-k", ".h-n", ".h-c", "pre code"].map((s) => style(s, "color"))));
  assert.equal(colors.size, 4, "keywords, numbers, comments and the rest differ");
  await page.click(".codehead .copy");
  await until(page, () => document.querySelector(".codehead .copy").textContent === "Copied");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "func f() int { return 42 } // why");
  assert.deepEqual(await page.$$eval("#log td", (l) => l.map((e) => getComputedStyle(e).textAlign)), ["left", "right"]);
  assert.deepEqual(await page.$$eval(".math", (l) => l.map((e) => e.textContent)), ["a₁ * b₂ * c", "a/b ≤√2"]);
  assert.equal(await page.$eval(".reasoning", (e) => e.open), false);
  assert.equal(await page.$eval(".reasoning div", (e) => e.checkVisibility()), false);
  await page.click(".reasoning summary");
  assert.equal(await page.$eval(".reasoning div", (e) => e.textContent), "because *I* think");
  await ask(page, "q"); // after which it is drawn again, with other buttons
  assert.equal(await page.$eval(".reasoning", (e) => e.open), true, "what a reader has unfolded stays so");

  const give = (type, name, content, event) => page.evaluate((type, name, content, event) => {
    const data = new DataTransfer();
    data.items.add(new File([content], name, { type }));
    document.querySelector("#prompt").dispatchEvent(event === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }) : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  }, type, name, content, event);
  for (const event of ["paste", "drop"]) {
    await give("image/png", event + ".png", "x", event);
    await until(page, (name) => document.querySelector("#error").textContent === `${name} is an image. The models of this server read text only.`, event + ".png");
  }
  const refused = await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["x"], "image.png", { type: "image/png" }));
    data.setData("text/plain", "a\tb");
    return !document.querySelector("#prompt").dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  });
  assert.equal(refused, false, "a text with its picture, as spreadsheets copy it, is pasted");
  await page.evaluate(() => { window.read = Blob.prototype.text; Blob.prototype.text = async () => { throw new Error("it is a folder"); }; });
  await give("", "folder", "", "drop");
  await until(page, () => document.querySelector("#error").textContent === "folder cannot be read: it is a folder");
  await page.evaluate(() => { Blob.prototype.text = window.read; });
  await give("text/plain", "a.txt", "the text of a file", "drop");
  await until(page, () => document.querySelector("#prompt").value.includes("a.txt:\nthe text of a file"));
});

withPage("text from right to left is written so, paragraph by paragraph", async ({ page, folder }) => {
  const text = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd.";
  await imported(page, folder, "rtl.json", JSON.stringify({ messages: [{ role: "user", content: text }, { role: "assistant", content: text + "\n\nleft.\n\n- " + text }] }));
  await shown(page, 2);
  // ends are the left edges of the first character and of the full stop.
  const ends = (selector) => page.$eval(selector, (e) => {
    const t = e.firstChild, left = (at) => { const r = document.createRange(); r.setStart(t, at); r.setEnd(t, at + 1); return r.getBoundingClientRect().left; };
    return [left(0), left(t.length - 1)];
  });
  for (const [selector, right] of [[".message.user .body", true], [".message.assistant p", true], [".message.assistant p ~ p", false], [".message.assistant li", true]]) {
    const [first, stop] = await ends(selector);
    assert.equal(stop < first, right, selector);
  }
});

withPage("a long conversation is drawn in pieces, the last one at once", async ({ t, page, folder }) => {
  const messages = Array.from({ length: 150 }, (_, i) => ({ role: i % 2 ? "assistant" : "user", content: `${i}: ${i % 2 ? drawn : "a question"}` }));
  await imported(page, folder, "long.json", JSON.stringify({ messages, title: "Long" }));
  await shown(page, 150);
  // Work is counted; time is reported and fails nothing. An observer is called at the end of each turn: it sees what a turn drew.
  const redraw = () => page.evaluate(() => new Promise((resolve) => {
    let before = 0, most = 0, first = 0, seen = 0, last = performance.now(), longest = 0;
    const log = document.querySelector("#log"), begin = last;
    const watch = new MutationObserver(() => {
      const n = log.querySelectorAll("article").length, now = performance.now();
      first ||= n;
      seen ||= now - begin;
      [most, longest] = [Math.max(most, n - before), Math.max(longest, now - last)];
      [before, last] = [n, now];
      if (n < 150) return;
      watch.disconnect();
      const end = now - begin, atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 2;
      resolve({ first, most, atEnd, last: [...log.querySelectorAll(".body")].at(-1).textContent.slice(0, 4), times: [seen, longest, end] });
    });
    watch.observe(log, { childList: true });
    document.querySelector("#conversations .open").click();
  }));
  const cdp = await page.createCDPSession(), times = [];
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" }); // the thread's own time, whatever else runs
  const spent = async () => 1000 * (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
  for (let i = 0; i < 5; i++) {
    await page.click("#new");
    await until(page, () => document.querySelectorAll("#log article").length === 0);
    const before = await spent(), work = await redraw();
    assert.ok(work.first > 5 && work.first <= 20, `${work.first} messages before the first ones are seen`);
    assert.ok(work.most <= 20, `${work.most} messages in one turn`);
    assert.deepEqual([work.atEnd, work.last], [true, "149:"], "the reader is at the end all the time");
    times.push([...work.times, await spent() - before]);
  }
  for (const [i, what] of ["the last ones are there", "the longest wait for a piece", "all 150 are there", "the page's thread computes"].entries()) {
    const sorted = times.map((x) => x[i]).sort((a, b) => a - b).map(Math.round);
    t.diagnostic(`${what}: ${sorted[2]} ms (median of 5, ${sorted[0]} to ${sorted[4]})`);
  }
  // What is far from the reader is not laid out until the reader comes there, and nothing moves then under the reader's eyes.
  const laidOut = () => page.$$eval("#log article", (l) => l.filter((a) => a.querySelector(".body").checkVisibility({ contentVisibilityAuto: true })).length);
  const atEnd = () => page.$eval("#log", (e) => e.scrollHeight - e.scrollTop - e.clientHeight < 2);
  assert.ok(await laidOut() < 100, `${await laidOut()} of 150 messages are laid out`);
  assert.ok(await atEnd(), "the reader is still at the end");
  const moved = await page.evaluate(async () => {
    const frames = async (n) => { for (let i = 0; i < n; i++) await new Promise((resolve) => requestAnimationFrame(resolve)); };
    const log = document.querySelector("#log"), box = log.getBoundingClientRect();
    let most = 0, grown = 0;
    while (log.scrollTop > 0) {
      const by = Math.min(500, log.scrollTop), height = log.scrollHeight;
      const seen = [...log.querySelectorAll("article")].find((a) => a.getBoundingClientRect().bottom > box.top + 1), before = seen.getBoundingClientRect().top;
      log.scrollBy(0, -by);
      await frames(4);
      most = Math.max(most, Math.abs(seen.getBoundingClientRect().top - before - by));
      grown += Math.abs(log.scrollHeight - height);
    }
    return { most, grown };
  });
  assert.ok(moved.grown > 1000, `${moved.grown} pixels were guessed wrong: the test tests nothing`);
  assert.ok(moved.most < 2, `the text moves by ${moved.most} pixels`);
  assert.ok(await page.$eval("#log article .body", (a) => a.checkVisibility({ contentVisibilityAuto: true })), "the first message is there when the reader is");
  const ids = await page.$$eval("#log article", (l) => l.map((e) => parseInt(e.querySelector(".body").textContent)));
  assert.deepEqual(ids, messages.map((_, i) => i), "in order");

  // More of the last message draws nothing else again.
  const again = await page.evaluate(() => { for (const a of document.querySelectorAll("#log article")) a.marked = true; return document.querySelectorAll("#log article").length; });
  await ask(page, "one more");
  assert.ok(await page.$$eval("#log article", (l) => l.filter((a) => a.marked).length) === again, "what is drawn stays");
});

withPage("a full context is told, and the oldest turns are left out where the reader says so", async ({ page }) => {
  await ask(page, "func main() {");
  assert.match(await page.$eval(".note", (e) => e.textContent), /context of 128 tokens is full/);
  await ask(page, "x ".repeat(60));
  assert.match(await page.$$eval(".note", (l) => l.at(-1).textContent), /exceeds the available context size/);
  await ended(page, () => press(page, "drop"));
  assert.match(await page.$$eval(".note", (l) => l.at(-1).textContent), /oldest turns were left out .*128 tokens/);
  assert.ok((await answerOf(page)).length > 0);
  assert.equal((await stored(page)).filter((m) => m.role === "user").length, 2, "the conversation itself keeps them");
}, { more: ["-c", "128"], defaults: { max_tokens: "" } });

// hub is a server of models like the Hugging Face hub, with one model.
async function hub(model) {
  const content = fs.readFileSync(model), commit = "0123456789abcdef0123456789abcdef01234567";
  const server = http.createServer((q, r) => {
    if (q.url === "/api/models/go/pair-GGUF/revision/main") return r.end(JSON.stringify({ sha: commit, siblings: [{ rfilename: "pair-Q8_0.gguf" }] }));
    if (!q.url.endsWith("/pair-Q8_0.gguf")) { r.statusCode = 404; return r.end(); }
    const [, from] = /bytes=(\d+)-/.exec(q.headers.range || "") || [null, "0"];
    r.writeHead(q.headers.range ? 206 : 200, { ETag: `"${createHash("sha256").update(content).digest("hex")}"`, "Accept-Ranges": "bytes", "Content-Length": content.length - from, ...(q.headers.range ? { "Content-Range": `bytes ${from}-${content.length - 1}/${content.length}` } : {}) });
    if (q.method === "HEAD") return r.end();
    const part = 200_000; // with time between, so that there is progress
    for (let at = Number(from), wait = 0; at < content.length; at += part, wait += 250) setTimeout(() => r.write(content.subarray(at, at + part)), wait);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

test("models are listed, pulled with progress, loaded and unloaded", inBrowser, async (t) => {
  const draft = new URL("../../testdata/go-draft.q8_0.gguf", import.meta.url).pathname;
  const from = await hub(draft), folder = fs.mkdtempSync(path.join(os.tmpdir(), "spec-models-"));
  fs.copyFileSync(draft, path.join(folder, "small.gguf"));
  const server = await start(["--models-dir", folder, "--allow-manage"], { HF_ENDPOINT: from.url }), browser = await launch(), problems = [];
  t.after(async () => { await browser.close(); await server.stop(); from.close(); fs.rmSync(folder, { recursive: true }); });
  const page = await open(await browser.createBrowserContext(), server.url, { problems });
  const row = (name) => page.$$eval("#model-list tr", (l, name) => (l.find((r) => r.querySelector("th").textContent.includes(name)) || { textContent: "" }).textContent, name);
  const state = (name, text) => until(page, (name, text) => [...document.querySelectorAll("#model-list tr")].some((r) => r.querySelector("th").textContent.includes(name) && r.querySelector(".state").textContent.includes(text)), name, text);
  const click = (label) => page.evaluate((label) => [...document.querySelectorAll("#models button")].find((b) => (b.getAttribute("aria-label") || b.textContent) === label).click(), label);
  await page.click("#models-open");
  await state("small", "in memory"); // the page has asked for its abilities
  assert.match(await row("small"), /q8_0, 1\.64 MB/);

  await page.type("#pull-name", "go/pair-GGUF");
  await click("Pull");
  await until(page, () => { const p = document.querySelector("#pull-progress"); return !p.hidden && p.max > 1e6 && p.value > 0 && p.value < p.max && / of 1\.64 MB/.test(document.querySelector("#models-state").textContent); });
  await until(page, () => document.querySelector("#models-state").textContent === "go/pair-GGUF is here.");
  await state("pair", "not loaded");
  assert.ok(await page.$$eval("#model option", (l) => l.some((o) => o.value.includes("pair"))), "it can be chosen");

  const name = await page.$$eval("#model option", (l) => l.find((o) => o.value.includes("pair")).value);
  await click("Load " + name);
  await state("pair", "in memory, context");
  await click("Unload " + name);
  await state("pair", "not loaded");

  // What the page knows is of the model that was chosen last, whichever answer comes last.
  const [slow, quick] = await page.$$eval("#model option", (l) => l.map((o) => o.value));
  const label = await page.$eval("#prompt-label", (e) => e.textContent);
  await page.evaluate(async (slow, quick) => {
    const real = window.fetch, chosen = document.getElementById("model");
    let come;
    const answered = new Promise((resolve) => { come = resolve; });
    window.fetch = async (url, o) => {
      if (url !== "props?model=" + encodeURIComponent(slow)) return real(url, o);
      await new Promise((resolve) => setTimeout(resolve, 500));
      setTimeout(come, 100);
      return new Response(JSON.stringify({ has_chat_template: false }));
    };
    for (const name of [slow, quick]) {
      chosen.value = name;
      chosen.dispatchEvent(new Event("change"));
      await new Promise((resolve) => setTimeout(resolve, 100)); // so that it has been asked about
    }
    await answered;
    window.fetch = real;
  }, slow, quick);
  assert.equal(await page.$eval("#prompt-label", (e) => e.textContent), label);

  await page.type("#pull-name", "go/none");
  await click("Pull");
  await until(page, () => /not found/.test(document.querySelector("#models-error").textContent));
  await page.$eval("#models", (e) => e.close());
  await page.click("#models-open");
  assert.equal(await page.$eval("#models-error", (e) => e.textContent), "", "an error is told once");

  // A stream that ends early, as a proxy ends it whose server is gone, is no download.
  await page.evaluate(() => {
    const real = window.fetch;
    window.fetch = async (url, o) => (url === "api/pull" ? new Response('{"status":"pulling x","total":2,"completed":1}\n') : real(url, o));
  });
  await page.$eval("#pull-name", (e) => { e.value = "go/none"; });
  await click("Pull");
  await until(page, () => document.querySelector("#models-error").textContent || document.querySelector("#models-state").textContent.includes("is here"));
  assert.match(await page.$eval("#models-error", (e) => e.textContent), /ended before the download did/);
  assert.deepEqual(problems, []);
});

test("where a model fails, another one can be chosen", inBrowser, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "spec-models-")), model = fs.readFileSync(new URL("../../testdata/go-draft.q8_0.gguf", import.meta.url));
  fs.writeFileSync(path.join(folder, "a-broken.gguf"), model.subarray(0, model.length / 2));
  fs.writeFileSync(path.join(folder, "small.gguf"), model);
  const server = await start(["--models-dir", folder]), browser = await launch();
  t.after(async () => { await browser.close(); await server.stop(); fs.rmSync(folder, { recursive: true }); });
  const page = await open(await browser.createBrowserContext(), server.url);
  assert.equal(await page.$eval("#model", (e) => e.value), "a-broken");
  assert.notEqual(await page.$eval("#error", (e) => e.textContent), "");
  await page.select("#model", "small");
  await ask(page, "func main() {");
  assert.ok((await answerOf(page)).length > 0);
});

withPage("who may not manage models is told why", async ({ page }) => {
  await page.click("#models-open");
  await until(page, () => document.querySelectorAll("#model-list tr").length === 1);
  assert.deepEqual(await page.$$eval("#pull-form, #model-list button", (l) => l.filter((e) => e.checkVisibility()).length), 0);
  assert.match(await page.$eval("#pull-why", (e) => e.textContent), /--allow-manage/);
});
