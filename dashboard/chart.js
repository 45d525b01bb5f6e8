// Rows of charts over one time axis: of each device one reading, or of one device each reading. A cursor reads all rows.
import { draw, known, make, state } from "./base.js";
import { word } from "./words.js";

const HOUR = 3600, DAY = 24 * HOUR;
const TICKS = [60, 300, 600, 900, 1800, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY];
const LEAST_TICK = 90, LABELLED = 60; // pixels

const two = (number) => String(number).padStart(2, "0");
function timeText(seconds, isLong) {
  const then = new Date(seconds * 1000);
  const day = `${two(then.getMonth() + 1)}-${two(then.getDate())}`, time = `${two(then.getHours())}:${two(then.getMinutes())}`;
  return isLong ? `${day} ${time}` : time;
}

/** Times at round values of the local clock. */
function ticks(from, to, width) {
  const step = TICKS.find((one) => (one / (to - from)) * width >= LEAST_TICK) || TICKS[TICKS.length - 1];
  const zone = new Date(to * 1000).getTimezoneOffset() * 60;
  const all = [];
  for (let time = Math.ceil((from - zone) / step) * step + zone; time < to; time += step) all.push(time);
  return { all, isDay: step >= DAY };
}

/** The line has a gap where readings are missing; a single reading is a dot. */
function paths(points, step, x, y, bottom) {
  let line = "", area = "", part = [];
  const end = () => {
    if (part.length === 0) return;
    const text = part.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`);
    line += `M${text.join("L")}${part.length === 1 ? "h.1" : ""}`;
    area += `M${part[0][0].toFixed(1)} ${bottom}L${text.join("L")}L${part[part.length - 1][0].toFixed(1)} ${bottom}Z`;
    part = [];
  };
  let before = -Infinity;
  for (const [time, value] of points) {
    if (!known(value) || time - before > 1.6 * step) end();
    if (known(value)) { part.push([x(time), y(value)]); before = time; }
  }
  end();
  return { line, area };
}

function summary(row) {
  const values = row.points.map(([, value]) => value).filter(known);
  if (values.length === 0) return word("noReadings");
  const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
  return word("meanMax", row.text(mean), row.text(Math.max(...values)));
}

/**
 * Draws the rows into `root`, again when its width changes. Each row: { label: Node, name, kind, points: [[seconds, value]], step,
 * max, text: value → string }. Returns what stops it.
 * @param {HTMLElement} root
 * @param {{from: number, to: number, height: number, rows: object[]}} chart
 */
export function drawChart(root, chart) {
  const { from, to, height, rows } = chart;
  const shown = rows.map((row) => {
    const picture = draw("svg", "plot", { role: "img", "aria-label": `${row.name}: ${summary(row)}` });
    const reading = make("span", "reading", summary(row));
    return { row, picture, reading, line: make("div", "row", make("span", "name", row.label), picture, reading) };
  });
  const axis = draw("svg", "axis", { "aria-hidden": "true" });
  const when = make("span", "reading");
  root.replaceChildren(...shown.map((one) => one.line), make("div", "row", make("span", "name"), axis, when));
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", word("chartHelp"));

  let width = 0;
  const x = (time) => ((time - from) / (to - from)) * width;
  function render() {
    width = Math.max(40, Math.floor((shown[0] ? shown[0].picture : axis).getBoundingClientRect().width));
    const marks = ticks(from, to, width);
    for (const { row, picture } of shown) {
      const y = (value) => height - 1 - (Math.max(0, Math.min(row.max, value)) / row.max) * (height - 3);
      const { line, area } = paths(row.points, row.step, x, y, height - 1);
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      picture.setAttribute("height", height);
      picture.replaceChildren(
        ...marks.all.map((time) => draw("path", "tick", { d: `M${x(time).toFixed(1)} 0V${height}` })),
        draw("path", "tick", { d: `M0 1H${width}` }), draw("path", "base", { d: `M0 ${height - .5}H${width}` }),
        draw("path", `area ${row.kind}`, { d: area }), draw("path", `line ${row.kind}`, { d: line }),
        draw("path", "cursor", { d: "" }), ...(height < LABELLED ? [] : [draw("text", "scale", { x: 3, y: 13 }, row.text(row.max))]));
    }
    axis.setAttribute("viewBox", `0 0 ${width} 16`);
    axis.setAttribute("height", 16);
    axis.replaceChildren(...marks.all.filter((time) => x(time) > 24 && x(time) < width - 24).map((time) =>
      draw("text", "scale", { x: x(time), y: 12, "text-anchor": "middle" }, marks.isDay ? timeText(time, true).slice(0, 5) : timeText(time, to - from > DAY))));
  }

  const step = Math.max(1, ...rows.map((row) => row.step));
  let cursor = null;
  function read(time) {
    cursor = time;
    for (const { row, picture, reading } of shown) {
      const near = time === null ? null : row.points.find(([when_]) => when_ <= time && time < when_ + row.step);
      reading.textContent = time === null ? summary(row) : row.text(near ? near[1] : null);
      reading.classList.toggle("now", time !== null);
      picture.querySelector(".cursor").setAttribute("d", time === null ? "" : `M${x(time).toFixed(1)} 0V${height}`);
    }
    when.textContent = time === null ? "" : timeText(time, true);
  }
  root.onpointermove = (event) => {
    const box = axis.getBoundingClientRect();
    const part = (event.clientX - box.left) / box.width;
    read(part >= 0 && part <= 1 ? from + part * (to - from) : null);
  };
  root.onpointerleave = () => read(null);
  root.onkeydown = (event) => {
    if (event.key === "Escape") return read(null);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const wanted = (cursor === null ? to - step : cursor) + (event.key === "ArrowLeft" ? -step : step);
    read(Math.max(from, Math.min(to - 1, wanted)));
  };
  const watch = new ResizeObserver(() => { render(); if (cursor !== null) read(cursor); });
  watch.observe(root);
  return () => watch.disconnect();
}

/** The readings that a chart can show. `max`: of the scale, for a device as it is now, or null. */
export const READINGS = {
  use: { key: "utilization_percent", kind: "use", max: () => 100 },
  memory: { key: "memory_used_bytes", kind: "memory", max: (device) => device && device.memory_total_bytes },
  power: { key: "power_milliwatts", kind: "power", max: (device) => device && device.power_limit_milliwatts },
  temperature: { key: "temperature_celsius", kind: "heat", max: () => 100 },
  clock: { key: "clock_sm_mhz", kind: "clock", max: () => null },
};

/** Whether a device of a frame is this one of the history. */
export const isSame = (device, past) => (past.uuid === "cpu" ? device.kind === "cpu" : past.uuid === (device.uuid || device.pci_address));

/** One row of a device in an answer of /v1/history; null if it has no such reading. */
export function historyRow(device, reading, label, name, text) {
  const { key, kind, max } = READINGS[reading];
  const points = device.points.map((point) => [Date.parse(point.time) / 1000, point[key]]);
  const values = points.map(([, value]) => value).filter(known);
  if (values.length === 0) return null;
  const now = state.frame && state.frame.devices.find((one) => isSame(one, device));
  return { label, name, kind, points, step: device.step_seconds, text, max: Math.max((now && max(now)) || max(null) || 1, ...values) };
}
