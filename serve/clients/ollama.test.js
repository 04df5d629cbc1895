// The official client of Ollama's API against spec serve.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Ollama } from "ollama";
import { key, start } from "./server.js";

let server, client;
before(async () => {
  server = await start();
  client = new Ollama({ host: server.url, headers: { Authorization: "Bearer " + key } });
});
after(async () => assert.equal(await server.stop(), 0));

const model = "embedded";
const messages = [{ role: "user", content: "func main" }];
const options = { num_predict: 12, num_ctx: 512, seed: 3 };

test("chat", async () => {
  const answer = await client.chat({ model, messages, options, keep_alive: "5m" });
  assert.equal(answer.message.role, "assistant");
  assert.ok(answer.done && answer.message.content.length > 0 && answer.eval_count === 12 && answer.done_reason === "length");
  let text = "", parts = 0;
  for await (const part of await client.chat({ model, messages, options, stream: true })) {
    text += part.message.content;
    parts++;
  }
  assert.equal(text, answer.message.content);
  assert.ok(parts > 2);
});

test("generate", async () => {
  const answer = await client.generate({ model, prompt: "func main", options });
  assert.ok(answer.response.length > 0);
  let text = "";
  for await (const part of await client.generate({ model, prompt: "func main", options, stream: true })) text += part.response;
  assert.equal(text, answer.response);
  const raw = await client.generate({ model, prompt: "func (r *Ring) Push(", raw: true, options: { num_predict: 24 } });
  assert.equal(raw.response, "c *uint64, n *uint64) {\n\tif n.nn != 0 {\n\t\treturn");
});

test("load and unload", async () => {
  assert.equal((await client.generate({ model, prompt: "" })).done_reason, "load");
  assert.equal((await client.chat({ model, messages: [] })).done_reason, "load");
});

test("structured output", async () => {
  const format = { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] };
  const answer = await client.chat({ model, messages, format, options: { num_predict: 60 } });
  assert.equal(typeof JSON.parse(answer.message.content).ok, "boolean");
});

test("tools", async () => {
  const tools = [{ type: "function", function: { name: "look_up", description: "d", parameters: { type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"] } } }];
  const answer = await client.chat({ model, messages, tools, options });
  assert.equal(answer.message.role, "assistant");
  const call = { function: { name: "look_up", arguments: { deep: true } } };
  const next = await client.chat({ model, tools, options, messages: [...messages, { role: "assistant", content: "", tool_calls: [call] }, { role: "tool", tool_name: "look_up", content: "42" }] });
  assert.ok(next.done);
});

test("embeddings", async () => {
  const answer = await client.embed({ model, input: ["func main", "return"] });
  assert.equal(answer.embeddings.length, 2);
  assert.equal(answer.embeddings[0].length, 256);
  const older = await client.embeddings({ model, prompt: "func main" });
  assert.deepEqual(older.embedding, answer.embeddings[0]);
});

test("models", async () => {
  assert.deepEqual((await client.list()).models.map((m) => m.name), [model]);
  assert.deepEqual((await client.ps()).models.map((m) => m.name), [model]);
  const show = await client.show({ model });
  assert.equal(show.details.family, "llama");
  assert.ok(show.capabilities.includes("tools"));
});

test("errors", async () => {
  await assert.rejects(client.chat({ model, messages, options: { tfs_z: 0.5 } }), /options\.tfs_z/);
  await assert.rejects(client.pull({ model: "x" }), /--allow-manage/);
  await assert.rejects(client.generate({ model, prompt: "x", images: ["aGk="] }), /images/);
});
