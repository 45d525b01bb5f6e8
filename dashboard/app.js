// The page of the daemon: devices and processes from /v1/watch, jobs from /v1/events. Everything that comes
// from outside is put into text nodes, never into markup.
"use strict";

const ENGLISH = {
  skip: "Skip to the devices", devices: "Devices", alerts: "Alerts", processes: "Processes", jobs: "Jobs", theme: "Theme",
  token: "Token of this broker", send: "Open", use: "use", memory: "memory", live: "live", lost: "no connection; trying again",
  refused: "the token is not the right one", needsToken: "a token is needed", noProcesses: "No process is on a device.",
  noKnownProcesses: "No process is known to be on a device.",
  noJobs: "No job runs or waits.", job: "job", device: "device", user: "user", pid: "pid", sm: "SM", cpu: "CPU", rss: "host memory",
  command: "command", notListed: "and {} more", age: "age", unknownUsers: "users not known", graph: "Use and memory of device {} in the last minutes",
  health: { ok: "ok", degraded: "degraded", lost: "lost", asleep: "asleep", "no answer": "no answer", "not checked": "not checked" },
  states: { waiting: "waiting", held: "held", running: "running" },
  severities: { critical: "critical", warning: "warning", info: "info" },
};
const CHINESE = {
  skip: "跳到设备列表", devices: "设备", alerts: "告警", processes: "进程", jobs: "作业", theme: "主题",
  token: "本机 broker 的令牌", send: "打开", use: "利用率", memory: "显存", live: "实时", lost: "连接断开，正在重试",
  refused: "令牌不对", needsToken: "需要令牌", noProcesses: "没有进程在使用设备。",
  noKnownProcesses: "未发现使用设备的进程，但有设备的进程列表读不到。",
  noJobs: "没有正在运行或排队的作业。", job: "作业", device: "设备", user: "用户", pid: "pid", sm: "SM", cpu: "CPU", rss: "主机内存",
  command: "命令", notListed: "另有 {} 个", age: "时长", unknownUsers: "用户未知", graph: "设备 {} 最近几分钟的利用率和显存",
  health: { ok: "正常", degraded: "异常", lost: "掉线", asleep: "休眠", "no answer": "无响应", "not checked": "未检查" },
  states: { waiting: "排队", held: "暂缓", running: "运行" },
  severities: { critical: "严重", warning: "警告", info: "提示" },
};
const chinese = (navigator.language || "").startsWith("zh");
const words = chinese ? CHINESE : ENGLISH;
const POINTS = 300; // of a graph: five minutes
const at = (id) => document.getElementById(id);
const seen = new Map(); // by device: what its graph shows
const jobs = new Map();
let sort = "memory_bytes";
let token = "";

function make(tag, className, text) {
  const one = document.createElement(tag);
  if (className) one.className = className;
  if (text !== undefined) one.textContent = text;
  return one;
}

function draw(tag, className, attributes) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (className) one.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
}

