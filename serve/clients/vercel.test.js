// Vercel's AI SDK against spec serve, by its provider of compatible servers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, hasToolCall, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { key, start } from "./server.js";

let server, provider, model;
before(async () => {
  server = await start();
  provider = createOpenAICompatible({ name: "spec", baseURL: server.url + "/v1", apiKey: key, includeUsage: true, supportsStructuredOutputs: true });
  model = provider.chatModel("embedded");
});
after(async () => assert.equal(await server.stop(), 0));

const ask = { prompt: "func main", system: "Go", maxRetries: 0, providerOptions: { spec: { parallel_tool_calls: false } } };

test("text, whole and streamed", async () => {
  const whole = await generateText({ model, ...ask, maxOutputTokens: 16, temperature: 0, seed: 1, stopSequences: ["\u0000"] });
  assert.equal(whole.finishReason, "length");
  assert.equal(whole.usage.outputTokens, 16);
  const stream = streamText({ model, ...ask, maxOutputTokens: 16, onError: ({ error }) => { throw error; } });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).outputTokens, 16);
});

test("an object by a schema", async () => {
  const schema = z.object({ name: z.string().max(5), at: z.iso.date(), kinds: z.array(z.enum(["a", "b"])).max(2), note: z.string().max(3).optional() });
  const whole = await generateText({ model, ...ask, maxOutputTokens: 200, output: Output.object({ schema }) });
  schema.parse(whole.output);
  const stream = streamText({ model, ...ask, maxOutputTokens: 200, output: Output.object({ schema }) });
  assert.deepEqual(await stream.output, whole.output);
  const choice = await generateText({ model, ...ask, maxOutputTokens: 60, output: Output.choice({ options: ["red", "green"] }) });
  assert.ok(["red", "green"].includes(choice.output));
});

test("tools", async () => {
  let got;
  const parameters = z.object({ deep: z.boolean(), word: z.enum(["a", "b"]) });
  const look_up = tool({ description: "d", inputSchema: parameters, execute: async (args) => { got = args; return { answer: 42 }; } });
  const other = tool({ inputSchema: jsonSchema({ type: "object", properties: {}, additionalProperties: false }) });
  const answer = await generateText({ model, ...ask, maxOutputTokens: 100, tools: { look_up, other }, toolChoice: { type: "tool", toolName: "look_up" }, stopWhen: stepCountIs(1) });
  assert.equal(answer.finishReason, "tool-calls");
  parameters.parse(got);
  let called;
  const stream = streamText({ model, ...ask, maxOutputTokens: 100, tools: { look_up }, toolChoice: "required", stopWhen: hasToolCall("look_up") });
  for await (const part of stream.fullStream) if (part.type === "tool-call") called = part.input;
  assert.deepEqual(called, got);
  const next = await generateText({ model, maxOutputTokens: 4, maxRetries: 0, tools: { look_up }, messages: [{ role: "user", content: "func main" }, ...answer.response.messages] });
  assert.equal(next.finishReason, "length");
});

test("embeddings and completions", async () => {
  const { embeddings } = await embedMany({ model: provider.embeddingModel("embedded"), values: ["func main", "return"], maxRetries: 0 });
  assert.deepEqual(embeddings.map((e) => e.length), [256, 256]);
  const text = await generateText({ model: provider.completionModel("embedded"), prompt: "func (r *Ring) Push(", maxOutputTokens: 8, maxRetries: 0 });
  assert.ok(text.text.length > 0);
});
