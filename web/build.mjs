// Bundles the part of Observable Plot that the report uses into one script, and gathers the licences of what is in it.
import { readFile, writeFile } from "node:fs/promises";
import { createHash } from "node:crypto";
import { build } from "esbuild";

const out = new URL("../src/steadyhand/report/html/assets/", import.meta.url);
const result = await build({
  entryPoints: ["plot.js"],
  absWorkingDir: new URL(".", import.meta.url).pathname,
  bundle: true,
  minify: true,
  format: "iife",
  globalName: "Plot",
  target: "es2020",
  charset: "ascii",
  legalComments: "none",
  metafile: true,
  write: false,
});
const used = Object.entries(Object.values(result.metafile.outputs)[0].inputs).filter(([, part]) => part.bytesInOutput);
const names = new Set(used.map(([path]) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean));
let licences = "plot.js contains parts of these packages.\n";
for (const name of [...names].sort()) {
  const folder = new URL(`node_modules/${name}/`, import.meta.url);
  const { version, license } = JSON.parse(await readFile(new URL("package.json", folder), "utf8"));
  licences += `\n${"=".repeat(80)}\n${name} ${version} (${license})\n${"=".repeat(80)}\n\n`;
  licences += (await readFile(new URL("LICENSE", folder), "utf8")).trim() + "\n";
}
const banner = "/* Observable Plot and D3; ISC and MIT licences in plot.LICENSES.txt. Built by web/build.mjs. */\n";
const script = banner + result.outputFiles[0].text.replaceAll("</script", "<\\/script");
// The library adds this style sheet to every chart; the page's Content-Security-Policy allows it by its hash.
const source = await readFile(new URL("node_modules/@observablehq/plot/src/plot.js", import.meta.url), "utf8");
const style = /`(:where\(\.\$\{className\}\) \{[^`]*)`/.exec(source)[1].replaceAll("${className}", "plot");
await writeFile(new URL("plot.css", out), style);
await writeFile(new URL("plot.js", out), script);
await writeFile(new URL("plot.LICENSES.txt", out), licences);
console.log(`plot.js: ${script.length} bytes, sha256 ${createHash("sha256").update(script).digest("hex").slice(0, 12)}`);
