// Opens the pages of the daemon in Chromium, and prints what they show and what the daemon has sent, as JSON.
//
// usage: node others_page.mjs ADDRESS
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const address = process.argv[2];
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const page = await (await browser.newContext({ locale: "en-US" })).newPage();
const pages = {}, bodies = [], statuses = [], pending = [];
page.on("response", (response) => {
  const path = response.url().slice(address.length - 1);
  statuses.push([path, response.status()]);
  // A stream does not end: its data is in the state.
  if (!/event-stream/.test(response.headers()["content-type"] || ""))
    pending.push(response.text().then((body) => bodies.push([path, body]), () => {}));
});

async function show(name, path, ready) {
  await page.goto(`${address}#/${path}`);
  await page.waitForFunction(ready, null, { timeout: 60000 });
  await page.waitForTimeout(1500); // what comes later
  pages[name] = await page.textContent("#page");
}

try {
  await page.goto(`${address}#token`); // a socket needs none, but the page asks for one
  await page.waitForSelector(".cards .card");
  await show("machine", "machine", () => document.querySelectorAll("#processes tbody tr").length > 0);
  await show("jobs", "jobs", () => document.getElementById("jobs")?.textContent.includes("alice"));
  await show("job/1", "job/1", () => document.getElementById("job")?.textContent.length > 20);
  await show("device/3", "device/3", () => document.querySelectorAll(".chart .plot").length >= 4);
  await show("users", "users", () => document.querySelectorAll("#usage tbody tr").length > 0);
  for (const [name, label] of [["by job", "by job"], ["by command", "by program"]]) {
    await page.click(`#usage button:text-is('${label}')`);
    await page.waitForTimeout(1500);
    pages[name] = await page.textContent("#page");
  }
  await show("health", "health", () => document.querySelectorAll("#checks tbody tr").length > 0);
  // What an address that is typed in by hand gives.
  for (const path of ["/v1/jobs", "/v1/jobs?all", "/v1/jobs/1", "/v1/jobs/1/log", "/v1/history", "/v1/usage?by=job", "/v1/usage?by=command", "/metrics", "/v1/alerts"])
    await page.evaluate((one) => fetch(one, { headers: { Authorization: "Bearer token" } }).then((answer) => answer.text()), path);
  const state = await page.evaluate(() => import("/base.js").then(({ state: one }) => JSON.stringify([one.frame, [...one.jobs.values()], one.alerts])));
  await Promise.all(pending);
  console.log(JSON.stringify({ pages, bodies, statuses, state }));
} finally {
  await browser.close();
}
