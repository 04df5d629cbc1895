// A conversation with the page in a real browser. Fails on a script error, a violation of the content security policy, markup from
// the model, sideways scrolling, an axe violation, or where speculation is not visible. Needs Chromium (CHROMIUM names another place);
// SHOTS names a folder for screenshots. URL names a server that runs already, without a key.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import fs from "node:fs";
import test from "node:test";
import puppeteer from "puppeteer-core";
import { key, start } from "./server.js";

const chromium = process.env.CHROMIUM || "/usr/bin/chromium";
const shots = process.env.SHOTS;
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const minutes = 60_000;
const shown = "func (r *Reader) ReadLine() (line []byte, err error) {"; // in the screenshots

// ended does something that starts a request and waits until it has ended.
async function ended(page, act) {
  const requests = () => Number(document.body.dataset.requests || 0);
  const before = await page.evaluate(requests);
  await act();
  await page.waitForFunction((n) => Number(document.body.dataset.requests || 0) > n, { timeout: 4 * minutes }, before);
}
const ask = (page, text) => ended(page, async () => { await page.type("#prompt", text); await page.keyboard.press("Enter"); });

test("a conversation in the browser", { skip: !fs.existsSync(chromium) && `${chromium} is not here`, timeout: 10 * minutes }, async (t) => {
  const server = process.env.URL ? null : await start();
  const url = process.env.URL || server.url;
  const problems = [];
  const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--disable-gpu"], headless: true });
  const open = async (context) => {
    const page = await context.newPage();
    await page.evaluateOnNewDocument((k) => sessionStorage.setItem("spec.key", k), key);
    return page;
  };
  try {
    for (const [name, width, height, scheme] of [["light", 1280, 960, "light"], ["dark", 1280, 960, "dark"], ["phone", 400, 860, "light"]]) {
      const context = await browser.createBrowserContext();
      const page = await open(context);
      page.on("console", (m) => { if (["error", "warning", "warn"].includes(m.type())) problems.push(`${name}: ${m.text()}`); });
      page.on("pageerror", (e) => problems.push(`${name}: ${e.message}`));
      page.on("dialog", (d) => { problems.push(`${name}: dialog ${d.message()}`); d.dismiss(); });
      await page.setViewport({ width, height });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.goto(url);
      await page.waitForFunction(() => !document.getElementById("model").disabled);

      // Settings by the keyboard alone.
      await page.focus("#settings-open");
      await page.keyboard.press("Enter");
      await page.waitForSelector("#settings[open]");
      await page.type("#max_tokens", "96");
      await page.type("#temperature", "0");
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => !document.getElementById("settings").open);

      // Text that would be markup if the page took it for that.
      await ask(page, "func <img src=x onerror=alert(1)> main() {");
      const text = await page.$eval(".message.assistant .body", (e) => e.textContent);
      assert.ok(text.length > 20, "an answer is shown");
      assert.equal(await page.$$eval("#log script, #log img, #log iframe", (l) => l.length), 0, "no markup from the model or the user");
      assert.ok(await page.$$eval(".marked .s-draft, .marked .s-lookup", (l) => l.length) > 0, "drafted tokens are marked");
      for (const id of ["rate", "acceptance", "perpass"]) assert.notEqual(await page.$eval("#" + id, (e) => e.textContent), "–", id + " is shown");
      assert.ok(await page.$$eval("#chart rect.accepted", (l) => l.length) > 0, "the chart has bars");

      // The same request without drafts gives the same text (temperature 0).
      await page.select("#drafter", "off");
      await ended(page, () => page.click("#again"));
      assert.equal(await page.$eval(".message.assistant .body", (e) => e.textContent), text, "speculation changes nothing but the speed");
      assert.equal(await page.$eval("#acceptance", (e) => e.textContent), "–", "no drafts when they are off");
      await page.select("#drafter", "");

      if (name === "light") {
        await ended(page, () => page.click("#measure"));
        assert.match(await page.$eval("#speedup", (e) => e.textContent), /^\d+\.\d\d×$/);
      }
      if (shots) {
        if (width < 680) await page.click("#menu");
        await page.click("#new");
        if (width < 680) await page.click("#menu");
        await ask(page, shown);
        await ended(page, () => page.click("#measure"));
        await page.evaluate(() => { document.activeElement.blur(); document.querySelector(".columns").scrollTop = 0; });
        await page.screenshot({ path: `${shots}/page-${name}.png` });
      }
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + " does not scroll sideways");

      // Esc stops an answer.
      await ended(page, async () => {
        await page.type("#prompt", "// a long comment");
        await page.keyboard.press("Enter");
        await page.keyboard.press("Escape");
      });

      // Conversations survive a reload and can be deleted.
      await page.reload();
      await page.waitForSelector("#conversations li:last-child button:not(.open)");
      const many = await page.$$eval("#conversations li", (l) => l.length);
      if (width < 680) await page.click("#menu");
      await page.click("#conversations li:last-child .open");
      assert.ok((await page.$eval("#log", (e) => e.textContent)).includes(text.slice(0, 20)), "the conversation is kept");
      await page.click("#conversations li:last-child button:not(.open)");
      assert.equal(await page.$$eval("#conversations li", (l) => l.length), many - 1, "the conversation is deleted");

      await page.close();
      const again = await open(context);
      await again.setBypassCSP(true); // axe is injected; the page itself was used with its policy above
      await again.setViewport({ width, height });
      await again.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await again.goto(url);
      await again.waitForFunction(() => !document.getElementById("model").disabled);
      await ask(again, "func main() {");
      await again.evaluate(axe);
      for (const v of (await again.evaluate(() => axe.run())).violations) problems.push(`${name}: axe ${v.id}: ${v.help}: ${v.nodes[0].html.slice(0, 120)}`);
      await context.close();
      t.diagnostic(`${name} ${width} px`);
    }
  } finally {
    await browser.close();
    if (server) await server.stop();
  }
  assert.deepEqual(problems, []);
});