const known = (value) => value !== null && value !== undefined;
const percent = (value) => (known(value) ? `${Math.round(value)} %` : "-");
function bytes(value) {
  if (!known(value)) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  while (value >= 1000 && step < units.length - 1) { value /= 1024; ++step; }
  return `${value >= 100 || step === 0 ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}
function duration(seconds) {
  if (!known(seconds)) return "-";
  const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60;
  if (h >= 48) return `${Math.floor(h / 24)} d ${h % 24} h`;
  return h > 0 ? `${h} h ${m} m` : m > 0 ? `${m} m ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

function meter(kind, name, share, number) {
  const row = make("div", "meter");
  const track = make("div", "track");
  track.setAttribute("aria-hidden", "true"); // the number says it
  const picture = draw("svg", "", { viewBox: "0 0 100 1", preserveAspectRatio: "none" });
  picture.append(draw("rect", `fill ${kind}`, { x: 0, y: 0, height: 1, width: known(share) ? Math.max(0, Math.min(100, share)) : 0 }));
  track.append(picture);
  row.append(make("span", "what", name), track, make("span", "number", number));
  return row;
}

// Where a value is missing the line has a gap.
function line(values, key) {
  let path = "", pen = "M";
  values.forEach((one, index) => {
    if (!known(one[key])) { pen = "M"; return; }
    path += `${pen}${POINTS - values.length + index} ${(100 - one[key]).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function memoryShare(device) {
  return known(device.memory_used_bytes) && device.memory_total_bytes ? (100 * device.memory_used_bytes) / device.memory_total_bytes : null;
}

function remember(device) {
  const values = seen.get(device.index) || [];
  values.push({ use: device.utilization_percent, memory: memoryShare(device) });
  if (values.length > POINTS) values.shift();
  seen.set(device.index, values);
  return values;
}

function card(device, values) {
  const one = make("li", "card");
  const well = ["ok", "not checked", "asleep"].includes(device.health);
  if (!well) one.dataset.bad = "";
  const title = make("h3");
  const health = make("span", device.health === "ok" ? "health" : well ? "health quiet" : "health",
    (well ? "" : "⚠ ") + (words.health[device.health] || device.health));
  title.append(make("span", "index", String(device.index)), make("span", "name", device.name || device.kind), health);
  const graph = draw("svg", "graph", { viewBox: `0 0 ${POINTS} 100`, preserveAspectRatio: "none", role: "img",
    "aria-label": words.graph.replace("{}", device.index) });
  graph.append(draw("path", "memory", { d: line(values, "memory") }), draw("path", "use", { d: line(values, "use") }));
  const facts = make("p", "facts");
  // null: who uses it is not known.
  if (!device.users) facts.append(make("span", "users", words.unknownUsers));
  else if (device.users.length) facts.append(make("span", "users", device.users.join(", ")));
  if (known(device.power_milliwatts)) facts.append(make("span", "", `${Math.round(device.power_milliwatts / 1000)} W`));
  if (known(device.temperature_celsius))
    facts.append(make("span", device.temperature_celsius >= 85 ? "hot" : "", `${device.temperature_celsius} °C`));
  if (known(device.clock_sm_mhz)) facts.append(make("span", "", `${device.clock_sm_mhz} MHz`));
  for (const reason of device.health_reasons) facts.append(make("span", "hot", reason));
  one.append(title, meter("use", words.use, device.utilization_percent, percent(device.utilization_percent)),
    meter("memory", words.memory, memoryShare(device), `${bytes(device.memory_used_bytes)} / ${bytes(device.memory_total_bytes)}`),
    graph, facts);
  return one;
}

const COLUMNS = [["device", "device", String], ["pid", "pid", (v) => (known(v) ? String(v) : "-")], ["user", "user", (v) => v || "-"],
  ["job", "job", (v) => (known(v) ? String(v) : "-")], ["memory", "memory_bytes", bytes], ["sm", "sm_percent", percent],
  ["cpu", "cpu_percent", percent], ["rss", "rss_bytes", bytes], ["age", "age_seconds", duration], ["command", "command", (v) => v || "-"]];
const NUMBERS = new Set(["pid", "memory_bytes", "sm_percent", "cpu_percent", "rss_bytes", "age_seconds", "job"]);

function columns() {
  at("columns").replaceChildren(...COLUMNS.map(([name, key]) => {
    const head = make("th", NUMBERS.has(key) ? "number" : "");
    head.scope = "col";
    if (key === sort) head.setAttribute("aria-sort", NUMBERS.has(key) ? "descending" : "ascending");
    const button = make("button", "", words[name] + (key === sort ? (NUMBERS.has(key) ? " ▾" : " ▴") : ""));
    button.type = "button";
    button.addEventListener("click", () => { sort = key; columns(); });
    head.append(button);
    return head;
  }));
}

function compare(a, b) {
  const x = a[sort], y = b[sort];
  if (known(x) !== known(y)) return known(x) ? -1 : 1;
  if (!known(x)) return 0;
  return typeof x === "number" ? (sort === "device" ? x - y : y - x) : String(x).localeCompare(String(y));
}

function show(frame) {
  const host = frame.host;
  document.title = `Berth · ${host.hostname || ""}`;
  const driver = frame.driver.version ? `NVIDIA ${frame.driver.version}` : "";
  at("host").textContent = [host.hostname, driver, frame.driver.message].filter(Boolean).join(" · ");
  at("devices").replaceChildren(...frame.devices.map((device) => card(device, remember(device))));
  const rows = [...frame.processes].sort(compare).map((process) => {
    const row = make("tr");
    for (const [, key, text] of COLUMNS) row.append(make("td", NUMBERS.has(key) ? "number" : key, text(process[key])));
    return row;
  });
  at("processes").replaceChildren(...rows);
  const more = frame.processes_not_listed;
  at("no-processes").hidden = rows.length > 0 && more === 0;
  const none = frame.devices.some((device) => !device.users) ? words.noKnownProcesses : words.noProcesses;
  at("no-processes").textContent = more > 0 ? words.notListed.replace("{}", more) : none;
}

function showJob(job) {
  if (["waiting", "held", "running"].includes(job.state)) jobs.set(job.id, job);
  else jobs.delete(job.id);
  at("jobs").replaceChildren(...[...jobs.values()].map((one) => {
    const row = make("li");
    const name = one.name || (one.command || []).join(" ");
    row.append(make("span", "state", `${one.id} ${words.states[one.state]}`), make("span", "", [one.user, name].filter(Boolean).join(" · ")));
    return row;
  }));
  at("no-jobs").hidden = jobs.size > 0;
}

function showAlerts(alerts) {
  at("alerts-part").hidden = alerts.length === 0;
  at("alerts").replaceChildren(...alerts.map((one) => {
    const row = make("li", one.severity === "critical" ? "critical" : "");
    row.append(make("span", "state", words.severities[one.severity] || one.severity), make("span", "", one.message), make("code", "", one.hint));
    return row;
  }));
}

function say(text, bad) {
  at("state").textContent = text;
  if (bad) at("state").dataset.bad = ""; else delete at("state").dataset.bad;
}

// EventSource cannot send a token, so the stream is read by fetch.
async function listen(path, take) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${token}` }, cache: "no-store" });
  if (answer.status === 401) return "refused";
  if (!answer.ok) return "lost";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return "lost";
    text += value;
    let end = text.indexOf("\n\n");
    for (; end >= 0; end = text.indexOf("\n\n")) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const data = lines.filter((one) => one.startsWith("data: ")).map((one) => one.slice(6)).join("\n");
      const kind = (lines.find((one) => one.startsWith("event: ")) || "").slice(7);
      if (data) take(kind, JSON.parse(data));
    }
  }
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function follow(path, take, begin) {
  for (let wait = 500; ; wait = Math.min(10000, wait * 2)) {
    begin();
    let came = false;
    const ended = await listen(path, (kind, data) => { came = true; take(kind, data); }).catch(() => "lost");
    if (came) wait = 500;
    if (ended === "refused") return askForToken(words.refused);
    say(words.lost, true);
    await pause(wait);
  }
}

