// The official client of Anthropic's API against spec serve.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { key, start } from "./server.js";

let server, client;
before(async () => {
  server = await start();
  client = new Anthropic({ baseURL: server.url, apiKey: key, maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

const model = "embedded";
const messages = [{ role: "user", content: "func main" }];
const tools = [{
  name: "look_up", description: "d",
  input_schema: { type: "object", properties: { deep: { type: "boolean" }, word: { type: "string", enum: ["a", "b"] } }, required: ["deep", "word"] },
}];

test("a message", async () => {
  const answer = await client.messages.create({ model, max_tokens: 16, system: "Go", messages, metadata: { user_id: "x" } });
  assert.equal(answer.type, "message");
  assert.equal(answer.content[0].type, "text");
  assert.equal(answer.stop_reason, "max_tokens");
  assert.equal(answer.usage.output_tokens, 16);
  const parts = await client.messages.create({
    model, max_tokens: 16, system: [{ type: "text", text: "Go", cache_control: { type: "ephemeral" } }],
    messages: [{ role: "user", content: [{ type: "text", text: "func main", cache_control: { type: "ephemeral" } }] }],
  });
  assert.equal(parts.content[0].text, answer.content[0].text);
});

test("a stream", async () => {
  const whole = await client.messages.create({ model, max_tokens: 16, messages });
  const kinds = new Set();
  for await (const event of await client.messages.create({ model, max_tokens: 16, messages, stream: true })) kinds.add(event.type);
  for (const kind of ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]) assert.ok(kinds.has(kind), kind);
  const message = await client.messages.stream({ model, max_tokens: 16, messages }).finalMessage();
  assert.deepEqual(message.content.map((c) => c.text), whole.content.map((c) => c.text));
  assert.equal(message.stop_reason, whole.stop_reason);
});

test("stop sequences and a begun answer", async () => {
  const free = (await client.messages.create({ model, max_tokens: 24, messages })).content[0].text;
  const mark = free.slice(4, 7);
  const cut = await client.messages.create({ model, max_tokens: 24, messages, stop_sequences: [mark] });
  assert.equal(cut.stop_reason, "stop_sequence");
  assert.equal(cut.stop_sequence, mark);
  assert.equal(cut.content[0].text, free.slice(0, free.indexOf(mark)));
  const begun = await client.messages.create({ model, max_tokens: 8, messages: [...messages, { role: "assistant", content: "func (r" }] });
  assert.equal(begun.content[0].type, "text");
});

test("tools", async () => {
  const ask = { model, max_tokens: 100, messages, tools, tool_choice: { type: "any", disable_parallel_tool_use: true } };
  const answer = await client.messages.create(ask);
  assert.equal(answer.stop_reason, "tool_use");
  const call = answer.content.find((c) => c.type === "tool_use");
  assert.equal(call.name, "look_up");
  assert.equal(typeof call.input.deep, "boolean");
  const streamed = await client.messages.stream(ask).finalMessage();
  assert.deepEqual(streamed.content.find((c) => c.type === "tool_use").input, call.input);
  const next = await client.messages.create({
    model, max_tokens: 8, tools, messages: [...messages, { role: "assistant", content: answer.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "42" }, { type: "text", text: "go on" }] }],
  });
  assert.equal(next.role, "assistant");
});

test("tokens are counted", async () => {
  const { input_tokens } = await client.messages.countTokens({ model, messages, system: "Go" });
  const answer = await client.messages.create({ model, max_tokens: 1, messages, system: "Go" });
  assert.equal(input_tokens, answer.usage.input_tokens + answer.usage.cache_read_input_tokens);
});

test("errors", async () => {
  await assert.rejects(client.messages.create({ model, max_tokens: 4, messages, temperature: -1 }), (e) => e instanceof Anthropic.BadRequestError && /temperature/.test(e.message));
  await assert.rejects(new Anthropic({ baseURL: server.url, apiKey: "wrong", maxRetries: 0 }).messages.create({ model, max_tokens: 4, messages }), Anthropic.AuthenticationError);
});
