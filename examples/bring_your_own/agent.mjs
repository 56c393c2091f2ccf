// An agent in another language: one JSON line in per turn, JSON lines out; the last one is the reply.
// Run it with: steadyhand run examples/bring_your_own --agent "command:node ./agent.mjs"
import { createInterface } from "node:readline";

const write = (line) => process.stdout.write(JSON.stringify(line) + "\n");

for await (const raw of createInterface({ input: process.stdin })) {
  const turn = JSON.parse(raw);
  const said = turn.messages.filter((message) => message.role === "user").map((message) => message.content);
  const order = said.join(" ").match(/[A-Z]-\d+/)?.[0];
  if (!order) {
    write({ type: "reply", text: "Which order is it? The number is on the receipt." });
    continue;
  }
  write({ type: "action", name: "FIND_ORDER", params: { number: order }, result: { state: "on its way" } });
  const text = turn.input.includes("money back")
    ? `It is about order ${order}. A colleague decides on refunds and will write to you today.`
    : `Thank you. I am looking into order ${order}.`;
  write({ type: "reply", text });
}
