// The panel of speculation: what drafts, how long drafts are, what of them is accepted, and what that gains.

import { stream } from "./api.js";
import { Answer, classes, sources } from "./answer.js";
import { draw } from "./chart.js";
import { $, el, fillSelect } from "./dom.js";

const measuredTokens = 128; // of one run of "Measure speedup"
const measuredPairs = 3;    // runs without and with drafts, taken in turn
const fewTokens = 32;       // a run of fewer is too short for a figure
const off = "off";          // the choice of drafter that stands for plain decoding

const legend = {
  target: "target model alone", draft: "draft model or head, accepted", lookup: "lookup, accepted", grammar: "grammar, forced",
};

/** Names of the panel's fields, which hold for all conversations of this browser. */
export const fields = ["drafter", "schedule", "max"];

export const shown = () => !$("panel").hidden;
export const marks = () => shown() && $("sources").checked;

/** What a request says about speculation. Who wrote each token is asked for only while the panel is there to tell it. */
export function choice() {
  const s = shown() ? { trace: true } : {};
  if ($("drafter").value === off) return { ...s, off: true };
  if ($("drafter").value) s.drafter = $("drafter").value;
  if ($("schedule").value) s.schedule = $("schedule").value;
  if ($("max").value) s.max = Number($("max").value);
  return s;
}

export function drawLegend() {
  $("legend").replaceChildren(...sources.map((s, i) =>
    el("li", {}, el("span", { className: classes[i] }, legend[s]), el("span", { className: "count", id: "count-" + s }, "0"))));
}

/** Shows the figures of an answer (null: none), and whether there is something to measure. */
export function drawFigures(answer, measurable) {
  if (!shown()) return;
  const f = answer ? answer.figures() : null;
  $("rate").textContent = f && f.rate ? f.rate.toFixed(1) : "–";
  $("acceptance").textContent = f && f.drafted ? `${f.accepted} of ${f.drafted}` : "–";
  $("perpass").textContent = f && f.perPass ? f.perPass.toFixed(2) : "–";
  draw($("chart"), answer ? answer.rounds : []);
  sources.forEach((s, i) => { $("count-" + s).textContent = answer ? answer.counts[i] : 0; });
  $("measure").disabled = !measurable || $("drafter").value === off;
}

/** Fills the choices from what the server says of a model. */
export function offer(props, chosen) {
  const s = (props && props.speculation) || { drafters: [], schedules: [] };
  const pairs = (names, first) => [["", first], ...names.map((n) => [n, n])];
  fillSelect($("drafter"), pairs([...(s.drafters || []).filter((d) => d !== off), off], s.drafter ? `default (${s.drafter})` : "default"), $("drafter").value || chosen.drafter || "");
  fillSelect($("schedule"), pairs(s.schedules || [], s.schedule ? `default (${s.schedule})` : "default"), $("schedule").value || chosen.schedule || "");
  explain(props);
}

/** Says what the chosen drafter and schedule are. */
export function explain(props) {
  const s = (props && props.speculation) || {};
  const drafter = $("drafter").value || s.drafter, schedule = $("schedule").value || s.schedule;
  const about = { ...s.about, [off]: (s.about || {}).none }, lines = [];
  if (about[drafter]) lines.push(`${drafter}: ${about[drafter]}.`);
  if (drafter !== off && drafter !== "none" && about[schedule]) lines.push(`${schedule}: ${about[schedule]}.`);
  $("explained").textContent = lines.join(" ");
}

/** Runs a request without and with drafts, in turn, and shows the median of the pairs' ratios. */
export async function measure({ path, body }, key, signal) {
  const rates = { plain: [], fast: [] };
  let tokens = 0;
  const run = async (kind, speculation) => {
    const a = new Answer(), most = Math.min(measuredTokens, body.max_tokens || measuredTokens);
    for await (const event of stream(path, { ...body, max_tokens: most, speculation }, { key, signal })) a.take(event);
    if (!a.timings) return;
    rates[kind].push(a.timings.predicted_per_second);
    tokens = a.timings.predicted_n;
  };
  try {
    for (let i = 1; i <= measuredPairs; i++) {
      // The order changes from pair to pair, so that a machine that warms up or slows down favors neither.
      const pair = [["plain", { off: true }], ["fast", choice()]];
      if (i % 2 === 0) pair.reverse();
      for (const [k, [kind, speculation]] of pair.entries()) {
        $("speedup").textContent = `run ${2 * i - 1 + k} of ${2 * measuredPairs}`;
        await run(kind, speculation);
      }
    }
  } catch (e) {
    $("speedup").textContent = "–";
    throw e;
  }
  const pairs = rates.fast.map((fast, i) => ({ fast, plain: rates.plain[i], ratio: fast / rates.plain[i] })).sort((x, y) => x.ratio - y.ratio);
  const ok = pairs.length === measuredPairs && pairs.every((p) => Number.isFinite(p.ratio));
  const median = pairs[Math.floor(pairs.length / 2)]; // its own two rates are told, so that they have the ratio that is shown
  $("speedup").textContent = ok ? `${median.ratio.toFixed(2)}×` : "–";
  $("measure-note").textContent = !ok ? "The answer was too short to measure." :
    `${median.fast.toFixed(1)} against ${median.plain.toFixed(1)} tokens per second: the median of ${measuredPairs} pairs of runs of ${tokens} tokens, which are between ${pairs[0].ratio.toFixed(2)}× and ${pairs.at(-1).ratio.toFixed(2)}×.` +
    (tokens < fewTokens ? " So few tokens give no reliable figure." : "");
}
