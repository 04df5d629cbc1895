// Nothing of a conversation is lost: by two tabs, by loading the page again during an answer, by a restart of the server, by
// full storage, by a closed laptop. In Chromium.
import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { answerOf, ask, clickAt, ended, gate, inBrowser, launch, open, press, ready, stored, texts, until, write } from "./browser.js";
import { key, start } from "./server.js";

const question = "func (r *Reader) ReadLine(";
const few = 2000, enough = 16000; // bytes of a stream that hold a part of an answer, and not all of it

// whole is the answer that nothing interrupts.
async function whole(url) {
  const r = await fetch(url + "/v1/chat/completions", {
    method: "POST", headers: { Authorization: "Bearer " + key }, body: JSON.stringify({ messages: [{ role: "user", content: question }], temperature: 0, max_tokens: 96 }),
  });
  return (await r.json()).choices[0].message.content;
}

// begun asks, and waits until a part of the answer is shown and kept, while the gate holds the rest; at: answers before it.
// The part comes in two pieces: the second one soon after the first one was kept, and nothing behind it.
async function begun(page, g, at = 0) {
  const shown = (length) => until(page, (n, length) => [...document.querySelectorAll(".message.assistant .body")][n]?.textContent.length > length, at, length);
  g.hold(few);
  await write(page, question);
  await shown(0);
  g.hold(enough);
  await shown(10);
  const part = await answerOf(page);
  await waitFor(async () => (await stored(page)).some((m) => m.state === "streaming" && m.content.length >= part.length), "the partial answer is kept while it comes");
  return part;
}

