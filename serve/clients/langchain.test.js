// LangChain.js against spec serve, by its packages for OpenAI's API and for Ollama's.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOllama, OllamaEmbeddings } from "@langchain/ollama";
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";
import { key, start } from "./server.js";

let server, openai, ollama;
before(async () => {
  server = await start();
  const configuration = { baseURL: server.url + "/v1" };
  openai = (more) => new ChatOpenAI({ model: "embedded", apiKey: key, configuration, maxRetries: 0, maxTokens: 16, temperature: 0, ...more });
  ollama = (more) => new ChatOllama({ model: "embedded", baseUrl: server.url, headers: { Authorization: "Bearer " + key }, maxRetries: 0, numPredict: 16, ...more });
});
after(async () => assert.equal(await server.stop(), 0));

const messages = [new SystemMessage("Go"), new HumanMessage("func main")];
const schema = z.object({ name: z.string().max(5), ok: z.boolean(), kind: z.enum(["a", "b"]) });
const look_up = tool(async () => "42", { name: "look_up", description: "d", schema: z.object({ deep: z.boolean(), word: z.enum(["a", "b"]) }) });

test("chat, whole and streamed", async () => {
  const texts = [];
  for (const make of [openai, ollama]) {
    const whole = await make().invoke(messages);
    let text = "";
    for await (const part of await make().stream(messages)) text += part.content;
    assert.equal(text, whole.content);
    assert.equal(whole.usage_metadata.output_tokens, 16);
    texts.push(text);
  }
  assert.equal(texts[0], texts[1]);
});

test("batches and a sequence of messages", async () => {
  const [a, b] = await openai().batch([messages, [...messages, new AIMessage("x"), new HumanMessage("return")]]);
  assert.ok(a.content.length > 0 && b.content.length > 0);
});

test("structured output", async () => {
  for (const method of ["jsonSchema", "functionCalling"]) {
    const model = openai({ maxTokens: 100, modelKwargs: method === "jsonSchema" ? {} : { parallel_tool_calls: false } });
    schema.parse(await model.withStructuredOutput(schema, { method, name: "answer" }).invoke(messages));
  }
  schema.parse(await ollama({ numPredict: 100 }).withStructuredOutput(schema, { method: "jsonSchema" }).invoke(messages));
});

test("tools", async () => {
  const called = await openai({ maxTokens: 100 }).bindTools([look_up], { tool_choice: "look_up", parallel_tool_calls: false, strict: true }).invoke(messages);
  assert.equal(called.tool_calls[0].name, "look_up");
  look_up.schema.parse(called.tool_calls[0].args);
  const result = await look_up.invoke(called.tool_calls[0]);
  const next = [...messages, called, new ToolMessage({ content: result.content, tool_call_id: called.tool_calls[0].id })];
  for (const model of [openai().bindTools([look_up]), ollama().bindTools([look_up])]) assert.equal((await model.invoke(next)).getType(), "ai");
});

test("completions", async () => {
  const model = new OpenAI({ model: "embedded", apiKey: key, configuration: { baseURL: server.url + "/v1" }, maxTokens: 8, temperature: 0, maxRetries: 0 });
  assert.ok((await model.invoke("func (r *Ring) Push(")).length > 0);
});

test("embeddings", async () => {
  const a = new OpenAIEmbeddings({ model: "embedded", apiKey: key, configuration: { baseURL: server.url + "/v1" }, maxRetries: 0 });
  const b = new OllamaEmbeddings({ model: "embedded", baseUrl: server.url, headers: { Authorization: "Bearer " + key }, maxRetries: 0 });
  const [x, y] = [await a.embedDocuments(["func main", "return"]), await b.embedDocuments(["func main", "return"])];
  assert.deepEqual(x.map((v) => v.length), [256, 256]);
  assert.deepEqual(x.map((v) => v.map(Math.fround)), y.map((v) => v.map(Math.fround)));
  assert.equal((await a.embedQuery("func main")).length, 256);
});
