// SPDX-License-Identifier: Apache-2.0
// The AI SDK against the local API, by its providers for OpenAI's chat and Anthropic's messages. Started by api-clients-js.py, which has
// the servers: argv[2] is the real engine's address, argv[3] that of scripted calls. TAP on stdout.
const { createRequire } = require('module');
const need = createRequire(process.env.AQ_CLIENTS + '/');
const ai = need('ai');
const { createOpenAICompatible } = need('@ai-sdk/openai-compatible');
const { createAnthropic } = need('@ai-sdk/anthropic');
const { z } = need('zod');
const [real, scripted] = process.argv.slice(2);
globalThis.AI_SDK_LOG_WARNINGS = false;

let count = 0, bad = 0;
function ok(good, name, more) {
  count++;
  bad += !good;
  console.log(`${good ? '' : 'not '}ok ${count} - ${name}`);
  if (!good) console.log('# ' + (typeof more === 'string' ? more : JSON.stringify(more) ?? '').slice(0, 3000).replaceAll('\n', '\n# '));
}

async function all(stream) {
  const got = [];
  for await (const x of stream) got.push(x);
  return got;
}

const City = z.object({ city: z.string().max(12), days: z.number().int(), kind: z.enum(['sun', 'rain']) });
const weather = (run) => ai.tool({
  description: 'the weather', inputSchema: z.object({ city: z.string(), days: z.number().int().optional() }), execute: run,
});

async function talk(who, model, calls) {
  const ask = { model, prompt: 'What is Aquifer?', temperature: 0, maxOutputTokens: 24, maxRetries: 0 };
  const whole = await ai.generateText(ask);
  ok(whole.text && whole.usage.inputTokens > 0 && whole.usage.outputTokens > 0 && ['stop', 'length'].includes(whole.finishReason), `${who}: chat`, whole);
  const st = ai.streamText(ask);
  const parts = await all(st.textStream);
  ok(parts.join('') === whole.text && (await st.usage).outputTokens === whole.usage.outputTokens, `${who}: a stream says the same`, parts);
  const obj = await ai.generateText({ model, prompt: 'Tell me', temperature: 0, maxOutputTokens: 300, maxRetries: 0, output: ai.Output.object({ schema: City }) });
  ok(City.safeParse(obj.output).success, `${who}: structured output`, obj.text);
  const so = ai.streamText({ model, prompt: 'Tell me', temperature: 0, maxOutputTokens: 300, maxRetries: 0, output: ai.Output.object({ schema: City }) });
  const partial = await all(so.partialOutputStream);
  ok(partial.length > 1 && JSON.stringify(partial.at(-1)) === JSON.stringify(obj.output), `${who}: structured output in a stream`, partial.at(-1));

  const seen = [];
  const tools = { weather: weather(async (args) => (seen.push(args), 'It is @done')) };
  const loop = await ai.generateText({ model: calls, prompt: '@call', tools, stopWhen: ai.stepCountIs(4), maxRetries: 0 });
  ok(loop.text === 'Sunny.' && loop.steps.length === 2 && loop.steps[0].finishReason === 'tool-calls' && JSON.stringify(seen) === '[{"city":"Rome","days":3}]',
    `${who}: a tool is called and its result answered`, [seen, loop.text, loop.steps.length]);
  ok(loop.steps[1].usage.inputTokenDetails.cacheReadTokens > 0, `${who}: the second step knows the first one's prompt`, loop.steps[1].usage);
  seen.length = 0;
  const ls = ai.streamText({ model: calls, prompt: '@call', tools, stopWhen: ai.stepCountIs(4), maxRetries: 0 });
  const kinds = (await all(ls.fullStream)).map((x) => x.type);
  ok((await ls.text) === 'Sunny.' && seen.length === 1 && ['tool-input-start', 'tool-input-delta', 'tool-call', 'tool-result'].every((k) => kinds.includes(k)),
    `${who}: and in a stream`, kinds);
  const two = await ai.generateText({ model: calls, prompt: '@two', tools: { weather: weather(undefined) }, maxRetries: 0 });
  ok(two.toolCalls.length === 2 && two.toolCalls[0].toolCallId !== two.toolCalls[1].toolCallId && two.toolCalls[1].input.city === 'Oslo', `${who}: two calls`, two.toolCalls);
  const think = await ai.generateText({ model: calls, prompt: '@think', maxRetries: 0 });
  ok(think.text === 'So.' && think.reasoningText?.trim() === 'hm', `${who}: thinking is apart`, [think.text, think.reasoningText]);
  const ts = ai.streamText({ model: calls, prompt: '@think', maxRetries: 0 });
  await all(ts.fullStream);
  ok((await ts.text) === 'So.' && (await ts.reasoningText)?.trim() === 'hm', `${who}: and in a stream`);
  try {
    await ai.generateText({ ...ask, prompt: 'word '.repeat(9000) });
    ok(false, `${who}: a prompt that is too long`);
  } catch (e) {
    ok(e.statusCode === 400 && /maximum context length is|prompt is too long: /.test(e.message), `${who}: a prompt that is too long`, String(e));
  }
  const dead = ai.streamText({ model: calls, prompt: '@die', maxRetries: 0, onError() {} });
  const errors = (await all(dead.fullStream)).filter((x) => x.type === 'error');
  ok(errors.length === 1, `${who}: the engine fails in a stream`, errors);
}

async function main() {
  const compatible = (url) => createOpenAICompatible({ name: 'aquifer', baseURL: url + '/v1', apiKey: 'secret', includeUsage: true, supportsStructuredOutputs: true });
  const anthropic = (url) => createAnthropic({ baseURL: url + '/v1', apiKey: 'secret' });
  await talk('openai-compatible', compatible(real)('guide'), compatible(scripted)('m'));
  await talk('anthropic', anthropic(real)('guide'), anthropic(scripted)('m'));
  console.log(`1..${count}`);
  process.exit(bad ? 1 : 0);
}

main().catch((e) => {
  console.log(`Bail out! ${String(e.stack).replaceAll('\n', ' | ')}`);
  process.exit(1);
});
