/** Questions to a daemon over HTTP; each is handed in under a key of its own, by which the daemon knows it again. */
import { Client } from "./client.js";
import type { Answered, Bus } from "./client.js";
import { BusError, InputError, NotKeptError, RefusedError, UnansweredError } from "./errors.js";
import { isUntrusted } from "./trust.js";
import { Backoff, CLOSED, Gate } from "./waiting.js";

const AT_ONCE = 16;
const MOST_MILLISECONDS = 60_000;
const WAIT = { Prefer: "wait=5" };
const UNSAID = new Set([502, 503, 504]); // a busy daemon, or a gateway that did not hear what it said

const ANSWERS = /^\/v1\/answers\/[0-9a-f]+$/;
const NO_DAEMON = "it does not answer as a daemon does";
const DOUBT = "an earlier try may have been taken: then the question takes a round; nothing tells whether it was";

interface Reply {
  readonly status: number;
  readonly where: string;
  readonly body: string;
  /** Whether an earlier try, which nothing was heard of, may have been taken. */
  readonly doubtful?: boolean;
}

/** Returns a client of a daemon over HTTP: its "http://HOST:PORT" or "https://HOST", and a token of its. */
export async function http(url: string, token: string): Promise<Client> {
  return Client.over(new HttpBus(url, token));
}

class HttpBus implements Bus {
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #room = new Gate(AT_ONCE);
  readonly #closing = new AbortController();
  #answered: Answered = () => {};

  constructor(url: string, token: string) {
    if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : "")) {
      throw new InputError('url: must be "http://HOST:PORT" or "https://HOST"');
    }
    this.#url = url.replace(/\/+$/, "");
    this.#headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  }

  async open(answered: Answered): Promise<void> {
    this.#answered = answered;
    let reply;
    try {
      reply = await this.#call("GET", "/v1/answers/none");
    } catch (error) {
      const text = `${this.#url}: no answer: ${reasonOf(error)}`;
      throw isUntrusted(error) ? new RefusedError(text) : new BusError(text);
    }
    if (reply.status !== 404) throw this.#refused(reply);
  }

  async send(correlation: string, body: string): Promise<boolean> {
    const reply = await this.#untilSaid("POST", "/v1/ask", { "Idempotency-Key": correlation, Prefer: "wait=0" }, body);
    if (isAnswer(reply)) this.#answered(correlation, reply.body);
    else if (reply.status === 202 && ANSWERS.test(reply.where)) void this.#fetch(correlation, reply.where);
    else if (reply.status === 202) this.#answered(correlation, new BusError(`${this.#url}: 202: ${NO_DAEMON}`));
    else if (!reply.doubtful) throw this.#refused(reply);
    else {
      this.#answered(correlation, new UnansweredError(`${this.#said(reply)}; ${DOUBT}`));
      return false;
    }
    return true;
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  /** Waits for an answer, or to hear that it is no longer kept. */
  async #fetch(correlation: string, where: string): Promise<void> {
    try {
      let reply;
      do reply = await this.#untilSaid("GET", where, WAIT);
      while (reply.status === 202);
      if (isAnswer(reply)) this.#answered(correlation, reply.body);
      else if (reply.status === 404) this.#answered(correlation, new NotKeptError(this.#said(reply)));
      else this.#answered(correlation, this.#refused(reply));
    } catch (error) {
      if (!this.#closing.signal.aborted) this.#answered(correlation, new BusError(`the client failed: ${reasonOf(error)}`));
    }
  }

  /** Makes a request until there is a reply to it, and the daemon is not busy. */
  async #untilSaid(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Reply> {
    const backoff = new Backoff();
    for (let doubtful = false; ; doubtful = true) {
      try {
        const reply = await this.#call(method, path, headers, body);
        if (!UNSAID.has(reply.status)) return { ...reply, doubtful };
      } catch {
        if (this.#closing.signal.aborted) throw new UnansweredError(CLOSED);
      }
      await backoff.pause(this.#closing.signal);
    }
  }

  async #call(method: string, path: string, headers: Record<string, string> = {}, body?: string): Promise<Reply> {
    await this.#room.enter();
    const ending = new AbortController();
    const end = () => ending.abort();
    const timer = setTimeout(end, MOST_MILLISECONDS);
    this.#closing.signal.addEventListener("abort", end);
    try {
      this.#closing.signal.throwIfAborted();
      const response = await fetch(this.#url + path, {
        method,
        headers: { ...this.#headers, ...headers },
        body: body ?? null,
        redirect: "manual",
        signal: ending.signal,
      });
      return { status: response.status, where: response.headers.get("Location") ?? "", body: await response.text() };
    } finally {
      this.#closing.signal.removeEventListener("abort", end);
      clearTimeout(timer);
      this.#room.leave();
    }
  }

  #refused(reply: Reply): RefusedError {
    return new RefusedError(this.#said(reply));
  }

  #said(reply: Reply): string {
    let said = NO_DAEMON;
    try {
      said = String((JSON.parse(reply.body) as { message: unknown }).message ?? said);
    } catch {
      // It is somebody else's.
    }
    return `${this.#url}: ${reply.status}: ${said}`;
  }
}

/** Whether it is the daemon's, an answer or a rejection; 422 also stands for a key that was used before. */
function isAnswer({ status, body }: Reply): boolean {
  return status === 200 || (status === 422 && !body.slice(0, 12).includes('"message"'));
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : String(cause);
}
