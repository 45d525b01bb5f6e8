// Jobs: the queue and what ended, and of the selected one why it waits, its output, and what it used.
import { at, bytes, button, call, clock, duration, energy, get, hours, known, link, make, percent, problem, repeat, section, state, table } from "./base.js";
import { word, wordOf } from "./words.js";

const ACTIVE = ["running", "waiting", "held"];
const MOST_ROWS = 200, MOST_LOG = 256 * 1024;
const secondsSince = (time) => (time ? Math.max(0, (Date.now() - Date.parse(time)) / 1000) : null);
const isActive = (job) => ACTIVE.includes(job.state);
export const jobState = (job) => make("span", `chip ${job.state}`, wordOf("job", job.state));

function what(job) {
  if (!job.command) return make("span", "soft", word("hidden")); // another user's: the daemon does not say
  return job.name || job.command.map((one) => (typeof one === "string" ? one : "?")).join(" ") || "-";
}

export function deviceNames(job) {
  if (job.devices.length === 0) return job.state === "running" ? word("onCpu") : job.gpus ? word("wants", job.gpus) : "-";
  const known_ = state.frame ? state.frame.devices : [];
  return job.devices.map((grant) => {
    const found = known_.find((one) => grant.uuid === (one.uuid || one.pci_address));
    return found ? `GPU ${found.index}` : `${grant.uuid.slice(0, 12)}…`;
  }).join(", ");
}

function timeOf(job) {
  if (job.state === "running") return duration(secondsSince(job.started));
  if (isActive(job)) return duration(secondsSince(job.requeued || job.submitted));
  return job.started && job.ended ? duration((Date.parse(job.ended) - Date.parse(job.started)) / 1000) : "-";
}

function row(job, selected) {
  const one = make("tr", job.id === selected ? "selected" : "");
  const number = link(String(job.id), `#/job/${job.id}`);
  if (job.id === selected) number.setAttribute("aria-current", "true");
  one.append(make("td", "number", number), make("td", "", jobState(job)), make("td", "", job.user || "-"), make("td", "command", what(job)),
    make("td", "", deviceNames(job)), make("td", "number", timeOf(job)));
  return one;
}

const COLUMNS = () => [[word("job"), true], [word("state")], [word("user")], [word("what")], [word("gpus")], [word("time"), true]];

/** Removes colours and the earlier states of progress bars. */
export function plainOutput(text) {
  return text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07/g, "").replace(/\r\n/g, "\n").replace(/[^\n]*\r(?=[^\n])/g, "");
}

/** Shows the output as it grows. Returns what stops it. */
function followLog(id, root) {
  const text = make("pre", "log");
  text.tabIndex = 0;
  text.setAttribute("aria-label", word("log"));
  const note = make("p", "soft", word("noLog"));
  root.append(note, text);
  text.hidden = true;
  const decoder = new TextDecoder();
  let from = 0, all = "", isReading = false, isCut = false;
  return repeat(1, async () => {
    if (isReading) return;
    isReading = true;
    try {
      for (;;) {
        const answer = await call("GET", `/v1/jobs/${id}/log?from=${from}`);
        const part = new Uint8Array(await answer.arrayBuffer());
        if (part.length === 0) break;
        from = Number(answer.headers.get("Berth-Next"));
        all += decoder.decode(part, { stream: true });
        if (all.length > MOST_LOG) { all = all.slice(-MOST_LOG); isCut = true; }
        const isAtEnd = text.hidden || text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
        text.hidden = false;
        text.textContent = plainOutput(all);
        note.hidden = !isCut;
        note.textContent = word("logCut");
        if (isAtEnd) text.scrollTop = text.scrollHeight;
      }
    } catch (error) {
      note.hidden = false;
      note.replaceChildren(problem(error));
    }
    isReading = false;
  });
}

function facts(pairs) {
  const list = make("dl", "pairs");
  for (const [name, value] of pairs)
    if (known(value) && value !== "" && value !== "-") list.append(make("dt", "", name), make("dd", "", value));
  return list;
}

