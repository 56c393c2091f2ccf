// A help desk as its authors wrote it: OpenAI's client for the model, the MCP SDK for the tools. It reads a question
// on stdin and prints the answer; environment variables say where the model and the tools are.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import OpenAI from "openai";
import { text } from "node:stream/consumers";

const model = new OpenAI(); // OPENAI_BASE_URL and OPENAI_API_KEY
const shop = new Client({ name: "help-desk", version: "1.0.0" });
await shop.connect(new StreamableHTTPClientTransport(new URL(process.env.SHOP_MCP_URL)));

const { tools } = await shop.listTools();
const offered = tools.map((tool) => ({
  type: "function",
  function: { name: tool.name, description: tool.description, parameters: tool.inputSchema },
}));
const messages = [
  { role: "system", content: "Look up orders before you talk about them." },
  { role: "user", content: await text(process.stdin) },
];

for (let round = 0; round < 8; round++) {
  const answer = await model.chat.completions.create({ model: "gpt-5-mini", messages, tools: offered });
  const said = answer.choices[0].message;
  messages.push(said);
  if (!said.tool_calls?.length) {
    console.log(said.content);
    break;
  }
  for (const call of said.tool_calls) {
    const result = await shop.callTool({ name: call.function.name, arguments: JSON.parse(call.function.arguments) });
    messages.push({ role: "tool", tool_call_id: call.id, content: JSON.stringify(result.content) });
  }
}
await shop.close();
