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