function reportOf(job) {
  const outcome = job.outcome || {};
  return facts([[word("user"), job.user], [word("gpus"), deviceNames(job)], [word("memory"), job.memory_bytes ? bytes(job.memory_bytes) : null],
    [word("priority"), job.priority || null], [word("timeLimit"), known(job.time_limit_seconds) ? duration(job.time_limit_seconds) : null],
    [word("submitted"), clock(job.submitted)], [word("started"), clock(job.started)], [word("ended"), clock(job.ended)],
    [word("exit"), known(outcome.exit_code) ? String(outcome.exit_code) : null], [word("signal"), known(outcome.signal) ? String(outcome.signal) : null],
    [word("reason"), job.why], [word("gpuTime"), known(job.gpu_seconds) ? duration(job.gpu_seconds) : null],
    [word("cpuTime"), known(job.cpu_seconds) ? duration(job.cpu_seconds) : null], [word("peakMemory"), known(job.peak_memory_bytes) ? bytes(job.peak_memory_bytes) : null],
    [word("logFile"), job.log]]);
}

async function usageOf(id) {
  const answer = await get("/v1/usage?since=30d&by=job").catch(() => null);
  const mine = answer && answer.usage.find((one) => one.name === String(id));
  if (!mine) return null;
  return facts([[word("held"), hours(mine.held_seconds)], [word("used"), hours(mine.used_seconds)],
    [word("idle"), known(mine.idle_seconds) ? `${hours(mine.idle_seconds)} (${percent((100 * mine.idle_seconds) / mine.known_seconds)})` : null],
    [word("energy"), energy(mine.energy_joules)]]);
}

/** A button that asks once more, for what cannot be undone. */
function sureButton(text, sure, action) {
  let timer = null;
  const one = button(text, () => {
    if (timer) { clearTimeout(timer); timer = null; one.textContent = text; return action(); }
    one.textContent = sure;
    timer = setTimeout(() => { timer = null; one.textContent = text; }, 4000);
  }, "danger");
  return one;
}

function actions(job, failed) {
  const change = (verb, after) => async () => {
    try {
      const answer = await (await call("POST", `/v1/jobs/${job.id}/${verb}`)).json();
      failed.replaceChildren();
      if (after) after(answer);
    } catch (error) { failed.replaceChildren(problem(error)); }
  };
  const all = make("div", "actions");
  if (!job.command) return all;
  if (isActive(job)) all.append(sureButton(word("cancel"), word("reallyCancel"), change("cancel")));
  if (job.state === "waiting") all.append(button(word("hold"), change("hold")));
  if (job.state === "held") all.append(button(word("release"), change("release")));
  if (!isActive(job) && job.queued) all.append(button(word("rerun"), change("rerun", (answer) => { if (answer.job) location.hash = `#/job/${answer.job.id}`; })));
  return all;
}

async function showWhy(id, root) {
  try {
    const why = await get(`/v1/jobs/${id}/why`);
    root.replaceChildren(make("p", "", wordOf("why", why.obstruction)));
    if (why.before.length) root.append(make("p", "soft", word("before", why.before.slice(0, 12).join(", ") + (why.before.length > 12 ? " …" : ""))));
    if (why.fits_at) root.append(make("p", "soft", word("fitsAt", clock(why.fits_at))));
  } catch (error) { root.replaceChildren(problem(error)); }
}

/** The selected job. Rebuilt when its state changes; its output goes on. */
function details(id, root) {
  let stopLog = null, stopWhy = null, shownState = "";
  const title = make("h2"), bar = make("div"), failed = make("div"), why = make("div", "why"), report = make("div"), used = make("div"), log = make("div");
  const closing = link("✕", "#/jobs", "close");
  closing.setAttribute("aria-label", word("close"));
  root.replaceChildren(make("div", "head", title, closing), failed, bar, why, make("h3", "", word("report")), report, used, make("h3", "", word("log")), log);
  function show() {
    const job = state.jobs.get(id);
    if (!job) { title.textContent = word("noSuchJob", id); return; }
    if (job.state === shownState) return;
    shownState = job.state;
    title.replaceChildren(`${word("job")} ${job.id} `, jobState(job));
    bar.replaceChildren(make("p", "command-line", job.command ? make("code", "", (job.name ? `${job.name}: ` : "") + job.command.map(String).join(" ")) : what(job)), actions(job, failed));
    report.replaceChildren(reportOf(job));
    if (stopWhy) stopWhy();
    stopWhy = null;
    why.hidden = job.state !== "waiting";
    if (job.state === "waiting") stopWhy = repeat(5, () => showWhy(id, why));
    usageOf(id).then((one) => used.replaceChildren(...(one ? [one] : [])));
    if (job.log && !stopLog && job.started) { log.replaceChildren(); stopLog = followLog(id, log); }
    if (!stopLog) log.replaceChildren(make("p", "soft", word("noLog")));
  }
  if (!state.jobs.has(id)) get(`/v1/jobs/${id}`).then((answer) => { if (answer.job) state.jobs.set(id, answer.job); show(); }).catch(show);
  else show();
  return { show, stop: () => { if (stopLog) stopLog(); if (stopWhy) stopWhy(); } };
}

