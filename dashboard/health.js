// Health: alerts, the checks of each device, and what doctor finds.
import { clock, get, link, make, problem, repeat, section, state, table } from "./base.js";
import { chinese, word, wordOf } from "./words.js";

const MARKS = { ok: "✓", failed: "✗", "not checked": "–" };
const verdict = (check) => make("span", `verdict ${check.verdict.replace(" ", "-")}`, `${MARKS[check.verdict] || ""} ${wordOf("check", check.verdict)}`);

export function alertList() {
  const list = make("ul", "notes");
  list.id = "alerts";
  list.setAttribute("aria-live", "polite");
  const none = make("p", "soft", word("noAlerts"));
  function show() {
    none.hidden = state.alerts.length > 0;
    list.replaceChildren(...state.alerts.map((one) => make("li", one.severity, make("strong", "", word(one.severity)), make("span", "message", one.message),
      make("span", "soft", `${word("since")} ${clock(one.since)}`), make("code", "", one.hint))));
  }
  show();
  return { list, none, show };
}

/** The checks of one device, or of all. */
export function checkTable(wanted) {
  const part = section(word("checks"));
  const place = make("div", "", make("p", "soft", word("loading")));
  part.id = "checks";
  part.append(place);
  const stop = repeat(10, async () => {
    try {
      const devices = (await get("/v1/health")).devices.filter(wanted);
      const checks = devices.length ? devices[0].checks.map((one) => one.check) : [];
      const { scroll, body } = table(word("checks"), [[word("device")], ...checks.map((one) => [word(one)])]);
      body.append(...devices.map((device) => {
        const row = make("tr", "", make("td", "", link(`GPU ${device.device}`, `#/device/${device.device}`)));
        for (const one of device.checks) {
          const cell = make("td", "", verdict(one));
          if (one.detail) cell.append(make("span", "soft detail-text", one.detail));
          row.append(cell);
        }
        return row;
      }));
      place.replaceChildren(scroll);
    } catch (error) { place.replaceChildren(problem(error)); }
  });
  return { part, stop };
}

function finding(one) {
  const item = make("li", one.severity, make("strong", "", word(one.severity)), make("span", "message", one.title), make("code", "", one.id));
  if (one.explained_by) item.append(make("span", "soft", word("explainedBy", one.explained_by)));
  for (const evidence of one.evidence) item.append(make("p", "soft", evidence));
  for (const fix of one.fix) {
    if (fix.says) item.append(make("p", "", fix.says));
    if (fix.command) item.append(make("pre", "command", fix.command));
  }
  return item;
}

function doctorPart() {
  const part = section(word("doctor"));
  const place = make("div", "", make("p", "soft", word("doctorRuns")));
  part.id = "doctor";
  part.append(place);
  get(`/v1/doctor?lang=${chinese ? "zh" : "en"}`).then((answer) => {
    const list = make("ul", "notes");
    list.append(...answer.findings.map(finding));
    place.replaceChildren(make("p", "", answer.verdict || word("noFindings")), list);
    if (answer.not_checked.length) place.append(make("p", "soft", word("notChecked", answer.not_checked.length)));
  }).catch((error) => place.replaceChildren(problem(error)));
  return part;
}

export function open(root) {
  const alerts = section(word("alerts"));
  const list = alertList();
  alerts.append(list.list, list.none);
  const checks = checkTable(() => true);
  root.append(alerts, checks.part, doctorPart());
  return { alerts: list.show, close: checks.stop };
}
