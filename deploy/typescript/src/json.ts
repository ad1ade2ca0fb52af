import { InputError } from "./errors.js";

/** Returns one line of JSON. Refuses what `JSON.stringify` would silently make null, as null means "missing". */
export function encode(query: unknown): string {
  if (typeof query !== "object" || query === null || Array.isArray(query)) {
    throw new InputError("query: must be one JSON object");
  }
  return encodeValue(query, "query");
}

function encodeValue(value: unknown, where: string): string {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw new InputError(`${where}: must be finite`);
  if (value === null || typeof value === "number" || typeof value === "string" || typeof value === "boolean") {
    return JSON.stringify(value);
  }
  if (Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))) {
    return `[${Array.from(value as Iterable<unknown>, (one, i) => encodeValue(one, `${where}[${i}]`)).join(",")}]`;
  }
  if (typeof value === "object" && !("toJSON" in value)) {
    const fields = Object.entries(value).filter(([, one]) => one !== undefined);
    return `{${fields.map(([name, one]) => `${JSON.stringify(name)}:${encodeValue(one, name)}`).join(",")}}`;
  }
  throw new InputError(`${where}: must be JSON`);
}

/** Returns a reply; an `id` beyond the integers that a number holds is a bigint. Replies begin with it. */
export function decode(body: string): Record<string, unknown> {
  const reply = JSON.parse(body) as Record<string, unknown>;
  if (typeof reply["id"] === "number" && !Number.isSafeInteger(reply["id"])) {
    const digits = /^\s*\{\s*"id"\s*:\s*(-?\d+)\s*[,}]/.exec(body)?.[1];
    if (digits !== undefined) reply["id"] = BigInt(digits);
  }
  return reply;
}
