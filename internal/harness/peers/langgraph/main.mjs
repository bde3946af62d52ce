// The agent of W9 with LangGraph.js. See ../README.md.
import { createInterface } from 'node:readline';
import { createReactAgent } from '@langchain/langgraph/prebuilt';
import { ChatOpenAI } from '@langchain/openai';
import { tool } from '@langchain/core/tools';
import { z } from 'zod';

let calls = 0;
const add = tool(({ a, b }) => { calls++; return String(a + b); },
  { name: 'add', description: 'Adds two numbers.', schema: z.object({ a: z.number().int(), b: z.number().int() }) });
const llm = new ChatOpenAI({ model: 'scripted', apiKey: 'none', configuration: { baseURL: process.argv[2] } });
const agent = createReactAgent({ llm, tools: [add], prompt: 'Add numbers.' });

async function talk() {
  calls = 0;
  let text = '';
  const input = { messages: [{ role: 'user', content: 'Go.' }] };
  for await (const [m] of await agent.stream(input, { recursionLimit: 100, streamMode: 'messages' })) text = m.type === 'ai' ? text + m.content : '';
  if (calls !== 40 || text !== 'done') throw new Error(`${calls} calls, ${text}`);
}

for await (const _ of createInterface({ input: process.stdin })) {
  const c = process.cpuUsage(), t = process.hrtime.bigint();
  for (let i = 0; i < 10; i++) await talk();
  const wall = Number(process.hrtime.bigint() - t) / 1e6, used = process.cpuUsage(c);
  console.log(JSON.stringify({ wall_ms: wall, cpu_ms: (used.user + used.system) / 1e3 }));
}
