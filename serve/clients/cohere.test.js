// Cohere's client for reranking against spec serve: the embedded pair is no reranker and says so; SPEC_RERANKER names a file that is one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { CohereClient, CohereClientV2 } from "cohere-ai";
import { key, start } from "./server.js";

const ask = { model: "embedded", query: "which cat", documents: ["the cat", "a ship", "a cat sat"], topN: 2 };

test("a model that is no reranker", async () => {
  const server = await start();
  for (const Client of [CohereClient, CohereClientV2]) {
    const client = new Client({ environment: server.url, token: key, maxRetries: 0 });
    await assert.rejects(client.rerank(ask, { maxRetries: 0 }), (e) => e.statusCode === 400 && /no classification head/.test(JSON.stringify(e.body)));
  }
  assert.equal(await server.stop(), 0);
});

test("rerank", { skip: !process.env.SPEC_RERANKER && "SPEC_RERANKER names no file" }, async () => {
  const server = await start(["-m", process.env.SPEC_RERANKER, "--alias", "embedded"]);
  for (const Client of [CohereClient, CohereClientV2]) {
    const client = new Client({ environment: server.url, token: key });
    const { results } = await client.rerank(ask, { maxRetries: 0 });
    assert.equal(results.length, 2);
    assert.ok(results[0].relevanceScore >= results[1].relevanceScore && results[0].index !== results[1].index);
  }
  assert.equal(await server.stop(), 0);
});
