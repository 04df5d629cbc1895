// The dialog of models: which there are, which are in memory; loading, unloading and, where the server allows it, pulling.

import { get, lines, post } from "./api.js";
import { $, button, el, size } from "./dom.js";

// list is what the server has: name, bytes, what kind, whether it is in memory and with which context.
async function list(key) {
  const [models, tags, running] = await Promise.all([get("v1/models", key), get("api/tags", key), get("api/ps", key)]);
  const tagged = new Map((tags.models || []).map((m) => [m.name, m])), inMemory = new Set((running.models || []).map((m) => m.name));
  return (models.data || []).map((m) => ({
    name: m.id, context: m.context_length || 0, loaded: inMemory.has(m.id), bytes: (tagged.get(m.id) || {}).size || 0,
    details: (tagged.get(m.id) || {}).details || {},
  }));
}

export class Models {
  /** @param {{key: () => string, props: () => object, changed: () => void}} page changed: there are other models than before */
  constructor(page) {
    this.page = page;
    this.pulling = null;
    $("models-open").addEventListener("click", () => { this.say(""); $("models").showModal(); this.refresh(); });
    $("pull-form").addEventListener("submit", (e) => { e.preventDefault(); this.pull($("pull-name").value.trim()); });
    $("pull-stop").addEventListener("click", () => { if (this.pulling) this.pulling.abort(); });
  }

  say(message) {
    $("models-error").textContent = message;
    $("models-error").hidden = !message;
  }

  async refresh() {
    const props = this.page.props() || { may_manage: true, has_models_dir: true }; // without a model nothing is known: the server says
    $("pull-form").hidden = !(props.may_manage && props.has_models_dir);
    $("pull-why").hidden = !$("pull-form").hidden;
    $("pull-why").textContent = !props.may_manage
      ? "Pulling and unloading models needs an admin key, or a server with --allow-manage."
      : "Pulling models needs a server with a folder of models (--models-dir).";
    try {
      const models = await list(this.page.key());
      $("model-list").replaceChildren(...models.map((m) => this.row(m, props)));
    } catch (e) {
      this.say(e.message);
    }
  }

  row(m, props) {
    const kind = [m.details.family, m.details.parameter_size, m.details.quantization_level, m.bytes ? size(m.bytes) : ""].filter((x) => x).join(", ");
    const state = m.loaded ? "in memory" + (m.context ? `, context ${m.context}` : "") : "not loaded";
    const act = m.loaded
      ? props.may_manage && button("Unload", () => this.change(m.name, { keep_alive: 0 }, "unloaded"), { "aria-label": "Unload " + m.name })
      : button("Load", () => this.change(m.name, {}, "loaded"), { "aria-label": "Load " + m.name });
    return el("tr", {}, el("th", { scope: "row" }, m.name), el("td", {}, kind), el("td", { className: "state" }, state), el("td", {}, act));
  }

  // change loads or unloads: a request without a prompt, as Ollama has it.
  async change(name, more, done) {
    this.say("");
    $("models-state").textContent = done === "loaded" ? `Loading ${name} …` : `Unloading ${name} …`;
    try {
      await post("api/generate", { model: name, ...more }, this.page.key());
      $("models-state").textContent = `${name} is ${done}.`;
    } catch (e) {
      $("models-state").textContent = "";
      this.say(e.message);
    }
    await this.refresh();
  }

  async pull(name) {
    if (!name || this.pulling) return;
    this.say("");
    this.pulling = new AbortController();
    $("pull-stop").hidden = false;
    $("pull-progress").hidden = false;
    $("pull-progress").removeAttribute("value");
    try {
      let status = "";
      for await (const line of lines("api/pull", { model: name }, { key: this.page.key(), signal: this.pulling.signal })) {
        status = line.status;
        if (line.total) {
          $("pull-progress").max = line.total;
          $("pull-progress").value = line.completed || 0;
        }
        $("models-state").textContent = line.total ? `${line.status}: ${size(line.completed || 0)} of ${size(line.total)}` : line.status;
      }
      if (status !== "success") throw new TypeError("the connection ended before the download did; it goes on where it was when it is pulled again");
      $("models-state").textContent = `${name} is here.`;
      $("pull-name").value = "";
      this.page.changed();
    } catch (e) {
      $("models-state").textContent = e.name === "AbortError" ? "Stopped. It goes on where it was when it is pulled again." : "";
      if (e.name !== "AbortError") this.say(e.message);
    }
    this.pulling = null;
    $("pull-stop").hidden = true;
    $("pull-progress").hidden = true;
    await this.refresh();
  }
}
