/* Drives a server through the openai npm package: chat, stream, tools, errors, models.
 *
 *   npm install openai
 *   node tests/e2e/clients/openai_client.mjs http://127.0.0.1:8000 MODEL
 */
import assert from "node:assert/strict";
import OpenAI from "openai";

const [url, model] = process.argv.slice(2);
const client = new OpenAI({baseURL: `${url}/v1`, apiKey: "any", maxRetries: 0});
const body = {
  model, max_tokens: 16, temperature: 0, messages: [{role: "user", content: "What is gravity?"}],
};

const whole = await client.chat.completions.create(body);
const text = whole.choices[0].message.content;
assert.ok(text);

let streamed = "";
for await (const chunk of await client.chat.completions.create({...body, stream: true})) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}
assert.equal(streamed, text);

const tools = [{type: "function", function: {name: "now", description: "The time"}}];
const choice = {type: "function", function: {name: "now"}};
const runner = client.chat.completions.stream({...body, max_tokens: 64, tools, tool_choice: choice});
const final = await runner.finalChatCompletion();
assert.equal(final.choices[0].message.tool_calls[0].function.name, "now");
assert.equal(final.choices[0].message.tool_calls[0].function.arguments, "{}");

const completion = await client.completions.create({model, prompt: "Once", max_tokens: 4});
assert.ok(completion.choices[0].text.length);

await assert.rejects(client.chat.completions.create({...body, temperature: -1}), OpenAI.BadRequestError);
await assert.rejects(client.chat.completions.create({...body, model: "none"}), OpenAI.NotFoundError);

const models = await client.models.list();
assert.equal(models.data[0].id, model);

const controller = new AbortController();
const long = await client.chat.completions.create(
  {...body, max_tokens: 200, stream: true}, {signal: controller.signal});
for await (const _ of long) { controller.abort(); }
console.log("openai (npm): all as expected");
