// OpenAI's client with its zod helpers: schemas that a program writes as types, answers read back through them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { key, start } from "./server.js";

let server, client;
before(async () => {
  server = await start();
  client = new OpenAI({ baseURL: server.url + "/v1", apiKey: key, maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

const model = "embedded";
const messages = [{ role: "user", content: "func main" }];
const Address = z.object({ street: z.string().max(6), zip: z.string().regex(/^\d{5}$/) });
const Person = z.object({
  name: z.string().min(1).max(8),
  mail: z.email().max(20),
  born: z.iso.date(),
  kind: z.enum(["admin", "user"]),
  age: z.number().int().min(0).max(150),
  score: z.number().nullable(),
  tags: z.array(z.string().max(3)).max(2),
  address: Address,
  choice: z.union([z.literal("yes"), z.object({ reason: z.string().max(4) })]),
});
const parameters = z.object({ deep: z.boolean(), word: z.enum(["a", "b"]), limit: z.number().int().min(1).max(9).nullable() });

test("an answer by a schema", async () => {
  const ask = { model, messages, max_tokens: 400, response_format: zodResponseFormat(Person, "person") };
  const answer = await client.chat.completions.parse(ask);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.deepEqual(Person.parse(answer.choices[0].message.parsed), answer.choices[0].message.parsed);
  const streamed = await client.chat.completions.stream(ask).finalChatCompletion();
  assert.deepEqual(streamed.choices[0].message.parsed, answer.choices[0].message.parsed);
});

test("recursive, optional and discriminated schemas", async () => {
  const Node = z.object({ value: z.boolean(), get next() { return Node.nullable(); } });
  const Shape = z.object({
    shape: z.discriminatedUnion("kind", [z.object({ kind: z.literal("circle"), r: z.number().min(0).max(9).multipleOf(0.5) }), z.object({ kind: z.literal("square"), a: z.int32().positive() })]),
    id: z.uuid(), at: z.iso.datetime({ precision: 0 }),
  });
  const answer = await client.chat.completions.parse({ model, messages, max_tokens: 500, response_format: zodResponseFormat(Shape, "shape") });
  Shape.parse(answer.choices[0].message.parsed);
  const list = await client.chat.completions.create({ model, messages, max_tokens: 24, response_format: zodResponseFormat(Node, "node") });
  assert.match(list.choices[0].message.content, /^\{"value": (true|false), "next": (null\}|\{)/);
});

test("tools", async () => {
  const answer = await client.chat.completions.parse({ model, messages, max_tokens: 100, tool_choice: "required", parallel_tool_calls: false, tools: [zodFunction({ name: "look_up", parameters })] });
  parameters.parse(answer.choices[0].message.tool_calls[0].function.parsed_arguments);
});

test("responses", async () => {
  const answer = await client.responses.parse({ model, input: "func main", max_output_tokens: 400, text: { format: zodTextFormat(Person, "person") } });
  Person.parse(answer.output_parsed);
  const call = await client.responses.parse({ model, input: "func main", max_output_tokens: 100, tool_choice: "required", parallel_tool_calls: false, tools: [zodResponsesFunction({ name: "look_up", parameters })] });
  parameters.parse(call.output[0].parsed_arguments);
});

test("tools that run", async () => {
  let got;
  const runner = client.chat.completions.runTools({
    model, messages, max_tokens: 100, parallel_tool_calls: false, tool_choice: { type: "function", function: { name: "look_up" } },
    tools: [zodFunction({ name: "look_up", parameters, function: (args) => { got = args; return "42"; } })],
  }, { maxChatCompletions: 1 });
  await runner.done();
  parameters.parse(got);
});
