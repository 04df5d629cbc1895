// Making and finding elements. Text becomes text nodes only; nothing is ever parsed as markup.

/** The element with an id. */
export const $ = (id) => document.getElementById(id);

/**
 * Makes an element. Names with a hyphen or "role" are attributes, "data" is an object of data-…, all others are properties.
 * Children that are null or false are left out.
 */
export function el(name, properties = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(properties)) {
    if (v === undefined || v === null) continue;
    if (k === "data") Object.assign(e.dataset, v);
    else if (k === "role" || k.includes("-")) e.setAttribute(k, v);
    else e[k] = v;
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

/** A button that does something. */
export function button(text, action, properties = {}) {
  const b = el("button", { type: "button", ...properties }, text);
  if (action) b.addEventListener("click", action);
  return b;
}

/** Fills a select with [value, text] pairs, and keeps what was chosen where it is still there. */
export function fillSelect(select, pairs, chosen = select.value) {
  select.replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text)));
  select.value = pairs.some(([value]) => value === chosen) ? chosen : pairs.length > 0 ? pairs[0][0] : "";
}

/** Shows an error below the conversation; "" takes it away. */
export function report(message) {
  $("error").textContent = message;
  $("error").hidden = !message;
}

let noticeTimer = 0;
const noticeTime = 20_000; // milliseconds; long enough to find the button

/** Shows what was done, with a button that takes it back where undo is given. */
export function notice(message, undo) {
  clearTimeout(noticeTimer);
  const hide = () => { $("notice").hidden = true; $("notice").replaceChildren(); };
  $("notice").replaceChildren(el("span", {}, message), ...(undo ? [button("Undo", () => { hide(); undo(); })] : []), button("Dismiss", hide));
  $("notice").hidden = false;
  noticeTimer = setTimeout(hide, noticeTime);
}

/** Copies a text, also where the page is not a secure context and has no clipboard. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { value: text, readOnly: true, className: "offscreen" });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Offers a text as a file. */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = el("a", { href: url, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the download has begun by then
}

/** A size in the units that people know. */
export function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (bytes >= 1000 && i < units.length - 1) { bytes /= 1000; i++; }
  return (i === 0 ? String(bytes) : bytes.toPrecision(3)) + " " + units[i];
}
