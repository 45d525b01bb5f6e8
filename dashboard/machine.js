// The machine: what is in use now, each device, its history, and the processes.
import { bytes, button, celsius, choice, deviceName, draw, duration, get, isGpu, known, link, make, megahertz, memoryShare, percent, problem, repeat, section, state, table, tile,
  bar, watts } from "./base.js";
import { drawChart, historyRow, isSame } from "./chart.js";
import { word, wordOf } from "./words.js";

const POINTS = 300; // of a live graph: five minutes
const RANGES = { "1h": 3600, "24h": 86400, "7d": 604800, "30d": 2592000 };
export const TEXT = { use: percent, memory: bytes, power: watts, temperature: celsius, clock: megahertz };

/** Keeps what the live graphs show. Called with every frame, on whichever page. */
export function remember(frame) {
  for (const device of frame.devices) {
    const values = state.graphs.get(device.index) || [];
    values.push({ use: device.utilization_percent, memory: memoryShare(device) });
    if (values.length > POINTS) values.shift();
    state.graphs.set(device.index, values);
  }
}

/** Fills the seconds before the page was opened into the live graphs. The history has them ten seconds later. */
export async function recall() {
  const answer = await get(`/v1/history?since=${POINTS}s&step=1s`);
  const to = Date.parse(answer.to) / 1000;
  for (const past of answer.devices) {
    const device = state.frame.devices.find((one) => isSame(one, past));
    if (!device) continue;
    const seen = state.graphs.get(device.index) || [];
    const values = [...Array.from({ length: POINTS - seen.length }, () => ({ use: null, memory: null })), ...seen];
    for (const point of past.points) {
      const place = POINTS - Math.round(to - Date.parse(point.time) / 1000);
      if (place < 0 || place >= POINTS || known(values[place].use) || known(values[place].memory)) continue;
      const memory = memoryShare({ memory_used_bytes: point.memory_used_bytes, memory_total_bytes: device.memory_total_bytes });
      values[place] = { use: point.utilization_percent, memory };
    }
    state.graphs.set(device.index, values);
  }
}

const idOf = (device) => device.uuid || device.pci_address;

/** Running jobs with a lease on the device. */
const jobsOn = (device) => [...state.jobs.values()].filter((job) => job.state === "running" && job.devices.some((one) => one.uuid === idOf(device)));

