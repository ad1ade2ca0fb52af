/** Questions over Kafka: an idempotent producer writes, and all partitions of the replies are read. */
import { randomBytes } from "node:crypto";
import kafkajs from "kafkajs";
import type { Admin, Consumer, IHeaders, KafkaConfig, Producer } from "kafkajs";
import { Client } from "./client.js";
import type { Answered, Bus, Failed } from "./client.js";
import { BusError, InputError, PerpetuaError, RefusedError } from "./errors.js";
import { isUntrusted } from "./trust.js";
import { Backoff, CLOSED, refuseAll, sent } from "./waiting.js";
import type { Told } from "./waiting.js";

const BATCH_BYTES = 16_384;
const JOIN_MILLISECONDS = 30_000;
const REFUSALS = new Set([
  "CLUSTER_AUTHORIZATION_FAILED",
  "GROUP_AUTHORIZATION_FAILED",
  "INVALID_RECORD",
  "INVALID_TOPIC_EXCEPTION",
  "MESSAGE_TOO_LARGE",
  "POLICY_VIOLATION",
  "RECORD_LIST_TOO_LARGE",
  "SASL_AUTHENTICATION_FAILED",
  "TOPIC_AUTHORIZATION_FAILED",
  "UNKNOWN_TOPIC_OR_PARTITION",
  "UNSUPPORTED_SASL_MECHANISM",
]);
const OTHER_NUMBERS = new Set(["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"]);

export interface KafkaOptions extends Pick<KafkaConfig, "ssl" | "sasl"> {
  /** Of the questions; any if not given. */
  readonly partition?: number;
  /** Begins the name of the consumer group, which is the client's own and goes with it; "perpetua-ask-". */
  readonly group?: string;
}

/**
 * Returns a client of a daemon on Kafka.
 *
 * @param servers Brokers to begin with, "host:port".
 * @param queries Topic of the questions.
 * @param replies Where the answers are to go; where the daemon does not allow it, they go to its answer topic.
 */
export async function kafka(
  servers: string | readonly string[],
  queries: string,
  replies: string,
  options: KafkaOptions = {},
): Promise<Client> {
  return Client.over(new KafkaBus([servers].flat(), queries, replies, options));
}

interface Waiting {
  readonly body: string;
  readonly headers: IHeaders;
  readonly told: Told;
}

class KafkaBus implements Bus {
  readonly #kafka: kafkajs.Kafka;
  readonly #group: string;
  readonly #queries: string;
  readonly #replies: string;
  readonly #closing = new AbortController();
  #partitions: number[];
  #turn = Math.floor(Math.random() * 1000);
  #tries = 0;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #producer: Producer | undefined;
  #consumer: Consumer | undefined;
  #admin: Admin | undefined;

