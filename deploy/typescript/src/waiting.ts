import { RefusedError } from "./errors.js";
import type { PerpetuaError } from "./errors.js";

export const CLOSED = "the client is closed";

/** Lets so many in at a time; the others wait in their order. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(places: number) {
    this.#free = places;
  }

  /** Waits for a place; false if there was none in time. */
  async enter(milliseconds = Infinity): Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return true;
    }
    let enter = () => {};
    const entered = new Promise<boolean>((resolve) => this.#waiting.push((enter = () => resolve(true))));
    if (await within(entered, milliseconds)) return true;
    const place = this.#waiting.indexOf(enter);
    if (place < 0) return true; // let in meanwhile
    this.#waiting.splice(place, 1);
    return false;
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

/** Pauses that double, up to a bound, each of random length. */
export class Backoff {
  #next = 50;

  async pause(signal: AbortSignal): Promise<void> {
    const milliseconds = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(2 * this.#next, 2000);
    await sleep(milliseconds, signal);
  }
}

/** Sleeps, or until the signal. */
export async function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** Returns what a promise comes to, or undefined if it does not in time. */
export async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  if (milliseconds > 2 ** 31 - 1) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(resolve, Math.max(milliseconds, 0), undefined)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Is told how sending a question ended, as `Bus.send`. */
export type Told = (outcome: boolean | PerpetuaError) => void;

/** Waits for how sending a question ends that `put` hands on; refuses it if the client is closed. */
export async function sent(closing: AbortSignal, put: (told: Told) => void): Promise<boolean> {
  if (closing.aborted) throw new RefusedError(CLOSED);
  const outcome = await new Promise<boolean | PerpetuaError>(put);
  if (typeof outcome !== "boolean") throw outcome;
  return outcome;
}

/** Closes a client: what waits is refused, and so is what comes. */
export function refuseAll(closing: AbortController, waiting: { readonly told: Told }[]): void {
  closing.abort();
  const closed = new RefusedError(CLOSED);
  for (const { told } of waiting.splice(0)) told(closed);
}