// Where a value is missing the line has a gap.
function line(values, key) {
  let path = "", pen = "M";
  values.forEach((one, index) => {
    if (!known(one[key])) { pen = "M"; return; }
    path += `${pen}${POINTS - values.length + index} ${(98 - .96 * one[key]).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

export function liveGraph(device) {
  const values = state.graphs.get(device.index) || [];
  return draw("svg", "graph", { viewBox: `0 0 ${POINTS} 100`, preserveAspectRatio: "none", role: "img", "aria-label": word("graph", device.index) },
    draw("path", "memory", { d: line(values, "memory") }), draw("path", "use", { d: line(values, "use") }));
}

export function healthBadge(device) {
  const well = ["ok", "not checked", "asleep"].includes(device.health);
  return make("span", device.health === "ok" ? "health" : well ? "health quiet" : "health bad", (well ? "" : "⚠ ") + wordOf("device", device.health));
}

function meter(kind, share, number, name = kind) {
  return make("div", "meter", make("span", "what", word(name)), bar([[kind, share]]), make("span", "number", number));
}

/** The word for a device's memory: Chinese has another one for that of the CPU. */
export const memoryWord = (device) => (device.kind === "cpu" ? "hostMemory" : "memory");

function card(device) {
  const one = make("li", "card");
  const badge = healthBadge(device);
  if (badge.classList.contains("bad")) one.dataset.bad = "";
  const title = make("h3", "", link(deviceName(device), `#/device/${device.index}`, "index"), make("span", "name", device.name || device.kind), badge);
  const facts = make("p", "facts");
  const leases = jobsOn(device);
  for (const job of leases) facts.append(make("span", "users", link(`${word("job")} ${job.id}`, `#/job/${job.id}`), job.user ? ` ${job.user}` : ""));
  // null: who uses it is not known.
  if (!device.users) facts.append(make("span", "soft", word("unknownUsers")));
  else if (device.users.length) facts.append(make("span", "users", device.users.join(", ")));
  else if (isGpu(device) && device.process_count === 0 && leases.length === 0) facts.append(make("span", "soft", word("free")));
  if (known(device.power_milliwatts)) facts.append(make("span", "", watts(device.power_milliwatts)));
  if (known(device.temperature_celsius)) facts.append(make("span", device.temperature_celsius >= 85 ? "hot" : "", celsius(device.temperature_celsius)));
  if (known(device.clock_sm_mhz)) facts.append(make("span", "", megahertz(device.clock_sm_mhz)));
  if (device.partitions?.length) facts.append(make("span", "", `MIG ${device.partitions.length}`));
  for (const reason of device.health_reasons) facts.append(make("span", "hot", wordOf("reason", reason)));
  one.append(title, meter("use", device.utilization_percent, percent(device.utilization_percent)),
    meter("memory", memoryShare(device), `${bytes(device.memory_used_bytes)} / ${bytes(device.memory_total_bytes)}`, memoryWord(device)), liveGraph(device), facts);
  return one;
}

const sum = (values) => (values.some(known) ? values.filter(known).reduce((all, one) => all + one, 0) : null);

function tiles(frame) {
  const gpus = frame.devices.filter((one) => isGpu(one) && one.managed);
  const busy = gpus.filter((one) => jobsOn(one).length || (one.users && (one.users.length || one.process_count)));
  const unknown = gpus.filter((one) => !busy.includes(one) && !one.users);
  const used = sum(gpus.map((one) => one.memory_used_bytes)), total = sum(gpus.map((one) => one.memory_total_bytes));
  const power = sum(gpus.map((one) => one.power_milliwatts)), limit = sum(gpus.map((one) => one.power_limit_milliwatts));
  const count = (name) => [...state.jobs.values()].filter((job) => job.state === name).length;
  const alerts = state.alerts.length;
  const all = [];
  if (gpus.length) {
    const beside = [word("ofTotal", gpus.length), unknown.length ? word("gpusUnknown", unknown.length) : ""].filter(Boolean).join(" · ");
    all.push(tile(word("gpusBusy"), String(busy.length), beside, (100 * busy.length) / gpus.length, "use"),
      tile(word("memory"), bytes(used), word("ofTotal", bytes(total)), known(used) && total ? (100 * used) / total : null, "memory"),
      tile(word("power"), watts(power), known(limit) ? word("ofTotal", watts(limit)) : "", known(power) && limit ? (100 * power) / limit : null, "power"));
  }
  all.push(tile(word("jobsNow"), String(count("running")), word("waitingToo", count("waiting") + count("held"))));
  const alert = tile(word("alertsNow"), String(alerts), alerts ? state.alerts[0].message : word("noAlertsNow"));
  if (alerts) alert.dataset.bad = "";
  all.push(alert);
  return all;
}

const COLUMNS = [["device", "device", String], ["pid", "pid", (v) => (known(v) ? String(v) : "-")], ["user", "user", (v) => v || "-"],
  ["job", "job", (v) => (known(v) ? String(v) : "-")], ["memory", "memory_bytes", bytes], ["sm", "sm_percent", percent],
  ["cpu", "cpu_percent", percent], ["rss", "rss_bytes", bytes], ["age", "age_seconds", duration], ["command", "command", (v) => v || "-"]];
const NUMBERS = new Set(["pid", "memory_bytes", "sm_percent", "cpu_percent", "rss_bytes", "age_seconds", "job"]);
let sort = "memory_bytes";

function compare(a, b) {
  const x = a[sort], y = b[sort];
  if (known(x) !== known(y)) return known(x) ? -1 : 1;
  if (!known(x)) return 0;
  return typeof x === "number" ? (sort === "device" ? x - y : y - x) : String(x).localeCompare(String(y));
}

/** The table of processes; `wanted` selects them. */
export function processTable(wanted) {
  const part = section(word("processes"));
  const { scroll, head, body } = table(word("processes"), []);
  const none = make("p", "soft");
  part.id = "processes";
  part.append(scroll, none);
  function columns() {
    head.replaceChildren(...COLUMNS.map(([name, key]) => {
      const cell = make("th", NUMBERS.has(key) ? "number" : "");
      cell.scope = "col";
      const isDown = NUMBERS.has(key);
      if (key === sort) cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      cell.append(button(word(name) + (key === sort ? (isDown ? " ▾" : " ▴") : ""), () => {
        sort = key;
        columns();
        if (state.frame) show(state.frame);
        head.querySelector("[aria-sort] button").focus();
      }));
      return cell;
    }));
  }
  function show(frame) {
    const rows = frame.processes.filter(wanted).sort(compare).map((process) => {
      const row = make("tr");
      for (const [name, key, text] of COLUMNS)
        row.append(make("td", NUMBERS.has(key) ? "number" : key, name === "job" && known(process.job) ? link(String(process.job), `#/job/${process.job}`) : text(process[key])));
      return row;
    });
    body.replaceChildren(...rows);
    const more = frame.processes_not_listed;
    scroll.hidden = rows.length === 0;
    none.hidden = rows.length > 0 && more === 0;
    none.textContent = more > 0 ? word("notListed", more) : word(frame.devices.some((device) => !device.users) ? "noKnownProcesses" : "noProcesses");
  }
  columns();
  return { part, show };
}

/** Charts of one reading of all devices. Returns the section and what stops it. */
function historyPart() {
  let range = "1h", reading = "use", stop = () => {}, unwatch = () => {}, asked = 0;
  const root = make("div", "chart");
  const note = make("p", "soft", word("loading"));
  async function load() {
    const mine = ++asked;
    try {
      const answer = await get(`/v1/history?since=${range}`);
      if (mine !== asked) return;
      const rows = answer.devices.map((device) => {
        const name = device.uuid === "cpu" ? "CPU" : `GPU ${device.device}`;
        return historyRow(device, reading, link(name, `#/device/${device.device}`), name, TEXT[reading]);
      }).filter(Boolean);
      note.hidden = rows.length > 0;
      note.textContent = word("noHistory");
      unwatch();
      const to = Date.parse(answer.to) / 1000;
      unwatch = drawChart(root, { from: to - RANGES[range], to, height: 44, rows });
      root.hidden = rows.length === 0;
    } catch (error) {
      if (mine === asked) { root.hidden = true; note.hidden = false; note.replaceChildren(problem(error)); }
    }
  }
  function restart() {
    stop();
    stop = repeat(range === "1h" ? 10 : 60, load);
  }
  const part = section(word("history"),
    choice(word("shown"), ["use", "memory", "power", "temperature"], reading, (one) => word(one), (one) => { reading = one; restart(); }),
    choice(word("range"), Object.keys(RANGES), range, (one) => word(one), (one) => { range = one; restart(); }));
  part.id = "history";
  part.append(note, root);
  restart();
  return { part, stop: () => { stop(); unwatch(); } };
}

export function open(root) {
  const summary = make("div", "tiles");
  const devices = section(word("devices"));
  const cards = make("ul", "cards");
  devices.id = "devices";
  devices.append(cards);
  const charts = historyPart();
  const processes = processTable(() => true);
  root.append(summary, devices, charts.part, processes.part);
  function show() {
    if (!state.frame) return;
    const focused = document.activeElement && cards.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    summary.replaceChildren(...tiles(state.frame));
    cards.replaceChildren(...state.frame.devices.map(card));
    if (focused) cards.querySelector(`a[href="${focused}"]`)?.focus();
    processes.show(state.frame);
  }
  show();
  return { frame: show, alerts: show, close: charts.stop };
}
