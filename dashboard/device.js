// One device: its readings now and over time, facts, checks, processes and jobs.
import { bytes, choice, deviceName, get, known, link, make, memoryShare, percent, problem, repeat, section, state, table, tile, watts, celsius,
  megahertz } from "./base.js";
import { drawChart, historyRow } from "./chart.js";
import { checkTable } from "./health.js";
import { healthBadge, memoryWord, processTable, TEXT } from "./machine.js";
import { word } from "./words.js";

const RANGES = { "1h": 3600, "24h": 86400, "7d": 604800, "30d": 2592000 };

function tiles(device) {
  const limit = device.power_limit_milliwatts;
  return [tile(word("use"), percent(device.utilization_percent), "", device.utilization_percent, "use"),
    tile(word(memoryWord(device)), bytes(device.memory_used_bytes), word("ofTotal", bytes(device.memory_total_bytes)), memoryShare(device), "memory"),
    tile(word("power"), watts(device.power_milliwatts), known(limit) ? word("ofTotal", watts(limit)) : "", known(device.power_milliwatts) && limit ? (100 * device.power_milliwatts) / limit : null, "power"),
    tile(word("temperature"), celsius(device.temperature_celsius), "", device.temperature_celsius, "heat"),
    tile(word("clock"), megahertz(device.clock_sm_mhz), known(device.clock_graphics_max_mhz) ? word("ofTotal", megahertz(device.clock_graphics_max_mhz)) : ""),
    ...["sm_active", "tensor_active", "dram_active"].filter((one) => known(device[`${one}_percent`])).map((one) =>
      tile(word(one), percent(device[`${one}_percent`]), "", device[`${one}_percent`], "use"))];
}

function facts(device) {
  const list = make("dl", "pairs");
  const pcie = known(device.pcie_generation) ? `${device.pcie_generation} × ${device.pcie_width ?? "-"}` : null;
  const rate = (value) => (known(value) ? `${bytes(value)}/s` : "-");
  const nvlink = known(device.nvlink_links) ? word("links", device.nvlink_links, device.nvlink_links_max, rate(device.nvlink_rx_bytes_per_second), rate(device.nvlink_tx_bytes_per_second)) : null;
  for (const [name, value] of [["uuid", device.uuid], ["pci", device.pci_address], ["driver", device.kernel_driver], ["architecture", device.architecture],
    ["pcie", pcie], ["nvlink", nvlink], ["numa", device.numa_node], ["powerLimit", known(device.power_limit_milliwatts) ? watts(device.power_limit_milliwatts) : null], ["ecc", device.ecc_uncorrected]])
    if (known(value)) list.append(make("dt", "", word(name)), make("dd", "", String(value)));
  return list;
}

/** The MIG partitions of a device; hidden where there are none. */
function partitionPart() {
  const part = section(word("partitions"));
  const { scroll, body } = table(word("partitions"), [[word("partition")], [word("profile")], [word("memory"), true], [word("use"), true], [word("uuid")]]);
  part.id = "partitions";
  part.append(scroll);
  function show(device) {
    part.hidden = !device.partitions?.length;
    body.replaceChildren(...(device.partitions || []).map((one) => make("tr", "", make("td", "", `${device.index}:${one.index}`),
      make("td", "", one.name.replace(/^MIG /, "")), make("td", "number", `${bytes(one.memory_used_bytes)} / ${bytes(one.memory_total_bytes)}`),
      make("td", "number", percent(one.utilization_percent)), make("td", "", one.uuid || "-"))));
  }
  return { part, show };
}

export function open(root, argument) {
  const index = Number(argument);
  let range = "1h", asked = 0, stop = () => {}, unwatch = () => {};
  const title = make("h2"), now = make("div", "tiles"), chart = make("div", "chart tall"), note = make("p", "soft", word("loading"));
  const about = section(word("facts")), list = make("div", "card");
  about.append(list);
  const processes = processTable((one) => one.device === argument || String(one.device).split(":")[0] === argument);
  const checks = checkTable((one) => one.device === index);
  const partitions = partitionPart();
  async function load() {
    const mine = ++asked;
    try {
      const answer = await get(`/v1/history?since=${range}&device=${index}`);
      if (mine !== asked) return;
      const rows = answer.devices.slice(0, 1).flatMap((device) => ["use", "memory", "power", "temperature", "clock"].map((reading) =>
        historyRow(device, reading, word(reading), word(reading), TEXT[reading])).filter(Boolean));
      note.hidden = rows.length > 0;
      note.textContent = word("noHistory");
      chart.hidden = rows.length === 0;
      unwatch();
      const to = Date.parse(answer.to) / 1000;
      unwatch = drawChart(chart, { from: to - RANGES[range], to, height: 92, rows });
    } catch (error) {
      if (mine === asked) { chart.hidden = true; note.hidden = false; note.replaceChildren(problem(error)); }
    }
  }
  function restart() {
    stop();
    stop = repeat(range === "1h" ? 10 : 60, load);
  }
  const past = section(word("history"), choice(word("range"), Object.keys(RANGES), range, (one) => word(one), (one) => { range = one; restart(); }));
  past.append(note, chart);
  root.append(make("div", "head", title, link(`← ${word("back")}`, "#/machine")), now, past, partitions.part, processes.part, checks.part, about);
  function show() {
    if (!state.frame) return;
    const device = state.frame.devices.find((one) => one.index === index);
    if (!device) { title.textContent = word("noSuchDevice", argument); return; }
    title.replaceChildren(`${deviceName(device)} · ${device.name || device.kind} `, healthBadge(device));
    now.replaceChildren(...tiles(device));
    list.replaceChildren(facts(device));
    partitions.show(device);
    processes.show(state.frame);
    checks.part.hidden = device.kind === "cpu";
  }
  show();
  restart();
  return { frame: show, close: () => { stop(); unwatch(); checks.stop(); } };
}
