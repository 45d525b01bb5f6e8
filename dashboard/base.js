// What all pages use: elements, values as text, calls to the daemon, and what is known now. Everything that comes from outside
// is put into text nodes, never into markup.
import { word } from "./words.js";

/** What the streams told last. `jobs` has ended jobs too. */
export const state = { frame: null, jobs: new Map(), alerts: [], graphs: new Map(), token: "" };

export const at = (id) => document.getElementById(id);

/** @param {string} tag @param {string} [className] @param {...(Node|string)} content */
export function make(tag, className, ...content) {
  const one = document.createElement(tag);
  if (className) one.className = className;
  one.append(...content);
  return one;
}

/** An SVG element. */
export function draw(tag, className, attributes, ...content) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (className) one.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  one.append(...content);
  return one;
}

export function button(text, action, className) {
  const one = make("button", className, text);
  one.type = "button";
  one.addEventListener("click", action);
  return one;
}

export function link(text, address, className) {
  const one = make("a", className, text);
  one.href = address;
  return one;
}

/** A section with a heading, and what stands beside the heading. */
export function section(title, ...beside) {
  const one = make("section");
  const heading = make("h2", "", title);
  heading.id = `heading-${++headings}`;
  one.setAttribute("aria-labelledby", heading.id);
  one.append(make("div", "head", heading, ...beside));
  return one;
}
let headings = 0;

/** A group of buttons; exactly one is pressed. */
export function choice(label, values, chosen, text, action) {
  const group = make("div", "choice");
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", label);
  for (const value of values) {
    const one = button(text(value), () => {
      for (const other of group.children) other.setAttribute("aria-pressed", String(other === one));
      action(value);
    });
    one.setAttribute("aria-pressed", String(value === chosen));
    group.append(one);
  }
  return group;
}

/** A table that scrolls sideways. `columns`: [title, is a number]. */
export function table(label, columns) {
  const body = make("tbody");
  const head = make("tr");
  for (const [title, isNumber] of columns) {
    const cell = make("th", isNumber ? "number" : "", title);
    cell.scope = "col";
    head.append(cell);
  }
  const scroll = make("div", "scroll", make("table", "", make("thead", "", head), body));
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", label);
  return { scroll, head, body };
}

export function tile(label, value, beside, share, kind) {
  const one = make("div", "tile", make("span", "label", label), make("span", "value", value), make("span", "beside", beside || ""));
  if (known(share)) one.append(bar([[kind || "use", share]]));
  return one;
}

/** A bar of parts in percent; the text beside it must say the same. */
export function bar(parts) {
  const picture = draw("svg", "bar", { viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  let x = 0;
  for (const [kind, share] of parts) {
    const width = Math.max(0, Math.min(100 - x, share || 0));
    picture.append(draw("rect", `fill ${kind}`, { x, y: 0, height: 1, width }));
    x += width;
  }
  return picture;
}

export const known = (value) => value !== null && value !== undefined;
export const percent = (value) => (known(value) ? `${Math.round(value)} %` : "-");
export const watts = (value) => (known(value) ? `${Math.round(value / 1000)} W` : "-");
export const celsius = (value) => (known(value) ? `${Math.round(value)} °C` : "-");
export const megahertz = (value) => (known(value) ? `${Math.round(value)} MHz` : "-");
export const hours = (seconds) => (known(seconds) ? (seconds / 3600).toFixed(seconds >= 360000 ? 0 : seconds >= 36000 ? 1 : 2) : "-");
export const energy = (joules) => (!known(joules) ? "-" : joules >= 3.6e6 ? `${(joules / 3.6e6).toFixed(1)} kWh` : `${(joules / 3600).toFixed(1)} Wh`);

export function bytes(value) {
  if (!known(value)) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  while (value >= 1000 && step < units.length - 1) { value /= 1024; ++step; }
  return `${value >= 100 || step === 0 ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}

export function duration(seconds) {
  if (!known(seconds)) return "-";
  const h = Math.floor(seconds / 3600), m = Math.floor(seconds / 60) % 60;
  if (h >= 48) return `${Math.floor(h / 24)} d ${h % 24} h`;
  return h > 0 ? `${h} h ${m} m` : m > 0 ? `${m} m ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

/** A time of the API in the browser's zone. */
export function clock(time) {
  if (!time) return "-";
  const then = new Date(time), two = (number) => String(number).padStart(2, "0");
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${two(then.getHours())}:${two(then.getMinutes())}`;
}

export const memoryShare = (device) =>
  known(device.memory_used_bytes) && device.memory_total_bytes ? (100 * device.memory_used_bytes) / device.memory_total_bytes : null;

export const isGpu = (device) => device.kind !== "cpu";
export const deviceName = (device) => (isGpu(device) ? `GPU ${device.index}` : "CPU");

/** Calls the API. Throws an Error with the daemon's sentence. */
/** `sent`: a value that is sent as JSON. */
export async function call(method, path, sent) {
  const answer = await fetch(path, { method, headers: { Authorization: `Bearer ${state.token}` }, cache: "no-store", body: sent && JSON.stringify(sent) });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new Error(body && body.error ? [body.error.message, body.error.hint].filter(Boolean).join(" → ") : `HTTP ${answer.status}`);
}
export const get = async (path) => (await call("GET", path)).json();

/** Repeats `work` while the page is open and visible; returns what stops it. */
export function repeat(seconds, work) {
  const timer = setInterval(() => { if (!document.hidden) work(); }, seconds * 1000);
  work();
  return () => clearInterval(timer);
}

export const problem = (error) => make("p", "problem", word("failed", error.message));
