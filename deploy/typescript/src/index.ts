export { Client, Question } from "./client.js";
export type { Answer, Query, Time } from "./client.js";
export * from "./errors.js";
