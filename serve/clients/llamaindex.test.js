// LlamaIndex's embeddings against spec serve, by its package for OpenAI's API.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OpenAI, OpenAIEmbedding } from "@llamaindex/openai";
import { key, start } from "./server.js";

test("embeddings and chat", async () => {
  const server = await start();
  const to = { model: "embedded", apiKey: key, baseURL: server.url + "/v1", maxRetries: 0 };
  const embeddings = new OpenAIEmbedding(to);
  const [a, b] = await embeddings.getTextEmbeddingsBatch(["func main", "return"]);
  assert.deepEqual([a.length, b.length], [256, 256]);
  assert.deepEqual((await embeddings.getTextEmbedding("func main")).map(Math.fround), a.map(Math.fround));
  const model = new OpenAI({ ...to, maxTokens: 8, temperature: 0 });
  const { message } = await model.chat({ messages: [{ role: "user", content: "func main" }] });
  assert.ok(message.content.length > 0);
  assert.equal(await server.stop(), 0);
});
