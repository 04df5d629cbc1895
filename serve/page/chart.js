// The chart of draft lengths: one bar per pass of the target, its accepted part at the bottom.

const svg = "http://www.w3.org/2000/svg";
const mostBars = 48; // the last passes; more would be narrower than can be seen

function add(parent, name, attributes, text) {
  const e = document.createElementNS(svg, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
}

/** Draws rounds [{n_draft, n_accept}] into an svg element. */
export function draw(element, rounds) {
  const width = element.clientWidth || 280, height = element.clientHeight || 112;
  const left = 22, bottom = 14, top = 8;
  element.setAttribute("viewBox", `0 0 ${width} ${height}`);
  element.replaceChildren();
  const shown = rounds.slice(-mostBars), first = rounds.length - shown.length;
  const most = Math.max(4, ...shown.map((r) => r.n_draft));
  const y = (n) => top + (height - top - bottom) * (1 - n / most);
  const step = most <= 8 ? 2 : most <= 16 ? 4 : most <= 32 ? 8 : 16;
  for (let n = 0; n <= most; n += step) {
    add(element, "line", { x1: left, x2: width, y1: y(n), y2: y(n), "stroke-width": 1 });
    add(element, "text", { x: left - 4, y: y(n) + 3, "text-anchor": "end" }, n);
  }
  const slot = (width - left) / Math.max(12, shown.length), bar = Math.max(2, slot - 2);
  shown.forEach((r, i) => {
    const x = left + i * slot + 1;
    add(element, "rect", { class: "rejected", x, width: bar, y: y(r.n_draft), height: Math.max(0, y(r.n_accept) - y(r.n_draft)) });
    add(element, "rect", { class: "accepted", x, width: bar, y: y(r.n_accept), height: Math.max(0, y(0) - y(r.n_accept)) });
  });
  if (shown.length > 0) {
    add(element, "text", { x: left, y: height - 3 }, "pass " + (first + 1));
    add(element, "text", { x: Math.min(width - 2, left + shown.length * slot), y: height - 3, "text-anchor": shown.length > 12 ? "end" : "start" }, shown.length > 3 ? rounds.length : "");
  }
  const mean = (f) => (rounds.length ? rounds.reduce((n, r) => n + f(r), 0) / rounds.length : 0).toFixed(1);
  element.setAttribute("aria-label", `Draft length by pass: ${rounds.length} passes, ${mean((r) => r.n_draft)} tokens drafted and ${mean((r) => r.n_accept)} accepted on average`);
}