  constructor(servers: string[], queries: string, replies: string, options: KafkaOptions) {
    const { partition, group = "perpetua-ask-", ...rest } = options;
    this.#kafka = new kafkajs.Kafka({
      brokers: servers,
      clientId: "perpetua-ask",
      connectionTimeout: 10_000,
      logLevel: kafkajs.logLevel.NOTHING,
      ...rest,
    });
    this.#group = group + randomBytes(8).toString("hex");
    this.#queries = queries;
    this.#replies = replies;
    this.#partitions = partition === undefined ? [] : [partition];
  }

  async open(answered: Answered, failed: Failed): Promise<void> {
    try {
      const admin = (this.#admin = this.#kafka.admin());
      await admin.connect();
      const { topics } = await admin.fetchTopicMetadata({ topics: [this.#queries, this.#replies] });
      const asked = topics.find(({ name }) => name === this.#queries)?.partitions.map((one) => one.partitionId) ?? [];
      for (const one of this.#partitions) {
        if (!asked.includes(one)) throw new InputError(`partition: must be below ${asked.length}`);
      }
      if (this.#partitions.length === 0) this.#partitions = asked;
      this.#producer = await this.#connected();
      await this.#read(admin, answered, failed);
    } catch (error) {
      throw translated(error);
    }
  }

  /** Reads from here on; a member that was away goes on where it was, by what its group has committed. */
  async #read(admin: Admin, answered: Answered, failed: Failed): Promise<void> {
    const topic = this.#replies;
    const ends = await admin.fetchTopicOffsets(topic);
    let opened = false;
    let crash: Error | undefined;
    let transient = false;
    const consumer = (this.#consumer = this.#kafka.consumer({
      groupId: this.#group,
      allowAutoTopicCreation: false,
      maxWaitTimeInMs: 500, // which closing waits for
      retry: {
        retries: 20,
        maxRetryTime: 2000,
        restartOnFailure: async () => {
          transient = true; // it is asked of no other error
          return opened && !this.#closing.signal.aborted;
        },
      },
    }));
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      crash = payload.error;
      if (opened && !payload.restart && !this.#closing.signal.aborted) failed(translated(payload.error));
    });
    consumer.on(consumer.events.GROUP_JOIN, () => {
      if (this.#closing.signal.aborted) setImmediate(() => void consumer.disconnect().catch(() => {}));
    });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true }); // of partitions that are added later
    // kafkajs gives up at once if the group's coordinator is still loading.
    const backoff = new Backoff();
    for (const end = performance.now() + JOIN_MILLISECONDS; !opened; ) {
      crash = undefined;
      transient = false;
      await consumer.run({
        autoCommitInterval: 1000,
        eachMessage: async ({ message }) => {
          const correlation = message.headers?.["correlation-id"];
          if (correlation !== undefined) answered(String(correlation), String(message.value ?? ""));
        },
      });
      if (crash === undefined) opened = true;
      else if (!transient || performance.now() > end) throw crash;
      else await backoff.pause(this.#closing.signal);
    }
    const places = ends.map(({ partition, high }) => ({ topic, partition, offset: high }));
    await consumer.commitOffsets(places);
    for (const place of places) consumer.seek(place);
  }

  async send(correlation: string, body: string): Promise<boolean> {
    const headers = { "content-type": "application/json", "correlation-id": correlation, "reply-topic": this.#replies };
    return sent(this.#closing.signal, (told) => {
      this.#waiting.push({ body, headers, told });
      this.#writing ??= this.#write();
    });
  }

  async close(): Promise<void> {
    refuseAll(this.#closing, this.#waiting);
    for (const client of [this.#producer, this.#consumer]) await client?.disconnect().catch(() => {});
    await this.#writing;
    await this.#producer?.disconnect().catch(() => {}); // one that it has connected meanwhile
    if (this.#consumer !== undefined) {
      await this.#admin?.deleteGroups([this.#group]).catch(() => {}); // the broker's own time-out removes it too
    }
    await this.#admin?.disconnect().catch(() => {});
  }

  /**
   * Writes what waits, one batch for one partition at a time. kafkajs numbers a batch that it sends again as before
   * only if no other was sent in between, to the same partition of the same brokers.
   */
  async #write(): Promise<void> {
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, 1);
      let size = batch[0]!.body.length;
      while (this.#waiting[0] !== undefined && (size += this.#waiting[0].body.length) <= BATCH_BYTES) {
        batch.push(this.#waiting.shift()!);
      }
      const outcome = await this.#put(batch);
      for (const { told } of batch) told(outcome);
    }
    this.#writing = undefined;
  }

  async #put(batch: readonly Waiting[]): Promise<boolean | PerpetuaError> {
    const partition = this.#partitions[this.#turn++ % this.#partitions.length]!;
    const messages = batch.map(({ body, headers }) => ({ key: null, value: body, headers, partition }));
    const backoff = new Backoff();
    this.#tries = 0;
    while (!this.#closing.signal.aborted) {
      try {
        this.#producer ??= await this.#connected();
        await this.#producer.send({ topic: this.#queries, messages, acks: -1 });
        return true;
      } catch (error) {
        const type = typeOf(error);
        if (type === "DUPLICATE_SEQUENCE_NUMBER") return true;
        if (REFUSALS.has(type)) return this.#tries > batch.length ? false : translated(error);
        if (OTHER_NUMBERS.has(type)) {
          await this.#producer?.disconnect().catch(() => {});
          this.#producer = undefined;
          return false;
        }
        await backoff.pause(this.#closing.signal);
      }
    }
    return this.#tries > 0 ? false : new RefusedError(CLOSED);
  }

  async #connected(): Promise<Producer> {
    const producer = this.#kafka.producer({
      idempotent: true,
      allowAutoTopicCreation: false,
      retry: { retries: 5, maxRetryTime: 2000 },
      createPartitioner: () => ({ message }) => {
        // Asked for each message each time that a batch is sent.
        if (this.#closing.signal.aborted) throw new kafkajs.KafkaJSNonRetriableError(CLOSED);
        this.#tries += 1;
        return message.partition!;
      },
    });
    try {
      await producer.connect();
    } catch (error) {
      await producer.disconnect().catch(() => {});
      throw error;
    }
    return producer;
  }
}

/** Returns the broker's word for an error, or "". */
function typeOf(error: unknown): string {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const type = (cause as { type?: unknown }).type;
    if (typeof type === "string") return type;
    if (cause.name === "KafkaJSSASLAuthenticationError") return "SASL_AUTHENTICATION_FAILED";
  }
  return "";
}

function lacksCoordinator(error: unknown): boolean {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause.name === "KafkaJSGroupCoordinatorNotFound") return true;
  }
  return false;
}

function translated(error: unknown): PerpetuaError {
  if (error instanceof PerpetuaError) return error;
  const why = error instanceof Error ? error.message : String(error);
  // kafkajs says so of a coordinator that is away, and where the broker lets us read no group of this name.
  const doubt = lacksCoordinator(error) ? ", or no right to read it (option `group`)" : "";
  const text = `kafka: ${why}${doubt}`;
  return REFUSALS.has(typeOf(error)) || isUntrusted(error) ? new RefusedError(text) : new BusError(text);
}
