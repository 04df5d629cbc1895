// A conversation with the page in a real browser, in light, dark and on a telephone. Fails on a script error, a violation of the
// content security policy, markup from the model, sideways scrolling, a second area that scrolls on a telephone, an axe violation,
// or where speculation is not visible in its panel. SHOTS names a folder for screenshots.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import fs from "node:fs";
import test from "node:test";
import { answerOf, ask, clickAt, ended, inBrowser, launch, open, press, until, write } from "./browser.js";
import { start } from "./server.js";

const shots = process.env.SHOTS, shown = "func (r *Reader) ReadLine() (line []byte, err error) {";
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const looks = [["light", 1280, 900, "light"], ["dark", 1280, 900, "dark"], ["phone", 390, 844, "light"]];

// scrollers are the areas of the page that scroll, code and fields apart, and the page itself where it does.
const scrollers = (page) => page.evaluate(() => [
  ...(document.scrollingElement.scrollHeight > innerHeight ? ["the page"] : []),
  ...[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && /auto|scroll/.test(getComputedStyle(e).overflowY) && !e.matches("textarea, pre, table, .math")).map((e) => e.id || e.className || e.nodeName),
]);

test("a conversation in the browser", inBrowser, async (t) => {
  const server = await start(), browser = await launch(), problems = [];
  t.after(async () => { await browser.close(); await server.stop(); });
  for (const [name, width, height, scheme] of looks) {
    const context = await browser.createBrowserContext(), found = [];
    const page = await open(context, server.url, { width, height, scheme, problems: found, panel: width > 680 });
    page.on("dialog", (d) => { found.push(`dialog ${d.message()}`); d.dismiss(); });

    // Settings by the keyboard alone.
    await page.focus("#settings-open");
    await page.keyboard.press("Enter");
    await until(page, () => document.getElementById("settings").open);
    await page.$eval("#system", (e) => e.focus());
    await page.keyboard.type("You write Go.");
    await page.keyboard.press("Escape");
    await until(page, () => !document.getElementById("settings").open);

    // Text that would be markup if the page took it for that.
    await ask(page, "func <img src=x onerror=alert(1)> main() {");
    const text = await answerOf(page);
    assert.ok(text.length > 20, "an answer is shown");
    assert.equal(await page.$$eval("#log script, #log img, #log iframe", (l) => l.length), 0, "no markup from the model or the user");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name + " does not scroll sideways");
    if (width < 680) {
      assert.deepEqual(await scrollers(page), ["log"], "one area scrolls");
      await page.click("#panel-open");
      await until(page, () => !document.getElementById("panel").hidden);
      assert.equal(await page.$$eval(".marked", (l) => l.length), 0, "tokens are marked only where that is chosen");
      await page.click("#sources");
      await page.click("#panel-close");
      await ended(page, () => press(page, "regenerate"));
      await page.click("#panel-open");
    }
    assert.ok(await page.$$eval(".marked .s-draft, .marked .s-lookup", (l) => l.length) > 0 || width < 680, "drafted tokens are marked");
    if (width > 680) for (const id of ["rate", "acceptance", "perpass"]) assert.notEqual(await page.$eval("#" + id, (e) => e.textContent), "–", id + " is shown");
    if (width > 680) assert.ok(await page.$$eval("#chart rect.accepted", (l) => l.length) > 0, "the chart has bars");

    // The same request without drafts gives the same text (temperature 0).
    await page.select("#drafter", "off");
    if (width < 680) await page.click("#panel-close");
    await ended(page, () => press(page, "regenerate"));
    assert.equal(await answerOf(page), text, "speculation changes nothing but the speed");
    if (width > 680) assert.equal(await page.$eval("#acceptance", (e) => e.textContent), "–", "no drafts when they are off");
    await page.select("#drafter", "");
    if (name === "light") {
      await ended(page, () => page.click("#measure"));
      assert.match(await page.$eval("#speedup", (e) => e.textContent), /^\d+\.\d\d×$/);
    }

    // Esc stops an answer.
    await ended(page, async () => {
      await write(page, "// a long comment");
      await page.keyboard.press("Escape");
    });
    assert.deepEqual(found, [], name);
    await page.close();

    // axe is injected; the page itself was used with its policy above. Everything that opens is open once.
    const again = await context.newPage();
    await again.setBypassCSP(true);
    await again.setViewport({ width, height });
    await again.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await again.goto(server.url + "/");
    await until(again, () => document.querySelectorAll("#conversations .open").length === 1);
    await again.evaluate(axe);
    const check = async (what) => {
      for (const v of (await again.evaluate(() => axe.run())).violations) problems.push(`${name}, ${what}: axe ${v.id}: ${v.help}: ${v.nodes[0].html.slice(0, 160)}`);
    };
    await check("an empty conversation");
    await clickAt(again, "#conversations .open", 0);
    await until(again, () => document.querySelectorAll("#log article").length > 1);
    await check("a conversation");
    await clickAt(again, "#log [data-action=edit]", 0);
    await again.$eval("#more", (e) => { e.open = true; });
    await check("an editor and a menu");
    for (const id of ["settings", "models"]) {
      await clickAt(again, `#${id}-open`, 0);
      await check(id);
      await again.$eval(`#${id}`, (e) => e.close());
    }
    if (width < 680) { await again.click("#menu"); await check("the list"); await again.click("#menu"); }
    await again.$eval("#panel", (e) => { if (e.hidden) document.querySelector("#panel-open").click(); });
    await check("the panel");
    if (shots) {
      const pictured = await open(context, server.url, { width, height, scheme, panel: width > 680 });
      await pictured.$eval("#panel", (e) => { if (!e.hidden && innerWidth < 680) document.querySelector("#panel-close").click(); });
      await ask(pictured, shown);
      if (width > 680) await ended(pictured, () => pictured.click("#measure"));
      await pictured.evaluate(() => document.activeElement.blur());
      await pictured.screenshot({ path: `${shots}/page-${name}.png` });
    }
    await context.close();
    t.diagnostic(`${name} ${width} px`);
  }
  assert.deepEqual(problems, []);
});
