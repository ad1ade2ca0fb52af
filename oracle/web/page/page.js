// The status page: polls /status and shows what it says. It changes nothing, keeps nothing, and asks nobody else.
// What the daemon says is shown as text only (textContent, setAttribute), never as markup.

const POLL_MS = 2000;
const SLOWEST_POLL_MS = 30000;
const ANSWER_MS = 5000;
const STATES = ["waiting", "restoring", "serving", "degraded", "paused", "refused", "fenced", "failed", "stopped"];
const ANSWERS = ["serving", "degraded"];
const STATES_SHOWN = 4; // not-ready reasons and changes of state told one by one; the others are counted
const CHART = { width: 300, height: 84, slots: 60 };

const by = (id) => document.getElementById(id);

// ---- Numbers as text

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const DASH = "–";

const count = (value) => whole.format(value);
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
const rate = (value) => (value < 10 ? tenths : whole).format(value);
const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Three significant digits, never less than the value: privacy spent is rounded up. */
function roundedUp(value) {
  if (!(value > 0)) return "0";
  const text = value.toExponential(2);
  if (Number(text) >= value) return text;
  const [digits, exponent] = text.split("e");
  return (((Math.round(Number(digits) * 100) + 1) / 100) * 10 ** Number(exponent)).toExponential(2);
}

/** All digits that it has, but for the noise of a sum in its last ones; where these are many, three, rounded up. */
function exact(value) {
  const plain = Number(value.toPrecision(12));
  const text = plain === 0 || (plain >= 1e-2 && plain < 1e6) ? String(plain) : plain.toExponential();
  return text.length <= 9 ? text : roundedUp(value);
}

function duration(seconds) {
  const full = Math.max(0, Math.floor(seconds));
  if (full < 60) return `${full} s`;
  if (full < 3600) return `${Math.floor(full / 60)} min`;
  if (full < 86400) return `${Math.floor(full / 3600)} h ${Math.floor((full % 3600) / 60)} min`;
  return `${count(Math.floor(full / 86400))} d ${Math.floor((full % 86400) / 3600)} h`;
}

const delay = (seconds) => (seconds < 60 ? `${tenths.format(seconds)} s` : duration(seconds));

function bytes(size) {
  const unit = ["B", "kB", "MB", "GB", "TB"][Math.min(4, size > 0 ? Math.floor(Math.log10(size) / 3) : 0)];
  return `${tenths.format(size / 1000 ** ["B", "kB", "MB", "GB", "TB"].indexOf(unit))} ${unit}`;
}

const two = (number) => String(number).padStart(2, "0");

const clock = (date) => [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");

/** Local time of day and how long ago, or of another day than today's the date and the time to the minute. */
function moment(date, today) {
  if (date.toDateString() === today.toDateString()) return `${clock(date)} · ${duration((today - date) / 1000)} ago`;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${clock(date).slice(0, 5)}`;
}

// ---- Elements

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function set(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const known = (state) => (STATES.includes(state) ? state : "other");
const icon = (state) =>
  draw("svg", { class: "icon", "aria-hidden": "true", focusable: "false" }, draw("use", { href: `#icon-${known(state)}` }));

/** Makes what `key` has not seen before and drops what is gone; elements that stay are the same, so focus stays too. */
function keep(parent, items, key, build, fill) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, index) => {
    const name = String(key(item));
    const element = old.get(name) ?? build(item);
    element.dataset.key = name;
    old.delete(name);
    if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null);
    fill(element, item);
  });
  for (const gone of old.values()) gone.remove();
}

// ---- Charts

function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const multiples = value > 10 ? [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10] : [1, 2, 4, 6, 8, 10];
  return Math.max(1, power * multiples.find((multiple) => multiple * power >= value));
}

/** Runs of neighbouring values that are known, as points of the drawing; the newest value is at the right edge. */
function runs(values, top) {
  const found = [[]];
  values.forEach((value, index) => {
    if (value === null) return found.push([]);
    const x = ((CHART.slots - values.length + index) / (CHART.slots - 1)) * CHART.width;
    return found.at(-1).push([x.toFixed(1), (CHART.height * (1 - value / top)).toFixed(1)]);
  });
  return found.filter((run) => run.length > 0);
}