async function waitFor(condition, what) {
  for (let i = 0; i < 600; i++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(what);
}

// goesOn checks that question and part are there, and that the answer goes on behind the part to what it would have been.
async function goesOn(page, part, want) {
  await until(page, () => document.querySelector("#log [data-action=goon]"));
  assert.equal((await texts(page))[0], "user: " + question);
  const kept = await answerOf(page);
  assert.ok(kept.length > 0 && (kept.startsWith(part) || part.startsWith(kept)), `${part}\nbecame\n${kept}`);
  const asked = page.waitForRequest((r) => r.url().includes("/v1/chat/completions"));
  await ended(page, () => press(page, "goon"));
  const body = JSON.parse((await asked).postData());
  assert.deepEqual([body.continue_final_message, body.messages.at(-1).content], [true, kept], "the server goes on behind what is there");
  const [all] = (await stored(page)).filter((m) => m.role === "assistant");
  assert.equal(all.content.slice(0, want.length), want, "the answer is what it would have been");
  assert.equal((await texts(page)).length, 2, "it is the same message");
}

// with runs a test with a server, a gate, a browser and a page; what was written to the console fails it.
const withPage = (name, f) => test(name, inBrowser, async (t) => {
  const server = await start(), g = await gate(server.url), browser = await launch(), problems = [];
  const all = { server, g, browser, context: await browser.createBrowserContext(), problems };
  t.after(async () => { await browser.close(); await g.close(); await all.server.stop(); });
  all.page = await open(all.context, g.url, { problems });
  await f(all);
  assert.deepEqual(problems, []);
});

withPage("two tabs never overwrite each other", async ({ g, context, page, problems }) => {
  await ask(page, "func main() {");
  const second = await open(context, page.url(), { problems }); // its address names the conversation
  assert.deepEqual(await texts(second), await texts(page));

  // While one tab writes, the other one sees it, and what is to be sent there waits; so does what is edited there.
  await clickAt(second, ".message.user [data-action=edit]", 0);
  await second.keyboard.type("y");
  const part = await begun(page, g, 1);
  await until(second, () => document.querySelector("#log").textContent.includes("Another tab is writing this answer"));
  await write(second, "from the second tab");
  await until(second, () => document.querySelector("#error").textContent.includes("Another tab is writing"));
  assert.equal(await second.$eval("#prompt", (e) => e.value), "from the second tab", "what was not sent stays to be sent");
  await second.$eval("#error", (e) => { e.textContent = ""; });
  await second.click(".editor .main");
  await until(second, () => document.querySelector("#error").textContent.includes("Another tab is writing"));
  assert.match(await second.$eval(".editor textarea", (e) => e.value), /y$/, "what was edited and not taken is still there");
  await second.click(".editor button:not(.main)");
  await ended(page, () => g.release());
  assert.ok((await answerOf(page)).startsWith(part));
  await until(second, (t) => [...document.querySelectorAll(".message.assistant .body")].at(-1)?.textContent === t, await answerOf(page));
  assert.deepEqual(await texts(second), await texts(page));

  // Who edits a message in one tab is not disturbed by what another tab writes.
  await clickAt(page, ".message.user [data-action=edit]", 0);
  await page.keyboard.type("x");

  // Then the second one's message follows what the first one wrote; the title that one gives is kept beside it.
  await page.$eval("#title", (e) => { e.value = "renamed"; e.dispatchEvent(new Event("change")); });
  await ended(second, () => second.focus("#prompt").then(() => second.keyboard.press("Enter")));
  await until(page, () => [...document.querySelectorAll(".message.user .body")].at(-1)?.textContent === "from the second tab");
  await until(page, (n) => document.querySelectorAll("#log article").length === n, 6);
  assert.ok(await page.evaluate(() => document.activeElement.matches(".editor textarea") && document.activeElement.value.endsWith("x")), "the editor is still there, with the cursor in it");
  await clickAt(page, ".editor button:not(.main)", 0);

  // Both ask at once, without having seen the other's question: one of them waits, or there are two branches. Nothing is gone.
  await Promise.all([page.type("#prompt", "first at once"), second.type("#prompt", "second at once")]);
  await Promise.all([page, second].map((p) => p.focus("#prompt").then(() => p.keyboard.press("Enter"))));
  await waitFor(async () => (await stored(page)).filter((m) => m.state === "streaming").length === 0, "all answers have ended");
  const rest = await Promise.all([page, second].map((p) => p.$eval("#prompt", (e) => e.value)));
  const kept = (await stored(page)).map((m) => m.content);
  for (const [i, q] of ["first at once", "second at once"].entries()) assert.ok(kept.includes(q) || rest[i] === q, `${q} is neither kept nor still to be sent`);
  for (const q of ["func main() {", question, "from the second tab"]) assert.ok(kept.includes(q), `${q} is kept`);
  await page.reload();
  await ready(page);
  assert.equal(await page.$eval("#title", (e) => e.value), "renamed");

  // What changes here is seen also right after a change of another conversation.
  await second.evaluate(() => {
    new BroadcastChannel("spec").postMessage("another conversation");
    const title = document.getElementById("title");
    title.value = "renamed again";
    title.dispatchEvent(new Event("change"));
  });
  await until(page, () => document.getElementById("title").value === "renamed again");

  // What has not changed is not drawn again: it has the focus still, and can be clicked.
  await page.focus("#conversations .open");
  await second.evaluate(() => new BroadcastChannel("spec").postMessage("another conversation"));
  await new Promise((resolve) => setTimeout(resolve, 600)); // by then it has been drawn
  assert.ok(await page.evaluate(() => document.activeElement.matches("#conversations .open")));
});

withPage("without locks, too, another tab sees that an answer is under way while a long prompt is read", async ({ g, context, problems }) => {
  const noLocks = () => Object.defineProperty(Navigator.prototype, "locks", { value: undefined }); // as on pages that are neither https nor localhost
  const page = await open(context, g.url, { problems, before: noLocks });
  g.hold(0);
  await write(page, question);
  await until(page, () => location.hash !== "");
  const second = await open(context, page.url(), { problems, before: `(${noLocks})(); Date.now = ((now) => () => now() + 5000)(Date.now);` });
  const seen = () => second.$eval("#log", (e) => e.textContent);
  assert.match(await seen(), /Another tab is writing this answer/);
  await new Promise((resolve) => setTimeout(resolve, 12_000));
  assert.match(await seen(), /Another tab is writing this answer/);
  await ended(page, () => g.release());
});

test("where the browser keeps nothing and has no locks for a page, messages are answered", inBrowser, async (t) => {
  const userDataDir = fs.mkdtempSync(path.join(os.tmpdir(), "spec-profile-"));
  fs.mkdirSync(path.join(userDataDir, "Default"));
  fs.writeFileSync(path.join(userDataDir, "Default", "Preferences"), '{"profile":{"default_content_setting_values":{"cookies":2}}}');
  const server = await start(), browser = await launch({ userDataDir }), page = await browser.newPage();
  t.after(async () => { await browser.close(); await server.stop(); fs.rmSync(userDataDir, { recursive: true }); });
  await page.goto(server.url);
  await page.$eval("#key", (e, key) => { e.value = key; }, key);
  await page.click("#settings-open");
  await page.click("#settings button[value=ok]");
  await ready(page);
  assert.match(await page.$eval("#where", (e) => e.textContent), /lost when this tab closes/);
  await ask(page, "func main() {");
  assert.equal((await texts(page)).length, 2);
});

withPage("a page that is loaded again during an answer keeps question and part, and goes on", async ({ server, g, page }) => {
  const want = await whole(server.url), part = await begun(page, g);
  await page.type("#prompt", "not sent yet");
  await page.reload();
  await ready(page);
  assert.match(await page.$eval("#log", (e) => e.textContent), /The page was closed or loaded again here/);
  assert.equal(await page.$eval("#prompt", (e) => e.value), "not sent yet");
  g.release();
  await goesOn(page, part, want);
});

withPage("a server that dies and comes back: the page says so, tries again, and goes on", async (all) => {
  const { g, page } = all, want = await whole(all.server.url), part = await begun(page, g);
  await ended(page, async () => { await all.server.kill(); g.cut(); });
  await until(page, () => document.querySelector("#connection").textContent.includes("does not answer"));
  assert.match(await page.$eval("#log .note", (e) => e.textContent), /connection was lost/);
  await write(page, "asked while nobody is there"); // a question that nobody hears is kept too
  await until(page, () => document.querySelectorAll("#log .note.bad").length === 2);
  all.server = await start();
  g.behind(all.server.url);
  await until(page, () => document.querySelector("#connection").hidden);
  await ended(page, () => press(page, "regenerate"));
  assert.ok((await answerOf(page)).length > 0, "the question that nobody heard is answered");
  // The two messages are taken away again: the answer that was interrupted is the last one, and goes on.
  await clickAt(page, ".message.user [data-action=delete]", -1);
  await until(page, () => document.querySelectorAll("#log article").length === 2);
  await goesOn(page, part, want);
});

withPage("full storage: the page says so, keeps what is new in the tab, exports it, and writes it when there is room", async ({ g, browser, problems }) => {
  // Chromium looks at the quota when it opens a database, then lets small records through and no large one. It compresses records first.
  const context = await browser.createBrowserContext(), cdp = await (await context.newPage()).createCDPSession(), origin = g.url;
  await cdp.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 200_000 });
  const page = await open(context, g.url, { problems }), large = "large " + Array.from({ length: 600_000 }, (_, i) => ((i * i * 2654435761) % 1e6).toString(36)).join(" ");
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "spec-export-"));
  await cdp.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: folder, browserContextId: context.id });
  await ask(page, question);
  await ended(page, () => page.$eval("#prompt", (e, text) => { e.hidden = true; e.value = text; e.form.requestSubmit(); e.hidden = false; }, large));
  assert.match(await page.$eval("#full", (e) => (e.hidden ? "" : e.textContent)), /storage is full/);
  assert.ok(!(await stored(page)).some((m) => m.content === large), "the storage is full");
  const all = await texts(page);
  assert.deepEqual([all.length, all[2].startsWith("user: large ")], [4, true]);
  await page.click("#new"); // what is in memory only can be left and opened again
  await page.click("#conversations .open");
  await until(page, () => document.querySelectorAll("#log article").length === 4);
  assert.deepEqual(await texts(page), all);

  await page.click("#full-export");
  const file = path.join(folder, "conversations.json");
  await waitFor(async () => fs.existsSync(file) && fs.statSync(file).size > large.length, "a file is written");
  assert.equal(JSON.parse(fs.readFileSync(file)).messages.filter((m) => m.content === large).length, 1, "the export has what is not stored");

  await cdp.send("Storage.overrideQuotaForOrigin", { origin });
  await page.click("#full-retry");
  await until(page, () => document.querySelector("#full").hidden);
  await page.reload();
  await ready(page);
  await until(page, () => document.querySelectorAll("#log article").length === 4);
  assert.deepEqual(await texts(page), all);
  fs.rmSync(folder, { recursive: true });
});

withPage("a laptop that is closed: the connection is dead without a sign, the page notices and goes on", async ({ server, g, page }) => {
  const want = await whole(server.url), part = await begun(page, g);
  const cdp = await page.createCDPSession();
  await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
  await new Promise((resolve) => setTimeout(resolve, 500));
  await ended(page, () => cdp.send("Page.setWebLifecycleState", { state: "active" }));
  assert.match(await page.$eval("#log .note", (e) => e.textContent), /did not survive the sleep/);
  g.release();
  await goesOn(page, part, want);
});