/** A labelled input. */
function field(id, text, attributes) {
  const label = make("label", "field", make("span", "", text)), input = make("input");
  input.id = id;
  for (const [name, value] of Object.entries(attributes)) input.setAttribute(name, value);
  label.append(input);
  return { label, input };
}

/** Queues a job for the user whose token this is. The folder of the last one is kept. */
function newJob() {
  const remembered = localStorage.getItem("berth-folder") || "";
  const command = field("new-command", word("commandLine"), { required: "", placeholder: "python train.py", autocomplete: "off", spellcheck: "false" });
  const folder = field("new-folder", word("folder"), { required: "", pattern: "/.*", placeholder: "/home/…", value: remembered, spellcheck: "false" });
  const gpus = field("new-gpus", word("howManyGpus"), { type: "number", min: "0", max: "64", value: "1", required: "" });
  const name = field("new-name", word("nameOptional"), { autocomplete: "off", maxlength: "200" });
  const submit = make("button", "primary", word("submit")), failed = make("div");
  const form = make("form", "new-job", command.label, folder.label, gpus.label, name.label, submit);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const answer = await (await call("POST", "/v1/jobs", {
        request: { gpus: Number(gpus.input.value) }, queued: true, name: name.input.value, command: ["bash", "-lc", command.input.value],
        spec: { folder: folder.input.value, umask: 18, environment: ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"] } })).json();
      localStorage.setItem("berth-folder", folder.input.value);
      location.hash = `#/job/${answer.job.id}`;
    } catch (error) { failed.replaceChildren(problem(error)); }
    submit.disabled = false;
  });
  const all = make("details", "card new", make("summary", "", word("newJob")), form, make("p", "soft", word("loginShell")), failed);
  all.id = "new-job";
  return all;
}

export function open(root, argument) {
  const selected = argument ? Number(argument) : null;
  const queue = section(word("queue")), ended = section(word("endedJobs"));
  const active = table(word("queue"), COLUMNS()), over = table(word("endedJobs"), COLUMNS());
  const none = make("p", "soft", word("noJobs")), more = make("p", "soft");
  queue.id = "jobs";
  queue.append(active.scroll, none, more);
  ended.append(over.scroll);
  const side = make("aside", "card detail");
  side.id = "job";
  root.append(make("div", "split", make("div", "lists", newJob(), queue, ended), side));
  const one = selected === null ? null : details(selected, side);
  if (!one) side.append(make("p", "soft", word("selectJob")));
  function show() {
    const jobs = [...state.jobs.values()];
    const waiting = jobs.filter(isActive).sort((a, b) => ACTIVE.indexOf(a.state) - ACTIVE.indexOf(b.state) || a.id - b.id);
    const gone = jobs.filter((job) => !isActive(job)).sort((a, b) => Date.parse(b.ended) - Date.parse(a.ended));
    active.body.replaceChildren(...waiting.slice(0, MOST_ROWS).map((job) => row(job, selected)));
    over.body.replaceChildren(...gone.slice(0, MOST_ROWS).map((job) => row(job, selected)));
    active.scroll.hidden = waiting.length === 0;
    none.hidden = waiting.length > 0;
    more.hidden = waiting.length <= MOST_ROWS;
    more.textContent = word("notListed", waiting.length - MOST_ROWS);
    ended.hidden = gone.length === 0;
    if (one) one.show();
  }
  get("/v1/jobs?limit=500").then((answer) => {
    for (const job of answer.jobs) if (!state.jobs.has(job.id)) state.jobs.set(job.id, job);
    show();
  }).catch(() => {});
  const stop = repeat(5, () => { if (!at("jobs").contains(document.activeElement)) show(); });
  if (selected !== null && matchMedia("(max-width: 1000px)").matches) side.scrollIntoView();
  return { jobs: show, close: () => { stop(); if (one) one.stop(); } };
}
