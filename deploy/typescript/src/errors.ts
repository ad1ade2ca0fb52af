/** Every error that the client raises on purpose, in the families of `oracle.errors`. */
import type { Question } from "./client.js";

/** The root: catching it catches all of them. */
export class PerpetuaError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** It is refused as it stands; change what you asked. */
export class RefusedError extends PerpetuaError {}

/** An argument is none that could be used; nothing was sent. */
export class InputError extends RefusedError {}

/** A daemon's reply is that it does not answer this question; for its asker only. */
export class RejectedError extends RefusedError {
  /** One of a closed vocabulary, such as "wrong-dimension" or "budget-spent". */
  readonly reason: string;
  /** All of the reply: its `field` and `bound`, where there are such, say what would have been accepted. */
  readonly reply: Readonly<Record<string, unknown>>;

  constructor(reply: Record<string, unknown>) {
    const about = ["field", "bound"].filter((name) => name in reply).map((name) => `; ${String(reply[name])}`);
    super(`rejected: ${String(reply["error"])}${about.join("")}`);
    this.reason = String(reply["error"]);
    this.reply = reply;
  }
}

/** The question was answered and took a round, and the daemon no longer keeps the answer (HTTP). */
export class NotKeptError extends RefusedError {}

/** The bus does not do what it should; it may pass. */
export class BusError extends PerpetuaError {}

/** There is no answer yet. The question may take a round: wait for it again instead of asking again. */
export class UnansweredError extends BusError {
  /** What can be waited for again; undefined if nothing was sent. */
  readonly question: Question | undefined;

  constructor(message: string, question?: Question) {
    super(message);
    this.question = question;
  }
}
