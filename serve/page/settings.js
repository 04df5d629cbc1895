// The dialog of a conversation's settings: system message, samplers, tools, schema. The API key is of this tab.

import { $ } from "./dom.js";
import { readSchema, readTools, settingNames } from "./request.js";

const secretKey = "spec.key", defaultsKey = "spec.defaults";

/** A value of this browser's local storage; fallback where there is none. */
export function load(key, fallback) {
  try { return JSON.parse(localStorage.getItem(key)) ?? fallback; } catch { return fallback; }
}

/** Keeps a small value; where that fails it is set again another time. */
export function keep(key, value) {
  try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* not worth a message */ }
}

/** Settings with which a new conversation begins. */
export const defaults = () => ({ ...load(defaultsKey, {}) });

export function loadKey() {
  try { $("key").value = sessionStorage.getItem(secretKey) || ""; } catch { /* none */ }
}

// fieldError says what is wrong with a field; "" if nothing is.
function fieldError(name) {
  const text = $(name).value;
  try {
    if (name === "tools") readTools(text);
    if (name === "schema") readSchema(text);
  } catch (e) {
    return `${name === "tools" ? "Tools" : "JSON Schema"}: ${e.message}`;
  }
  return $(name).validity && !$(name).validity.valid ? `${name}: ${$(name).validationMessage}` : "";
}

// read is what the fields say; null, with a message in the dialog, where something is wrong.
function read() {
  const wrong = settingNames.map(fieldError).find((e) => e);
  $("settings-error").textContent = wrong || "";
  $("settings-error").hidden = !wrong;
  if (wrong) return null;
  return Object.fromEntries(settingNames.map((n) => [n, $(n).value]).filter(([, v]) => v.trim() !== ""));
}

/**
 * Prepares the dialog.
 * @param {() => object} current the settings of the open conversation
 * @param {(settings: object) => void} changed called with new ones when the dialog closes
 */
export function setup(current, changed) {
  const dialog = $("settings");
  $("settings-open").addEventListener("click", () => {
    const s = current();
    for (const n of settingNames) $(n).value = s[n] ?? "";
    read();
    dialog.showModal();
  });
  const close = (e) => {
    const s = read();
    if (!s) { e.preventDefault(); return; }
    try { sessionStorage.setItem(secretKey, $("key").value); } catch { /* it holds until the page is loaded again */ }
    changed(s);
  };
  dialog.addEventListener("cancel", close);
  dialog.querySelector("form").addEventListener("submit", close);
  $("defaults").addEventListener("click", () => {
    const s = read();
    if (!s) return;
    keep(defaultsKey, s);
    $("defaults-note").textContent = "New conversations begin with these.";
  });
  dialog.addEventListener("close", () => { $("defaults-note").textContent = ""; });
}
