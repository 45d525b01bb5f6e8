// Who used what: GPU-hours held, used and held without use, and energy.
import { bar, bytes, choice, energy, get, hours, known, link, make, percent, problem, repeat, section, table, tile } from "./base.js";
import { word } from "./words.js";

const RANGES = ["24h", "7d", "30d", "92d"];
const BY = ["user", "job", "command"];
let range = "7d", by = "user";

const share = (part, whole) => (known(part) && whole > 0 ? (100 * part) / whole : null);
const sum = (rows, key) => rows.reduce((all, one) => all + (one[key] || 0), 0);

function nameOf(one) {
  if (by === "job") return one.name === "-" ? word("noJob") : link(one.name, `#/job/${one.name}`);
  return one.name === "?" ? word("notKnown") : one.name;
}

/** What jobs asked for on each GPU. */
const asked = (one) => (!known(one.asked_memory_bytes) ? "-" : one.asked_memory_bytes === 0 ? word("wholeGpus") : bytes(one.asked_memory_bytes));

function row(one, most) {
  const scale = most > 0 ? 100 / most : 0;
  // Used and idle are parts of the known time; the rest of the known time computed nothing part of the time.
  const used = (one.used_seconds || 0) * scale, idle = (one.idle_seconds || 0) * scale;
  const rest = Math.max(0, one.held_seconds * scale - used - idle);
  const line = make("tr");
  line.append(make("td", "command", nameOf(one)), make("td", "wide", bar([["use", used], ["rest", rest], ["idle", idle]])),
    make("td", "number", hours(one.held_seconds)), make("td", "number", hours(one.used_seconds)),
    make("td", "number", known(one.idle_seconds) ? `${hours(one.idle_seconds)} (${percent(share(one.idle_seconds, one.known_seconds))})` : "-"),
    make("td", "number", bytes(one.memory_p95_bytes)), make("td", "number", energy(one.energy_joules)));
  if (by !== "user") line.append(make("td", "number", asked(one)), make("td", "", one.next ? make("code", "", one.next) : "-"));
  return line;
}

function legend() {
  const all = make("p", "legend");
  for (const [kind, name] of [["use", "used"], ["rest", "rest"], ["idle", "idle"]]) all.append(make("span", "pair", bar([[kind, 100]]), word(name)));
  return all;
}

export function open(root) {
  let turn = 0, stop = () => {};
  const tiles = make("div", "tiles");
  const { scroll, head, body } = table(word("users"), []);
  const note = make("p", "soft", word("loading"));
  async function load() {
    const mine = ++turn;
    try {
      const { usage } = await get(`/v1/usage?since=${range}&by=${by}`);
      if (mine !== turn) return;
      const titles = [[word(by), false], [word("share"), false], [word("held"), true], [word("used"), true], [word("idle"), true], [word("p95Memory"), true], [word("energy"), true],
        ...(by === "user" ? [] : [[word("asked"), true], [word("next"), false]])];
      head.replaceChildren(...titles.map(([title, isNumber]) => { const cell = make("th", isNumber ? "number" : "", title); cell.scope = "col"; return cell; }));
      const held = sum(usage, "held_seconds"), known_ = sum(usage, "known_seconds"), used = sum(usage, "used_seconds"), idle = sum(usage, "idle_seconds");
      tiles.replaceChildren(tile(word("held"), hours(held)),
        tile(word("used"), known_ ? hours(used) : "-", known_ ? percent(share(used, known_)) : word("unknownShare"), known_ ? share(used, known_) : null, "use"),
        tile(word("idle"), known_ ? hours(idle) : "-", known_ ? percent(share(idle, known_)) : word("unknownShare"), known_ ? share(idle, known_) : null, "idle"),
        tile(word("energy"), energy(sum(usage, "energy_joules"))));
      body.replaceChildren(...usage.slice(0, 200).map((one) => row(one, Math.max(...usage.map((other) => other.held_seconds)))));
      scroll.hidden = usage.length === 0;
      note.hidden = usage.length > 0;
      note.textContent = word("noUsage");
    } catch (error) {
      if (mine !== turn) return;
      scroll.hidden = true;
      note.hidden = false;
      note.replaceChildren(problem(error));
    }
  }
  function restart() {
    stop();
    stop = repeat(60, load);
  }
  const part = section(word("users"),
    choice(word("grouped"), BY, by, (one) => word(`by${one[0].toUpperCase()}${one.slice(1)}`), (one) => { by = one; restart(); }),
    choice(word("range"), RANGES, range, (one) => word(one), (one) => { range = one; restart(); }));
  part.id = "usage";
  part.append(legend(), scroll, note);
  scroll.hidden = true;
  root.append(tiles, part);
  restart();
  return { close: () => stop() };
}
