// What editors send, as it was recorded: llama.vim and llama.vscode, GitHub Copilot as a client of Ollama, Codex.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { key, start } from "./server.js";

let server;
before(async () => { server = await start(); });
after(async () => assert.equal(await server.stop(), 0));

async function send(path, body) {
  const headers = { Authorization: "Bearer " + key, "Content-Type": "application/json" };
  const response = await fetch(server.url + path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

// The embedded pair was not trained for fill-in-the-middle, and /infill says so; the other fields are those of /completion too.
test("llama.vim and llama.vscode", async () => {
  const common = {
    id_slot: 0, prompt: "func (r *Ring) Push(", n_predict: 64, n_indent: 1, stop: [], top_k: 40, top_p: 0.9, temperature: 0, samplers: ["top_k", "top_p", "infill"], stream: false,
    cache_prompt: true, t_max_prompt_ms: 500, t_max_predict_ms: 100000,
    response_fields: ["content", "timings/prompt_n", "timings/predicted_n", "timings/predicted_per_second", "truncated", "tokens_cached"],
  };
  const filled = await send("/infill", { ...common, input_prefix: "package main\n\n", input_suffix: "\n}\n", input_extra: [{ filename: "a.go", text: "package a\n" }] });
  assert.equal(filled.status, 400);
  assert.match(filled.body.error.message, /fill-in-the-middle/);
  const unsure = await send("/completion", common); // the pair's next token has less than 0.2
  assert.deepEqual([unsure.status, unsure.body.content], [200, ""]);
  const { status, body } = await send("/completion", { ...common, samplers: ["top_k", "top_p"] });
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.content, "c *uint64, n *uint64) {\n\tif n.nn != 0 {\n\t\treturn n\n\t}\n\treturn n");
  const ahead = await send("/completion", { ...common, n_predict: 0, samplers: [], response_fields: ["content"] });
  assert.deepEqual([ahead.status, ahead.body], [200, { content: "" }]);
  assert.ok(body["timings/predicted_n"] > 0 && body.truncated === false && body.tokens_cached > 0);
});

test("Copilot", async () => {
  const version = await send("/api/version");
  const [major, minor, patch] = version.body.version.split(".").map(Number);
  assert.ok(major > 0 || minor > 6 || (minor === 6 && patch >= 4), version.body.version);
  const tags = await send("/api/tags");
  const show = await send("/api/show", { model: tags.body.models[0].model });
  assert.ok(show.body.capabilities.includes("completion") && show.body.capabilities.includes("tools"));
  const info = show.body.model_info;
  assert.ok(info[info["general.architecture"] + ".context_length"] > 0);
  const chat = await send("/v1/chat/completions", {
    model: tags.body.models[0].model, messages: [{ role: "system", content: "Go" }, { role: "user", content: "func main" }], temperature: 0.1, top_p: 1, max_tokens: 8, n: 1, stream: false,
    tools: [{ type: "function", function: { name: "read_file", description: "d", parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] } } }],
  });
  assert.equal(chat.status, 200);
});

test("Codex", async () => {
  const { status, body } = await send("/v1/responses", {
    model: "embedded", instructions: "Go", input: [{ type: "message", role: "user", content: [{ type: "input_text", text: "func main" }] }],
    tools: [{ type: "function", name: "shell", description: "d", strict: false, parameters: { type: "object", properties: { command: { type: "array", items: { type: "string" } } }, required: ["command"], additionalProperties: false } }, { type: "web_search" }, { type: "local_shell" }, { type: "custom", name: "apply_patch" }],
    tool_choice: "auto", parallel_tool_calls: false, reasoning: null, store: false, stream: false, include: ["reasoning.encrypted_content"], prompt_cache_key: "k", text: { verbosity: "low" }, max_output_tokens: 8,
  });
  assert.equal(status, 200, JSON.stringify(body));
});
