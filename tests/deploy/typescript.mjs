// Asks as the lines of standard input say, and writes how each ended: [name, outcome], in any order.
import { createInterface } from "node:readline";
import * as errors from "perpetua-client";

const [bus, ...settings] = process.argv.slice(2);
const say = (name, outcome) => console.log(JSON.stringify([name, outcome], (_, one) => (typeof one === "bigint" ? `${one}n` : one)));

function told(error) {
  const families = Object.keys(errors).filter((name) => name.endsWith("Error") && error instanceof errors[name]);
  const { name, message, reason, question } = error;
  return { error: name, message, families, reason, written: question?.written ?? null };
}

async function run(question, seconds) {
  try {
    return await question.answer({ seconds });
  } catch (error) {
    return told(error);
  }
}

// A coordinator that is still loading, as often as told.
if (process.env.LOADING) {
  const { createRequire } = await import("node:module");
  const require = createRequire(import.meta.resolve("perpetua-client/kafka"));
  const { prototype } = require("kafkajs/src/broker/index.js");
  const { createErrorFromCode } = require("kafkajs/src/protocol/error.js");
  const { joinGroup } = prototype;
  let left = Number(process.env.LOADING);
  prototype.joinGroup = async function (request) {
    if (left-- > 0) throw createErrorFromCode(14);
    say("loaded", null);
    return joinGroup.call(this, request);
  };
}

let client;
try {
  client = await (await import(`perpetua-client/${bus}`))[bus](...settings.map((one) => JSON.parse(one)));
} catch (error) {
  say("open", told(error));
  process.exit(1);
}
say("open", null);
const asked = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const [what, name, query] = JSON.parse(line);
  if (what === "send") {
    try {
      if (query.id === "2^53+1") query.id = 2n ** 53n + 1n;
      if (query.x === "NaN") query.x = [NaN];
      asked.set(name, await client.send(query));
    } catch (error) {
      say(name, told(error));
    }
  } else if (what === "answer") {
    void run(asked.get(name), query).then((outcome) => say(name, outcome));
  } else if (what === "written") {
    say(name, { written: asked.get(name).written ?? null });
  }
}
await client.close();