function askForToken(why) {
  sessionStorage.removeItem("token");
  at("login").hidden = false;
  at("token").value = "";
  at("token").focus();
  say(why, true);
}

let follows = false;
function open() {
  if (!token) return askForToken(words.needsToken);
  sessionStorage.setItem("token", token);
  at("login").hidden = true;
  if (follows) return location.reload();
  follows = true;
  follow("/v1/watch", (kind, frame) => { if (kind === "frame") { say(words.live); show(frame); } else if (kind === "alerts") showAlerts(frame.alerts); }, () => {});
  follow("/v1/events", (kind, job) => { if (kind === "job") showJob(job); }, () => { jobs.clear(); at("no-jobs").hidden = false; });
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

function begin() {
  document.documentElement.lang = chinese ? "zh-CN" : "en";
  const texts = { skip: "skip", "devices-title": "devices", "alerts-title": "alerts", "processes-title": "processes", "jobs-title": "jobs", theme: "theme",
    "token-label": "token", "token-send": "send", "no-processes": "noProcesses", "no-jobs": "noJobs" };
  for (const [id, word] of Object.entries(texts)) at(id).textContent = words[word];
  columns();
  theme(localStorage.getItem("theme"));
  at("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    theme(next);
  });
  at("login").addEventListener("submit", (event) => { event.preventDefault(); token = at("token").value.trim(); open(); });
  token = location.hash.slice(1) || sessionStorage.getItem("token") || "";
  if (location.hash) history.replaceState(null, "", location.pathname); // the token stays out of the address bar
  open();
}
begin();
