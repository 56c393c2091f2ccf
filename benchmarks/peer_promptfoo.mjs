// promptfoo: its Node interface, one prompt with a variable, two assertions, its own database.
// node peer_promptfoo.mjs INDEX_JS BASE_URL SIZE: leaves found.json in the working directory, as the Python peers do.
// The response cache is off, as it must be for whoever wants to know how long a call took.
import dns from "node:dns";
import { readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// With its telemetry switched off it still sends one event to say so. Nothing may leave this machine.
dns.lookup = (host, options, done) => (done ?? options)(new Error(`only loopback here, not ${host}`));

const [index, baseUrl, sizeText] = process.argv.slice(2);
const size = Number(sizeText);
const { evaluate } = await import(pathToFileURL(index).href);

const prompt = JSON.stringify([
  { role: "system", content: "You run a pump station. Answer with the next action only." },
  { role: "user", content: "Case {{number}}: pressure is at 140 % and rising. What now?" },
]);
const suite = {
  prompts: [prompt],
  providers: [{ id: "openai:chat:bench", config: { apiBaseUrl: baseUrl, apiKey: "none" } }],
  defaultTest: {
    assert: [
      { type: "regex", value: "\\b[Ss]top\\b" },
      { type: "not-icontains", value: "wait" },
    ],
  },
  tests: Array.from({ length: size }, (_, number) => ({ vars: { number } })),
  writeLatestResults: true,
};

const began = performance.now();
const cpu = process.cpuUsage();
const record = await evaluate(suite, { maxConcurrency: 64, cache: false });
const spent = process.cpuUsage(cpu);
const wall = performance.now() - began;
const memory = process.resourceUsage().maxRSS / 1024;

const latency = {};
for (const result of (await record.toEvaluateSummary()).results) {
  if (result.success) latency[result.vars.number] = result.latencyMs;
}
const passed = Object.keys(latency).length;
if (passed !== size) throw new Error(`${passed} of ${size} cases passed both checks and have a latency`);
const folder = process.env.PROMPTFOO_CONFIG_DIR;
const kept = readdirSync(folder).filter((name) => name.startsWith("promptfoo.db"));
const bytes = kept.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
writeFileSync("found.json", JSON.stringify({
  wall_s: wall / 1000,
  cpu_ms: (spent.user + spent.system) / 1000 / size,
  memory_mb: memory,
  record_kb: bytes / 1024 / size,
  latency_ms: latency,
}));
