import { randomBytes } from "node:crypto";
import { BusError, PerpetuaError, RejectedError, UnansweredError } from "./errors.js";
import { decode, encode } from "./json.js";
import { Gate, within } from "./waiting.js";

/** What is asked, as the message that the daemon reads. A bigint is written as an integer. */
export type Query = Readonly<Record<string, unknown>>;

/** A daemon's answer: `label`, `value` or what else its predictor gives. */
export interface Answer extends Readonly<Record<string, unknown>> {
  readonly id: string | number | bigint | null;
  readonly label?: string | number | boolean | null;
  readonly value?: number | null;
  readonly model: string;
  readonly round: number;
  readonly phase: number;
}

export interface Time {
  /** Most time to wait; 30 if not given, Infinity for no end. */
  readonly seconds?: number;
}

/** Is told a question's correlation data, and the answer's body or why none will come; others' and repeated ones too. */
export type Answered = (correlation: string, outcome: string | PerpetuaError) => void;

/** Is told why no answer will come any more. */
export type Failed = (error: PerpetuaError) => void;

/** What asks over one bus. */
export interface Bus {
  /** Connects; whatever is answered from now on is told. */
  open(answered: Answered, failed: Failed): Promise<void>;
  /**
   * Sends one question, once, however long the bus is away. Nothing is sent again that may have arrived, unless the
   * bus itself knows it as the same. False if it is not known whether the bus has it, and will not be; throws a
   * `PerpetuaError` if it was not written, and will not be.
   */
  send(correlation: string, body: string): Promise<boolean>;
  /** Lets go of the bus. What was not sent by then will not be. */
  close(): Promise<void>;
}

const MOST_UNSENT = 10_000;
const SECONDS = 30;

/** One question, sent once; its answer may be waited for as often as one likes. `Client.send` makes it. */
export class Question {
  /** True once the bus has it, false if it has not and never will; undefined while, or where, that is not known. */
  written: boolean | undefined;
  readonly #reply: Promise<string>;
  #settle: (outcome: string | PerpetuaError) => void = () => {};

  /** @param id Its correlation data, which a daemon gives back with the answer. */
  constructor(readonly id: string) {
    this.#reply = new Promise((resolve, reject) => {
      this.#settle = (outcome) => (typeof outcome === "string" ? resolve(outcome) : reject(outcome));
    });
    this.#reply.catch(() => {}); // nobody need wait for it
  }

  /**
   * Waits for the answer; a call after a time-out, or beside another one, sends nothing.
   *
   * Throws `RejectedError` (the daemon does not answer this question), `UnansweredError` (there is no answer yet, or
   * the client was closed before), `BusError` (it was not sent, or answers cannot be read any more), `RefusedError`
   * (the bus does not take it) or `NotKeptError` (the daemon no longer has the answer).
   */
  async answer({ seconds = SECONDS }: Time = {}): Promise<Answer> {
    const body = await within(this.#reply, seconds * 1000);
    if (body === undefined) {
      const known = this.written
        ? "the bus has the question: a daemon that serves it will answer it, in a round"
        : "it is not known whether the bus has the question; if so a daemon will answer it, in a round";
      throw new UnansweredError(`no answer within ${seconds} s; ${known}; wait again instead of asking again`, this);
    }
    const reply = decode(body);
    if (typeof reply["error"] === "string") throw new RejectedError(reply); // a number is what the plan promises
    return reply as Answer;
  }

  /** Sets what will be its outcome, unless it has one. For the client. */
  end(outcome: string | PerpetuaError): void {
    if (typeof outcome === "string") this.written = true;
    this.#settle(outcome);
  }
}

/**
 * Asks a daemon that serves. `http`, `kafka` and `mqtt`, each of the module of its name, return one that is open.
 *
 * Many questions may be under way at once. Each is sent once, and takes a round and its share of epsilon. What the
 * daemon's side knows as the same is sent again by the client: over HTTP what has the same key, on Kafka what its
 * idempotent producer was not told of. What cannot be told from a second question never is: on MQTT a question whose
 * connection ended before the broker had accepted it. A time-out changes nothing about a question that was sent.
 */
export class Client {
  readonly #bus: Bus;
  readonly #open = new Map<string, Question>();
  readonly #room = new Gate(MOST_UNSENT);
  #ended: PerpetuaError | undefined;

  private constructor(bus: Bus) {
    this.#bus = bus;
  }

  /** Opens a client over a bus. */
  static async over(bus: Bus): Promise<Client> {
    const client = new Client(bus);
    const answered: Answered = (correlation, outcome) => client.#end(correlation, outcome);
    try {
      await bus.open(answered, (error) => client.#fail(error));
    } catch (error) {
      await bus.close();
      throw error;
    }
    return client;
  }

  /** Asks, and returns the answer: `send` and `Question.answer` in one, with one time for both. */
  async ask(query: Query, { seconds = SECONDS }: Time = {}): Promise<Answer> {
    const end = performance.now() + seconds * 1000;
    const question = await this.#send(query, seconds);
    return question.answer({ seconds: Math.max(end - performance.now(), 0) / 1000 });
  }

  /** Gives a question to the client, which sends it as soon as the bus takes it; returns what waits for its answer. */
  async send(query: Query): Promise<Question> {
    return this.#send(query, Infinity);
  }

  /** Lets go of the bus; who still waits for an answer is told. */
  async close(): Promise<void> {
    this.#fail(new UnansweredError("the client was closed before the answer came; what the bus has takes a round"));
    await this.#bus.close();
  }

  async #send(query: Query, seconds: number): Promise<Question> {
    const body = encode(query);
    if (!(await this.#room.enter(seconds * 1000))) {
      throw new UnansweredError(`not sent within ${seconds} s: ${MOST_UNSENT} questions wait for the bus`);
    }
    if (this.#ended !== undefined) {
      this.#room.leave();
      throw this.#ended;
    }
    const question = new Question(randomBytes(16).toString("hex"));
    this.#open.set(question.id, question);
    void this.#put(question, body).finally(() => this.#room.leave());
    return question;
  }

  async #put(question: Question, body: string): Promise<void> {
    try {
      if (await this.#bus.send(question.id, body)) question.written = true;
    } catch (error) {
      const known = error instanceof PerpetuaError;
      if (known) question.written = false;
      const text = `the client failed: ${error instanceof Error ? error.message : "unknown"}`;
      this.#end(question.id, known ? error : new BusError(text));
    }
  }

  #end(correlation: string, outcome: string | PerpetuaError): void {
    this.#open.get(correlation)?.end(outcome);
    this.#open.delete(correlation);
  }

  #fail(error: PerpetuaError): void {
    this.#ended ??= error;
    for (const correlation of [...this.#open.keys()]) this.#end(correlation, error);
  }
}
