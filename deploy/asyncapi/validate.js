// Validates AsyncAPI documents with AsyncAPI's own parser; status 1 if one has an error or a warning.
import { readFile } from "node:fs/promises";
import { Parser } from "@asyncapi/parser";

const parser = new Parser();
let bad = false;
for (const path of process.argv.slice(2)) {
  const { document, diagnostics } = await parser.parse(await readFile(path, "utf-8"), { source: path });
  for (const { severity, path: where, message, range } of diagnostics) {
    if (severity > 1) continue; // hints, such as that a newer version of AsyncAPI exists
    console.error(`${path}:${range.start.line + 1}: ${where.join(".")}: ${message}`);
    bad = true;
  }
  if (!document) bad = true;
  else console.log(`${path}: AsyncAPI ${document.version()}, ${document.messages().length} messages, valid`);
}
process.exit(bad ? 1 : 0);
