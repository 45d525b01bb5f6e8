// The page of the daemon: asks for the token, follows /v1/watch and /v1/events, and shows the page that the address names.
import { at, link, make, state } from "./base.js";
import { chinese, word } from "./words.js";
import * as device from "./device.js";
import * as health from "./health.js";
import * as jobs from "./jobs.js";
import * as machine from "./machine.js";
import * as users from "./users.js";

// Name in the address → its module, and the entry of the menu that it belongs to.
const PAGES = { machine: [machine, "machine"], device: [device, "machine"], jobs: [jobs, "jobs"], job: [jobs, "jobs"], users: [users, "users"], health: [health, "health"] };
const MENU = ["machine", "jobs", "users", "health"];
let shown = null;

function route() {
  if (!state.token) return;
  const [, name, argument] = location.hash.split("/");
  const [page, entry] = PAGES[name] || PAGES.machine;
  if (shown && shown.close) shown.close();
  const root = make("div", "page");
  at("page").replaceChildren(root);
  for (const one of at("pages").children) {
    if (one.dataset.page === entry) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  shown = page.open(root, argument);
}

function tell(what) {
  if (shown && shown[what]) shown[what]();
}

function say(text, bad) {
  at("state").textContent = text;
  if (bad) at("state").dataset.bad = ""; else delete at("state").dataset.bad;
}

function showMenu() {
  at("pages").replaceChildren(...MENU.map((name) => {
    const one = link(word(name), `#/${name}`);
    one.dataset.page = name;
    return one;
  }));
}

/** The frame with a change, which has only what differs. The age of a process that goes on is not sent. */
function changed(frame, change) {
  const passed = change.time ? (new Date(change.time) - new Date(frame.time)) / 1000 : 0;
  const next = { ...frame };
  for (const [key, value] of Object.entries(change)) if (!key.endsWith("_changed")) next[key] = value;
  if (!change.processes) next.processes = frame.processes.map((one) => (one.age_seconds === null ? one : { ...one, age_seconds: one.age_seconds + passed }));
  for (const list of ["devices", "processes"]) {
    if (!change[`${list}_changed`]) continue;
    next[list] = [...next[list]];
    const before = [...next[list]];
    for (const { row, from = row, ...members } of change[`${list}_changed`]) next[list][row] = { ...before[from], ...members };
  }
  return next;
}

function onWatch(kind, data) {
  if (kind === "alerts") {
    state.alerts = data.alerts;
    at("pages").querySelector("[data-page=health]").dataset.count = data.alerts.length || "";
    return tell("alerts");
  }
  if (kind === "change" && state.frame) data = changed(state.frame, data);
  else if (kind !== "frame") return;
  const isFirst = !state.frame;
  state.frame = data;
  document.title = `Berth · ${data.host.hostname || ""}`;
  at("host").textContent = [data.host.hostname, data.driver.version ? `NVIDIA ${data.driver.version}` : "", data.driver.message].filter(Boolean).join(" · ");
  say(word("live"));
  machine.remember(data);
  if (isFirst) for (const seconds of [0, 12]) setTimeout(() => machine.recall().catch(() => {}), seconds * 1000); // without a history the graphs begin now
  tell("frame");
}

let isReady = false;
function onEvent(kind, data) {
  if (kind === "job") state.jobs.set(data.job.id, data.job);
  if (kind === "ready") isReady = true;
  if (isReady) tell("jobs"); // the first events list all jobs
}

// EventSource cannot send a token, so the stream is read by fetch.
async function listen(path, take) {
  const answer = await fetch(path, { headers: { Authorization: `Bearer ${state.token}` }, cache: "no-store" });
  if (answer.status === 401) return "refused";
  if (!answer.ok) return "lost";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return "lost";
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
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
    if (ended === "refused") return askForToken(word("refused"));
    say(word("lost"), true);
    await pause(wait);
  }
}

function askForToken(why) {
  sessionStorage.removeItem("token");
  state.token = "";
  if (shown && shown.close) shown.close();
  shown = null;
  at("page").replaceChildren();
  at("login").hidden = false;
  at("token").value = "";
  at("token").focus();
  say(why, true);
}

let follows = false;
function open() {
  if (!state.token) return askForToken(word("needsToken"));
  sessionStorage.setItem("token", state.token);
  at("login").hidden = true;
  if (follows) return location.reload();
  follows = true;
  route();
  follow("/v1/watch", onWatch, () => {});
  follow("/v1/events", onEvent, () => {
    // The stream begins with all active jobs; what it leaves out has ended.
    for (const job of state.jobs.values()) if (!job.ended) state.jobs.delete(job.id);
    isReady = false;
  });
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

/** "#/jobs" names a page; anything else after # is the token, which stays out of the address bar. */
function takeAddress() {
  const after = location.hash.slice(1);
  if (!after || after.startsWith("/")) return false;
  state.token = after;
  history.replaceState(null, "", `${location.pathname}#/machine`);
  return true;
}

function begin() {
  document.documentElement.lang = chinese ? "zh-CN" : "en";
  for (const [id, key] of Object.entries({ skip: "skip", theme: "theme", "token-label": "token", "token-send": "send" })) at(id).textContent = word(key);
  at("skip").addEventListener("click", (event) => { event.preventDefault(); at("main").focus(); });
  showMenu();
  theme(localStorage.getItem("theme"));
  at("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    theme(next);
  });
  at("login").addEventListener("submit", (event) => { event.preventDefault(); state.token = at("token").value.trim(); open(); });
  addEventListener("hashchange", () => { if (takeAddress()) open(); else route(); });
  state.token = sessionStorage.getItem("token") || "";
  takeAddress();
  open();
}
begin();
