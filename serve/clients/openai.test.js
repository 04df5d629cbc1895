// The official client of OpenAI's API against spec serve.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { key, start } from "./server.js";

let server, client;
before(async () => {
  server = await start();
  client = new OpenAI({ baseURL: server.url + "/v1", apiKey: key, maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

const messages = [{ role: "system", content: "Go" }, { role: "user", content: "func main" }];
const model = "embedded";
const tools = [{
  type: "function",
  function: { name: "look_up", parameters: { type: "object", properties: { deep: { type: "boolean" }, word: { type: "string", enum: ["a", "b"] } }, required: ["deep", "word"] } },
}];

test("chat", async () => {
  const answer = await client.chat.completions.create({ model, messages, max_completion_tokens: 16, user: "x", metadata: { a: "b" }, store: false });
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.equal(answer.choices[0].finish_reason, "length");
  assert.equal(answer.usage.completion_tokens, 16);
  assert.ok(answer.timings.predicted_n === 16);
});

test("stream", async () => {
  const whole = await client.chat.completions.create({ model, messages, max_tokens: 16 });
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 16, stream: true, stream_options: { include_usage: true } });
  let text = "", usage, finish;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, "length");
  assert.equal(usage.completion_tokens, 16);
});

test("the client's own reading of a stream", async () => {
  const runner = client.chat.completions.stream({ model, messages, max_tokens: 12 });
  const answer = await runner.finalChatCompletion();
  const whole = await client.chat.completions.create({ model, messages, max_tokens: 12 });
  assert.equal(answer.choices[0].message.content, whole.choices[0].message.content);
});

test("n, seed, logprobs", async () => {
  const ask = () => client.chat.completions.create({ model, messages, max_tokens: 8, n: 3, seed: 7, temperature: 1, logprobs: true, top_logprobs: 2 });
  const [a, b] = [await ask(), await ask()];
  assert.equal(a.choices.length, 3);
  assert.deepEqual(a.choices, b.choices);
  assert.equal(a.choices[0].logprobs.content.length, 8);
  assert.equal(a.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

test("tools", async () => {
  const ask = { model, messages, tools, tool_choice: "required", parallel_tool_calls: false, max_tokens: 100 };
  const answer = await client.chat.completions.create(ask);
  assert.equal(answer.choices[0].finish_reason, "tool_calls");
  const call = answer.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, "look_up");
  assert.equal(typeof JSON.parse(call.function.arguments).deep, "boolean");
  const streamed = await client.chat.completions.stream(ask).finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
  const next = await client.chat.completions.create({ model, tools, max_tokens: 4, messages: [...messages, answer.choices[0].message, { role: "tool", tool_call_id: call.id, content: "42" }] });
  assert.equal(next.object, "chat.completion");
});

test("structured output", async () => {
  const schema = { type: "object", properties: { name: { type: "string", maxLength: 5 }, ok: { type: "boolean" } }, required: ["name", "ok"], additionalProperties: false };
  const answer = await client.chat.completions.parse({ model, messages, max_tokens: 60, response_format: { type: "json_schema", json_schema: { name: "x", strict: true, schema } } });
  assert.equal(typeof JSON.parse(answer.choices[0].message.content).ok, "boolean");
});

test("completions", async () => {
  const answer = await client.completions.create({ model, prompt: "func (r *Ring) Push(", max_tokens: 24 });
  assert.equal(answer.choices[0].text, "c *uint64, n *uint64) {\n\tif n.nn != 0 {\n\t\treturn");
});

test("responses", async () => {
  const answer = await client.responses.create({ model, instructions: "Go", input: "func main", max_output_tokens: 12 });
  assert.equal(answer.status, "incomplete");
  assert.ok(answer.output_text.length > 0);
  let text = "", last;
  for await (const event of await client.responses.create({ model, instructions: "Go", input: "func main", max_output_tokens: 12, stream: true })) {
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.equal(text, answer.output_text);
  assert.equal(last.type, "response.incomplete");
  const flat = [{ type: "function", name: "look_up", parameters: tools[0].function.parameters, strict: true }];
  const call = await client.responses.create({ model, input: "func main", tools: flat, tool_choice: "required", parallel_tool_calls: false, max_output_tokens: 100 });
  assert.equal(call.output[0].type, "function_call");
  await client.responses.create({ model, tools: flat, max_output_tokens: 4, input: [{ role: "user", content: "func main" }, call.output[0], { type: "function_call_output", call_id: call.output[0].call_id, output: "42" }] });
});

test("embeddings", async () => {
  const answer = await client.embeddings.create({ model, input: ["func main", "return"] }); // the client asks for base64
  assert.equal(answer.data.length, 2);
  assert.equal(answer.data[0].embedding.length, 256);
  const plain = await client.embeddings.create({ model, input: "func main", encoding_format: "float" });
  assert.deepEqual(Array.from(answer.data[0].embedding, Math.fround), Array.from(plain.data[0].embedding, Math.fround));
});

test("models", async () => {
  const list = [];
  for await (const m of client.models.list()) list.push(m.id);
  assert.deepEqual(list, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
});

test("errors", async () => {
  await assert.rejects(client.chat.completions.create({ model, messages, temperature: -1 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature");
  await assert.rejects(client.chat.completions.create({ model, messages, audio: {} }), (e) => e.status === 400 && e.param === "audio" && e.code === "unsupported_parameter");
  await assert.rejects(client.responses.create({ model, input: "x", previous_response_id: "resp_1" }), (e) => e.status === 400 && e.param === "previous_response_id");
  await assert.rejects(client.models.retrieve("none"), OpenAI.NotFoundError);
  await assert.rejects(new OpenAI({ baseURL: server.url + "/v1", apiKey: "wrong", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
  await assert.rejects(client.chat.completions.create({ model, messages: [{ role: "user", content: "x ".repeat(5000) }] }), (e) => e.code === "context_length_exceeded");
});

test("a client that leaves", async () => {
  const stream = await client.chat.completions.create({ model, messages, max_tokens: 500, stream: true });
  for await (const _ of stream) break;
  stream.controller.abort();
  await client.chat.completions.create({ model, messages, max_tokens: 2 });
});
