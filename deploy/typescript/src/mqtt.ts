/** Questions over MQTT 5, at QoS 1, and nothing twice; a lost connection is made again, in the same session. */
import { randomBytes } from "node:crypto";
import { connect } from "mqtt";
import type { IClientOptions, IConnackPacket, MqttClient } from "mqtt";
import { Client } from "./client.js";
import type { Answered, Bus, Failed } from "./client.js";
import { BusError, InputError, PerpetuaError, RefusedError } from "./errors.js";
import { isUntrusted } from "./trust.js";
import { Backoff, refuseAll, sent, within } from "./waiting.js";
import type { Told } from "./waiting.js";

const NOBODY = 0x10;
const MOST_IN_FLIGHT = 65_535;
const OVERHEAD_BYTES = 128;
const SESSION_SECONDS = 86_400;
const PASSING = new Set([0x88, 0x89, 0x97, 0x9c, 0x9d, 0x9f]); // unavailable, busy, over quota, moved, over rate

export type MqttOptions = Pick<IClientOptions, "username" | "password" | "ca" | "cert" | "key" | "keepalive">;

/**
 * Returns a client of a daemon on MQTT.
 *
 * @param url The broker, "mqtt://host:1883" or "mqtts://host:8883".
 * @param queries Topic of the questions.
 * @param replies Topic of the answers, nobody else's; where the daemon does not allow it, name its answer topic.
 */
export async function mqtt(url: string, queries: string, replies: string, options: MqttOptions = {}): Promise<Client> {
  return Client.over(new MqttBus(url, queries, replies, options));
}

interface Waiting {
  readonly correlation: string;
  readonly body: string;
  readonly told: Told;
}

class MqttBus implements Bus {
  readonly #id = `perpetua-ask-${randomBytes(8).toString("hex")}`;
  readonly #closing = new AbortController();
  readonly #inFlight = new Set<Told>();
  readonly #unheard = new Set<number>();
  readonly #waiting: Waiting[] = [];
  #answered: Answered = () => {};
  #failed: Failed = () => {};
  #client: MqttClient | undefined;
  #window = MOST_IN_FLIGHT;
  #largest = Infinity;
  #again: Promise<void> | undefined;

  constructor(
    readonly url: string,
    readonly queries: string,
    readonly replies: string,
    readonly options: MqttOptions,
  ) {
    if (/[#+]/.test(queries) || queries === "") throw new InputError("queries: must be one topic");
  }

  async open(answered: Answered, failed: Failed): Promise<void> {
    this.#answered = answered;
    this.#failed = failed;
    await this.#connect();
  }

  async send(correlation: string, body: string): Promise<boolean> {
    return sent(this.#closing.signal, (told) => {
      this.#waiting.push({ correlation, body, told });
      this.#publish();
    });
  }

  async close(): Promise<void> {
    refuseAll(this.#closing, this.#waiting);
    if (this.#again !== undefined) await within(this.#again, 2000);
    const client = this.#client;
    this.#client = undefined;
    this.#leave();
    if (client === undefined) return;
    await within(client.endAsync(false, { properties: { sessionExpiryInterval: 0 } }), 2000).catch(() => {});
    client.end(true);
  }

  /** Makes a connection of its own: a client of mqtt.js that connects again also publishes again. */
  async #connect(): Promise<void> {
    const client = connect(this.url, {
      keepalive: 20,
      ...this.options,
      protocolVersion: 5,
      clientId: this.#id,
      clean: false,
      reconnectPeriod: 0,
      properties: { sessionExpiryInterval: SESSION_SECONDS },
    });
    client.on("message", (_topic, payload, packet) => {
      const correlation = packet.properties?.correlationData;
      if (correlation !== undefined) this.#answered(String(correlation), String(payload));
    });
    client.on("packetreceive", (packet) => {
      if (packet.cmd === "puback" && packet.reasonCode === NOBODY) this.#unheard.add(packet.messageId!);
    });
    client.on("close", () => this.#client === client && this.#lost());
    client.on("error", () => {}); // it is closed then
    const closed = new Promise<never>((_, reject) => {
      client.once("error", reject);
      client.once("close", () => reject(new BusError("broker: it closes the connection")));
    });
    closed.catch(() => {});
    try {
      const connected = new Promise<IConnackPacket>((resolve) => client.once("connect", resolve));
      const { properties } = await Promise.race([connected, closed]);
      this.#window = properties?.receiveMaximum ?? MOST_IN_FLIGHT;
      this.#largest = properties?.maximumPacketSize ?? Infinity;
    } catch (error) {
      client.end(true);
      throw translated("broker", error);
    }
    const topic = `topic ${this.replies}`;
    try {
      const granted = await Promise.race([client.subscribeAsync(this.replies, { qos: 1, rap: true, rh: 2 }), closed]);
      if (granted[0]?.qos !== 1) throw new RefusedError(`${topic}: the broker refuses a subscription at QoS 1`);
    } catch (error) {
      client.end(true);
      throw translated(topic, error);
    }
    if (!client.connected || this.#closing.signal.aborted) {
      client.end(true);
      throw new BusError("broker: it closes the connection");
    }
    this.#client = client;
    this.#unheard.clear();
    this.#publish();
  }

  #lost(): void {
    this.#client?.end(true);
    this.#client = undefined;
    this.#leave();
    this.#again ??= this.#connectAgain().finally(() => (this.#again = undefined));
  }

  /** Of what the broker has not accepted by now nobody knows whether it has it. */
  #leave(): void {
    for (const told of this.#inFlight) told(false);
    this.#inFlight.clear();
  }

  async #connectAgain(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#closing.signal.aborted) {
      await backoff.pause(this.#closing.signal);
      if (this.#closing.signal.aborted) return;
      try {
        return await this.#connect();
      } catch (error) {
        if (error instanceof BusError) continue;
        this.#failed(translated("broker", error));
        return;
      }
    }
  }

  /** Sends what waits, so much at a time as the broker lets us. */
  #publish(): void {
    const client = this.#client;
    while (client?.connected && this.#inFlight.size < this.#window) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      const { correlation, body, told } = next;
      if (Buffer.byteLength(body + this.queries + this.replies) + OVERHEAD_BYTES > this.#largest) {
        told(new RefusedError(`topic ${this.queries}: the broker takes messages of at most ${this.#largest} bytes`));
        continue;
      }
      this.#inFlight.add(told);
      const properties = {
        contentType: "application/json",
        responseTopic: this.replies,
        correlationData: Buffer.from(correlation),
      };
      client.publish(this.queries, body, { qos: 1, properties }, (error, packet) => {
        if (!this.#inFlight.delete(told)) return; // of a connection that is gone
        told(this.#outcome(error, packet?.messageId));
        this.#publish();
      });
    }
  }

  #outcome(error: Error | null | undefined, id: number | undefined): boolean | PerpetuaError {
    const topic = `topic ${this.queries}`;
    if (error) return isRefusal(error) ? translated(topic, error) : false;
    if (!this.#unheard.delete(id!)) return true;
    return new BusError(`${topic}: nobody is subscribed to it, so the query is lost; start \`perpetua serve\``);
  }
}

/** Whether it is the broker's word on a packet, and not a connection's end. */
function isRefusal(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  return typeof code === "number" && code >= 0x80;
}

function translated(what: string, error: unknown): PerpetuaError {
  if (error instanceof PerpetuaError) return error;
  const text = `${what}: ${error instanceof Error ? error.message : String(error)}`;
  const refused = isRefusal(error) ? !PASSING.has((error as { code: number }).code) : isUntrusted(error);
  return refused ? new RefusedError(text) : new BusError(text);
}