function curves(run) {
  const line = `M${run.map((point) => point.join(" ")).join("L")}${run.length === 1 ? "h2" : ""}`;
  const area = `${line}V${CHART.height}H${run[0][0]}Z`;
  return [draw("path", { class: "area", d: area }), draw("path", { class: "curve", d: line })];
}

function inWords(name, unit, values, span) {
  const told = values.filter((value) => value !== null);
  if (told.length === 0) return `${name} over the last ${span}: not known.`;
  const mean = sum(told) / told.length;
  const [now, low, high, middle] = [told.at(-1), Math.min(...told), Math.max(...told), mean].map(rate);
  return `${name} over the last ${span}: now ${now} ${unit}, lowest ${low}, highest ${high}, mean ${middle}.`;
}

function chart(parent, name, unit, values, seconds) {
  const recent = values.slice(-CHART.slots);
  const top = ceiling(Math.max(0, ...recent.map((value) => value ?? 0)));
  const picture = draw("svg", {
    viewBox: `0 0 ${CHART.width} ${CHART.height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": inWords(name, unit, recent, duration(recent.length * seconds)),
  });
  for (const y of [0, CHART.height / 2, CHART.height]) picture.append(draw("path", { class: "grid", d: `M0 ${y}H${CHART.width}` }));
  picture.append(...runs(recent, top).flatMap(curves));
  const marks = [top, top / 2, 0].map((mark) => make("span", {}, rate(mark)));
  const ends = [`${duration(CHART.slots * seconds)} ago`, "now"].map((end) => make("span", {}, end));
  const hidden = { "aria-hidden": "true" };
  parent.replaceChildren(make("div", { class: "picture" }, picture), make("div", { class: "scale", ...hidden }, ...marks), make("div", { class: "ends", ...hidden }, ...ends));
}

// ---- Parts of the page

const KINDS = { theorem: "a theorem", estimate: "an estimate", nominal: "nominal" };

/** Whether the data pay for some answers: then there are no phases to speak of, and delta is no sum. */
const pays = (status) => (status.paid_limit ?? null) !== null;
const paid = (status) => sum(status.shards.map((shard) => shard.paid));
const unpaid = (status) => Math.max(0, status.paid_limit * status.shards.length - paid(status));
const behind = ({ promise, shards }) => (promise.questions ?? null) !== null && shards.length > 0 && shards.every((shard) => shard.round >= promise.questions);
/** Shards whose queries get no answer for some rounds more. */
const resting = (status) => status.shards.filter((shard) => shard.rest_left > 0);
const spent = (status) => pays(status) && !status.settles && status.shards.length > 0 && unpaid(status) === 0;

function showKind(status) {
  for (const line of document.querySelectorAll(".scheduled")) line.hidden = pays(status);
  for (const line of document.querySelectorAll(".paying")) line.hidden = !pays(status);
  for (const line of document.querySelectorAll(".resting")) line.hidden = status.rests !== true;
  showRest(status);
  by("spent").hidden = !spent(status);
  put(by("spent-text"), status.predictor === "sparse-vector"
    ? "Only what follows from earlier answers is answered any more. New answers need a new model, whose budget the rows pay beside this one’s."
    : "Answers are no longer verified: those that earlier paid answers do not settle come from what was learned, and the promised error does not hold for them.");
}

function showRest(status) {
  const found = resting(status);
  by("rest").hidden = found.length === 0;
  if (found.length === 0) return;
  const named = found.slice(0, STATES_SHOWN).map((shard) => `shard ${shard.shard} for ${plural(shard.rest_left, "round")} more`);
  if (found.length > STATES_SHOWN) named.push(`and ${plural(found.length - STATES_SHOWN, "more shard")}`);
  put(by("rest-text"), `Queries get no answer, but the error “resting”: ${named.join(", ")}. More of them were contested than declared.`);
}

/** The list of all models, where the daemon serves many. */
function showModels(status) {
  const models = status.models ?? [];
  by("models").hidden = models.length < 2;
  keep(by("model-choice"), models, ({ model }) => model, ({ model }) => make("option", { value: model }), (option, { model, ready }) => {
    put(option, ready ? model : `${model} (not ready)`);
  });
  if (by("model-choice").value !== status.model) by("model-choice").value = status.model;
}

/** Of a model whose state was never opened there is only why. */
const isDown = (status) => status.shards === undefined;

function showDown(status) {
  put(by("model"), status.model);
  put(by("facts"), `version ${status.version}`);
  set(by("verdict"), "data-verdict", "failed");
  set(by("verdict-icon"), "href", "#icon-failed");
  put(by("verdict-title"), "Not served");
  showReasons(status.not_ready);
}

function showHead(status) {
  put(by("model"), status.model);
  put(by("facts"), `version ${status.version} · ${status.predictor}, ${status.profile} profile · ${over(status) ? "no new error is promised" : `error at most ${status.promise.bound.toFixed(4)}, ${KINDS[status.promise.kind] ?? ""}`} · alpha ${exact(status.alpha)} · up ${duration(status.now - status.started)}`);
}

function showVerdict(status) {
  const serving = status.shards.filter((shard) => ANSWERS.includes(shard.state)).length;
  const failed = status.shards.some((shard) => shard.state === "failed");
  set(by("verdict"), "data-verdict", failed ? "failed" : status.ready ? "ready" : "waiting");
  set(by("verdict-icon"), "href", status.ready && !failed ? "#icon-serving" : "#icon-failed");
  put(by("verdict-title"), `${status.ready ? "Ready" : "Not ready"}: ${count(serving)} of ${plural(status.shards.length, "shard")} serving`);
  showReasons(status.not_ready);
}

function showReasons(found) {
  const reasons = found.slice(0, STATES_SHOWN).map((reason) => reason.text);
  const others = found.length - reasons.length;
  if (others > 0) reasons.push(`and ${plural(others, "more reason")}`);
  keep(by("verdict-reasons"), [...reasons.entries()], ([index]) => index, () => make("li"), (item, [, text]) => put(item, text));
}

function showThroughput(status) {
  put(by("rate-now"), rate(sum(status.shards.map((shard) => shard.rate))));
  chart(by("rate-chart"), "Queries per second", "queries per second", status.history.rates, status.history.seconds);
}

function showLag(status) {
  const records = status.shards.map((shard) => shard.lag_records).filter((lag) => lag !== null);
  const longest = Math.max(...status.shards.map((shard) => shard.lag_seconds ?? -1));
  const total = sum(records);
  put(by("lag-now"), records.length > 0 ? count(total) : DASH);
  const unit = total === 1 ? "record" : "records";
  const behind = longest >= 0 ? `${unit}, ${delay(longest)} behind at most` : unit;
  const waits = status.shards.some((shard) => !ANSWERS.includes(shard.state));
  const unknown = waits ? "not known while shards wait" : "this source cannot tell";
  put(by("lag-unit"), records.length > 0 ? behind : unknown);
  chart(by("lag-chart"), "Lag", "records", status.history.lags, status.history.seconds);
}

function showPrivacy(status) {
  const each = Math.max(0, ...status.shards.map((shard) => shard.delta));
  const onRows = status.released === true || status.protects_queries === false;
  put(by("privacy-standing"), status.proved ? "proved" : "nominal");
  set(by("privacy-standing"), "data-proved", status.proved);
  put(by("privacy-epsilon"), exact(status.epsilon));
  put(by("privacy-unit"), `${onRows ? "a training record" : "a record"} pays, once and for ever`);
  put(by("privacy-delta"), roundedUp(each));
  put(by("privacy-delta").previousSibling, pays(status) ? "δ of a training record" : "δ of a record, now");
  put(by("privacy-spent"), roundedUp(status.delta_spent));
  put(by("privacy-limit"), exact(status.delta_limit));
  for (const name of ["privacy-spent", "privacy-limit"]) by(name).parentElement.hidden = status.sums_delta === false;
  put(by("privacy-words"), privacyInWords(status));
}

/** What the figures mean, which depends on whom they are about. */
function privacyInWords(status) {
  const epsilon = exact(status.epsilon);
  if (!status.proved) return `Nominal ε = ${epsilon}, nominal δ: both are names here, no proof bounds them.`;
  if (status.released === true) {
    return `Proved for each training record: ε = ${epsilon}, δ = 0. What was learned from them is released for ever: queries cost nothing and are not kept, and no δ is ever spent.`;
  }
  const forks = "What perpetua fork costs is not among them.";
  if (status.sums_delta === false) {
    return `Proved for each training record (questions and answers are public): ε = ${epsilon} and this δ, of all answers together, for ever, however many questions are asked. ${forks}`;
  }
  if (status.protects_queries === false) {
    return `Proved for each training record (queries are not protected): ε = ${epsilon}, and a δ of its own. All of it counts from the start; answers after the rounds that learn cost nothing. ${forks}`;
  }
  return `Proved for each record: ε = ${epsilon}, and a δ of its own. Nothing is used up: a new query pays for itself, and phases are planned so that the sum over endless rounds stays below its limit. ${forks}`;
}

// ---- The plan

/** Why nothing new is promised; "" where it is. */
function over(status) {
  if (spent(status)) return "Nothing new is promised: all paid answers are spent. Only what follows from earlier answers is still as good as below.";
  return behind(status) ? `Nothing new is promised: it was for the first ${count(status.promise.questions)} questions. What was verified before stays as good as below.` : "";
}

function showPromise(status) {
  const { promise } = status;
  const beyond = promise.beyond ? ` beyond ${promise.beyond}` : "";
  const missed = promise.missed === null ? "" : `, missed with probability ${exact(promise.missed)} at most`;
  const ended = over(status);
  put(by("promise-kind"), ended ? "over" : KINDS[promise.kind] ?? promise.kind);
  set(by("promise-kind"), "data-proved", promise.kind === "theorem" && !ended);
  put(by("promise-over"), ended);
  by("promise-over").hidden = !ended;
  put(by("promise-bound"), `${ended ? "before: " : ""}at most ${promise.bound.toFixed(4)}${beyond}`);
  put(by("promise-unit"), `on ${promise.on ?? "honest queries"}${missed}; asked of the plan: alpha = ${exact(status.alpha)}`);
  put(by("promise-basis"), `How it is known: ${promise.basis}.`);
  keep(by("promise-conditions"), promise.conditions, (text) => text, () => make("li"), (item, text) => put(item, text));
}

/** Without the noise of the last digits. */
const product = (times, value) => Number((times * value).toPrecision(12));

const PHASES_SHOWN = 3; // from the current one on; and the last one

/** What the training records pay, and all rounds of a phase: the phases that shards are in, the next ones, the last. */
function phaseRows(status) {
  const { schedule, shards } = status;
  const now = new Set(shards.map((shard) => shard.phase));
  const first = Math.max(1, Math.min(...now, schedule.length));
  const rows = [];
  let skipped = false;
  schedule.forEach(({ rounds, delta }, index) => {
    const phase = index + 1;
    if (now.has(phase) || (phase >= first && phase < first + PHASES_SHOWN) || phase === schedule.length) {
      if (skipped) rows.push([`gap ${phase}`, ["…", "", "", ""], false]);
      rows.push([`phase ${phase}`, [`phase ${phase}${now.has(phase) ? ", now" : ""}`, count(rounds), roundedUp(delta), roundedUp(product(rounds, delta))], now.has(phase)]);
      skipped = false;
    } else skipped = true;
  });
  const each = schedule[0].delta;
  return [["rows", [`${count(status.declared)} training rows declared`, "", roundedUp(each), roundedUp(product(status.declared, each))], false], ...rows];
}

function showPhases(status) {
  const whole = status.released === true || status.schedule.length < 2;
  by("phases").hidden = whole;
  if (whole) return;
  const build = () => make("div", { role: "row" }, ...[0, 1, 2, 3].map(() => make("span", { role: "cell" })));
  keep(by("phase-rows"), phaseRows(status), ([key]) => key, build, (row, [, cells, now]) => {
    set(row, "data-now", now);
    cells.forEach((text, index) => put(row.children[index], text));
  });
  const shards = status.shards.length > 1 ? " Figures are of one shard." : "";
  put(by("phases-words"), `${phasesInWords(status)}${shards}`);
}

function phasesInWords(status) {
  if (status.predictor === "bisection") return "Phase 1 learns, phase 2 recalls what was learned, at no cost.";
  return "A phase is a number of rounds. When it ends, every side is re-armed: it takes queries that the phase answered in place of the points it compared with. A single side is re-armed before, when enough queries (its mediums) came close to its edge.";
}

const range = (numbers) => {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  return low === high ? count(low) : `${count(low)}–${count(high)}`;
};

function showProgress(status) {
  const { shards } = status;
  const total = (field) => count(sum(shards.map((shard) => shard[field])));
  const dated = shards.filter((shard) => shard.snapshot_at !== null).sort((one, other) => one.snapshot_at - other.snapshot_at);
  const closest = [...shards].sort((one, other) => roundsLeft(one) - roundsLeft(other))[0];
  const of = (shard) => (shards.length > 1 ? ` shard ${shard.shard}` : "");
  const line = (id, value, remark = "") => {
    put(by(id), value);
    if (remark) by(id).append(make("small", {}, remark));
  };
  put(by("progress-title"), pays(status) ? "Questions" : "Schedule");
  put(by("progress-rounds").previousSibling, pays(status) ? "Questions answered" : "Rounds answered");
  line("progress-rounds", total("round"));
  line("progress-paid", total("paid"), pays(status) && ` of ${count(status.paid_limit * shards.length)}`);
  line("progress-unpaid", count(unpaid(status)));
  line("progress-phase", closest ? range(shards.map((shard) => shard.phase)) : DASH, closest && ` of ${range(shards.map((shard) => shard.phases))} planned`);
  const wait = closest && closest.rate > 0 ? ` in ${duration(roundsLeft(closest) / closest.rate)}` : "";
  by("progress-next").hidden = status.released === true || pays(status);
  put(by("progress-next").firstChild, status.predictor === "bisection" ? "Rounds to its end" : "Rounds to re-arm");
  line("progress-left", closest ? count(roundsLeft(closest)) : DASH, closest && `${of(closest)}${wait}`);
  line("progress-rearms", total("rearms"));
  line("progress-rested", total("rested"));
  line("progress-batches", total("batches"));
  line("progress-age", dated.length > 0 ? duration(status.now - dated[0].snapshot_at) : "none yet", dated.length > 0 ? of(dated[0]) : "");
  line("progress-bytes", bytes(sum(shards.map((shard) => shard.snapshot_bytes ?? 0))));
}

// ---- Shards

const roundsLeft = (shard) => Math.max(0, shard.phase_rounds - shard.phase_round);
const rejected = (shard) => sum(Object.values(shard.rejections));

/** A number with a bar beside it. */
function metered(cell, text, name, value) {
  if (cell.children.length === 0) cell.append(make("div", { class: "metered" }, make("meter", { min: 0, max: 1, "aria-label": name }), make("span")));
  const [bar, number] = cell.firstChild.children;
  set(bar, "aria-label", name);
  set(bar, "value", value);
  put(number, text);
}

function stateCell(cell, shard) {
  const label = cell.firstChild;
  if (label?.dataset.state === known(shard.state) && label.textContent === shard.state) return;
  cell.replaceChildren(make("span", { class: "state", "data-state": known(shard.state) }, icon(shard.state), shard.state));
}

function lagText(shard) {
  if (shard.lag_records === null && shard.lag_seconds === null) return DASH;
  return [shard.lag_records === null ? "" : count(shard.lag_records), shard.lag_seconds === null ? "" : delay(shard.lag_seconds)]
    .filter((part) => part !== "").join(" · ");
}

function snapshotText(shard, now) {
  if (shard.snapshot_at === null) return "none yet";
  const age = duration(now - shard.snapshot_at);
  return shard.snapshot_bytes === null ? age : `${age} · ${bytes(shard.snapshot_bytes)}`;
}

const COLUMNS = [
  ["State", stateCell],
  ["Queries/s", (cell, shard) => put(cell, rate(shard.rate))],
  ["Lag", (cell, shard) => put(cell, lagText(shard))],
  ["Round", (cell, shard) => put(cell, count(shard.round))],
  ["Phase", (cell, shard) => put(cell, `${count(shard.phase)} of ${count(shard.phases)}`)],
  ["Rounds left", (cell, shard) => metered(
    cell, count(roundsLeft(shard)), `Phase ${shard.phase} done, shard ${shard.shard}`,
    shard.phase_rounds > 0 ? shard.phase_round / shard.phase_rounds : 0)],
  ["Re-arms", (cell, shard) => put(cell, count(shard.rearms))],
  ["Rest left", (cell, shard) => put(cell, count(shard.rest_left))],
  ["Paid left", (cell, shard, { paid_limit: limit }) => metered(
    cell, count(limit - shard.paid), `Paid answers given, shard ${shard.shard}`, limit > 0 ? shard.paid / limit : 0)],
  ["δ of all", (cell, shard) => put(cell, roundedUp(shard.delta_spent))],
  ["Snapshot", (cell, shard, { now }) => put(cell, snapshotText(shard, now))],
  ["Rejected", (cell, shard) => put(cell, count(rejected(shard)))],
];

const SCHEDULED = ["Phase", "Rounds left", "Re-arms", "δ of all"];
const columnsOf = (status) => COLUMNS.filter(([label]) => {
  if (label === "Rest left") return status.rests === true;
  return pays(status) ? !SCHEDULED.includes(label) : label !== "Paid left";
});

function buildHead([label]) {
  const head = make("th", { role: "columnheader", scope: "col" }, label);
  if (label !== "State") head.className = "number";
  return head;
}

function buildRow(shard, columns) {
  const row = make("tr", { role: "row" }, make("th", { role: "rowheader", scope: "row", class: "number" }, String(shard.shard)));
  for (const [label] of columns) {
    row.append(make("td", { role: "cell", "data-label": label, class: label === "State" ? "stately" : "number" }));
  }
  return row;
}

let shownState = "all";

function showShards(status) {
  const { shards } = status;
  const columns = columnsOf(status);
  by("shards-none").hidden = shards.length > 0;
  by("shard-table").hidden = shards.length === 0;
  keep(by("shard-heads"), [["Shard"], ...columns], ([label]) => label, buildHead, () => {});
  const key = (shard) => `${columns.length} ${shard.shard}`;
  keep(by("shard-rows"), shards, key, (shard) => buildRow(shard, columns), (row, shard) => {
    set(row, "data-state", known(shard.state));
    columns.forEach(([, fill], index) => fill(row.children[index + 1], shard, status));
  });
  showFilter(shards);
  applyFilter();
}

function showFilter(shards) {
  const counts = new Map([["all", shards.length]]);
  for (const state of [...STATES, "other"]) {
    const number = shards.filter((shard) => known(shard.state) === state).length;
    if (number > 0 || state === shownState) counts.set(state, number);
  }
  by("filter").hidden = shards.length < 2;
  keep(by("choices"), [...counts], ([state]) => state, buildChoice, (choice, [state, number]) => {
    put(choice.lastChild, `${state === "all" ? "All" : state} ${count(number)}`);
  });
}

function buildChoice([state]) {
  const choice = make("label", {}, make("input", { type: "radio", name: "state", value: state }));
  choice.firstChild.checked = state === shownState;
  if (state !== "all") choice.append(make("span", { class: "state", "data-state": state }, icon(state)));
  choice.append(make("span"));
  return choice;
}

function applyFilter() {
  for (const row of by("shard-rows").children) row.hidden = shownState !== "all" && row.dataset.state !== shownState;
}

// ---- Errors and rejections

function buildError(error) {
  const when = new Date(error.at * 1000);
  const about = make("p", { class: "about" }, make("bdi", { class: "event" }, error.event));
  if (error.shard !== null) about.append(make("span", {}, `shard ${error.shard}`));
  about.append(make("time", { class: "when", datetime: when.toISOString(), title: when.toISOString() }));
  return make("li", {}, about, make("p", {}, make("bdi", {}, error.text)));
}

const errorKey = (error) => JSON.stringify([error.at, error.shard, error.event, error.text]);

function showErrors(status) {
  by("errors-none").hidden = status.errors.length > 0;
  put(by("nav-errors"), status.errors.length > 0 ? count(status.errors.length) : "");
  const unlike = [...new Map(status.errors.map((error) => [errorKey(error), error])).values()];
  keep(by("errors-list"), unlike, errorKey, buildError, (item, error) => {
    const [when, now] = [error.at, status.now].map((seconds) => new Date(seconds * 1000));
    put(item.querySelector(".when"), moment(when, now));
  });
}

function showRejections(status) {
  const counts = new Map();
  for (const shard of status.shards) {
    for (const [reason, number] of Object.entries(shard.rejections)) counts.set(reason, (counts.get(reason) ?? 0) + number);
  }
  const reasons = [...counts].filter(([, number]) => number > 0).sort((one, other) => other[1] - one[1]);
  const total = sum(reasons.map(([, number]) => number));
  by("rejections-none").hidden = total > 0;
  put(by("nav-rejections"), total > 0 ? count(total) : "");
  const build = ([reason]) => make(
    "div", {}, make("dt", {}, make("bdi", {}, reason)), make("dd"), make("meter", { min: 0, max: 1, "aria-label": `Share of all rejections: ${reason}` }));
  keep(by("rejections-list"), reasons, ([reason]) => reason, build, (line, [, number]) => {
    put(line.children[1], count(number));
    set(line.children[2], "value", number / total);
  });
}

// ---- What is told to screen readers: changes only

let before = null;

function changes(status) {
  if (before === null || isDown(before) || isDown(status) || before.model !== status.model) return [];
  const told = [];
  const states = new Map(before.shards.map((shard) => [shard.shard, shard.state]));
  const changed = status.shards.filter((shard) => states.get(shard.shard) !== shard.state);
  if (changed.length > STATES_SHOWN) told.push(`${count(changed.length)} shards changed their state.`);
  else told.push(...changed.map((shard) => `Shard ${shard.shard} is ${shard.state}.`));
  if (spent(status) && !spent(before)) told.push("No paid answer is left.");
  if ((resting(status).length > 0) !== (resting(before).length > 0)) told.push(resting(status).length > 0 ? "Queries get no answer: a rest." : "The rest is over.");
  if (before.ready !== status.ready) told.push(status.ready ? "The daemon is ready." : "The daemon is not ready.");
  const seen = new Set(before.errors.map(errorKey));
  const fresh = status.errors.filter((error) => !seen.has(errorKey(error))).length;
  if (fresh > 0) told.push(`${plural(fresh, "new error")}.`);
  return told;
}

function announce(sentences) {
  if (sentences.length > 0) by("announcer").textContent = sentences.join(" ");
}

function show(status) {
  const told = changes(status);
  const down = isDown(status);
  showModels(status);
  by("status").classList.toggle("down", down);
  for (const part of down ? [showDown] : [showKind, showHead, showVerdict, showThroughput, showLag, showPrivacy, showProgress, showPromise, showPhases, showShards, showErrors, showRejections]) part(status);
  by("status").hidden = false;
  by("sections").hidden = down;
  before = status;
  return told;
}

// ---- The connection

let token = null;
let failures = 0;
let lastAnswer = null;
let nextPoll = 0;
let timer = null;
let asking = null;
let problem = "";
let model = null; // the one that was chosen; null for the first

class NoStatus extends Error {}
class TokenWanted extends Error {}

async function ask(signal) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  const path = model === null ? "status" : `status?model=${encodeURIComponent(model)}`;
  const response = await fetch(path, { headers, signal, cache: "no-store", credentials: "same-origin", redirect: "error" });
  if (response.status === 401) throw new TokenWanted();
  if (!response.ok) throw new NoStatus(`It answers with the HTTP status ${response.status}.`);
  return response.json();
}

function setLink(kind, text) {
  set(by("link"), "data-link", kind);
  put(by("link-text"), text);
}

function setStale(stale) {
  by("status").classList.toggle("stale", stale);
}

function gotAnswer(status) {
  let told;
  try {
    told = show(status);
  } catch {
    return lost("What it answers is not a status that this page can read.", true);
  }
  if (failures > 0) told.unshift("The daemon answers again.");
  failures = 0;
  lastAnswer = new Date();
  setStale(false);
  by("lost").hidden = true;
  by("token-form").hidden = true;
  setLink("live", `Live · ${clock(lastAnswer)}`);
  document.title = `${status.ready ? "Ready" : "Not ready"} · ${status.model} · Perpetua`;
  return announce(told);
}

function lost(reason, answered) {
  const title = answered ? "The daemon gives no status" : "The daemon does not answer";
  failures += 1;
  problem = reason;
  setStale(true);
  by("token-form").hidden = true;
  by("lost").hidden = false;
  put(by("lost-title"), title);
  setLink("lost", answered ? "No status" : "No answer");
  document.title = `${answered ? "No status" : "No answer"} · Perpetua`;
  if (failures === 1) announce([`${title}. ${lastSeen()}`]);
}

const lastSeen = () => (lastAnswer === null ? "There has been none yet." : `The last one came at ${clock(lastAnswer)}.`);

/** Runs each second while there is no answer: how long ago the last one was, and when the next attempt is. */
function showLost() {
  if (by("lost").hidden) return;
  const ago = lastAnswer === null ? "" : ` That is ${duration((Date.now() - lastAnswer) / 1000)} ago; what is shown below dates from then.`;
  const wait = Math.max(0, Math.ceil((nextPoll - Date.now()) / 1000));
  const next = asking ? "Trying now." : `Next attempt in ${wait} s.`;
  put(by("lost-text"), [problem, lastSeen() + ago, next].filter((part) => part !== "").join(" "));
}

function wantToken() {
  const first = by("token-form").hidden;
  put(by("token-problem"), token === null ? "" : "The daemon does not take this token.");
  set(by("token"), "aria-invalid", token !== null);
  token = null;
  setStale(true);
  by("lost").hidden = true;
  by("token-form").hidden = false;
  setLink("token", "Token wanted");
  if (first || document.activeElement === document.body) by("token").focus();
}

function reasonOf(error) {
  if (error instanceof NoStatus) return error.message;
  if (error instanceof SyntaxError) return "What it answers is not JSON.";
  return error.name === "AbortError" ? `It took longer than ${ANSWER_MS / 1000} s.` : "";
}

async function poll() {
  clearTimeout(timer);
  if (asking || document.hidden) return;
  asking = new AbortController();
  showLost();
  const limit = setTimeout(() => asking.abort(), ANSWER_MS);
  const wanted = model;
  let again = true;
  try {
    const status = await ask(asking.signal);
    if (model === wanted) gotAnswer(status);
  } catch (error) {
    if (error instanceof TokenWanted) {
      again = false;
      wantToken();
    } else lost(reasonOf(error), error instanceof NoStatus || error instanceof SyntaxError);
  }
  clearTimeout(limit);
  asking = null;
  if (model !== wanted) poll();
  else if (again) schedule();
}

function schedule() {
  const wait = failures === 0 ? POLL_MS : Math.min(SLOWEST_POLL_MS, POLL_MS * 2 ** (failures - 1));
  nextPoll = Date.now() + wait;
  timer = setTimeout(poll, wait);
  showLost();
}

function connect(event) {
  event.preventDefault();
  const given = by("token").value.trim();
  by("token").value = "";
  if (!/^[\x21-\x7e]+$/.test(given)) {
    put(by("token-problem"), "A token has letters, digits and signs of ASCII only, and no spaces.");
    return;
  }
  token = given;
  poll();
}

function seenOrNot() {
  if (document.hidden) clearTimeout(timer);
  else if (by("token-form").hidden) poll();
}

function choose(event) {
  shownState = event.target.value;
  applyFilter();
}

function chooseModel(event) {
  model = event.target.value;
  poll();
}

by("model-choice").addEventListener("change", chooseModel);
by("token-form").addEventListener("submit", connect);
by("retry").addEventListener("click", poll);
by("filter").addEventListener("change", choose);
document.addEventListener("visibilitychange", seenOrNot);
setInterval(showLost, 1000);
poll();
