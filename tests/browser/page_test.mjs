// The pages of the daemon in a real Chromium, on a simulated machine: what each shows, a fault, hostile names, a wrong token, a
// daemon that restarts, themes, widths, and what axe finds. Screenshots go to OUT. If bench_history is beside BERTH, there is a day of history.
//
// usage: node page_test.mjs BERTH OUT
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const berth = resolve(process.argv[2]), out = resolve(process.argv[3]);
const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
const AXE = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
mkdirSync(out, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), "berth-page-"));

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

// The simulated machine is a shell; what is started with its variables is on it.
const HOSTILE = "<img src=x onerror=alert(2)>"; // the name of a process on GPU 7
const named = spawn("sleep", ["600"], { argv0: HOSTILE, stdio: "ignore" });
const shell = spawn(berth, ["sim", "--machine", "dgx-h100-8", "--processes", "7", "--attach", `${named.pid}:6:1GiB`, "--fault", "lost:5@90", "--", "sh", "-c", "env -0; cat"]);
let said = "";
while (!(said.endsWith("\0") && said.includes("BERTH_SIM_DIR"))) said += await new Promise((done) => shell.stdout.once("data", (bytes) => done(String(bytes))));
const variables = { ...Object.fromEntries(said.split("\0").filter(Boolean).map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)])),
  BERTH_STATE_DIR: join(folder, "state") };
const port = await freePort();

async function serve() {
  const daemon = spawn(berth, ["serve", "--tcp", `127.0.0.1:${port}`], { env: variables, stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((done) => daemon.stdout.once("data", done));
  return daemon;
}
const ended = (process_) => new Promise((done) => process_.once("exit", done));
const run = (...words) => ended(spawn(berth, words, { env: variables, stdio: "ignore" }));

const writer = join(dirname(berth), "bench_history"), hasPast = existsSync(writer);
if (hasPast) {
  const uuids = JSON.parse(execFileSync(berth, ["ls", "--json"], { env: variables })).devices.map((one) => one.uuid).filter(Boolean);
  mkdirSync(join(folder, "state"), { mode: 0o700 });
  execFileSync(writer, [join(folder, "state", "history.db"), "86400", ...uuids]);
}

let daemon = await serve();
const token = readFileSync(join(folder, "state", "tcp-token"), "utf8").trim();
const address = `http://127.0.0.1:${port}/`;
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ locale: "en-US" });
const page = await context.newPage();
const elsewhere = [], wrong = [];
page.on("request", (request) => { if (!request.url().startsWith(address) && !request.url().startsWith("data:")) elsewhere.push(request.url()); });
page.on("pageerror", (error) => wrong.push(String(error)));
page.on("console", (message) => { if (/Content Security Policy/.test(message.text())) wrong.push(message.text()); });
page.on("dialog", (dialog) => { wrong.push("a dialog: " + dialog.message()); dialog.dismiss(); });

async function step(name, work) {
  await work();
  console.log(`ok  ${name}`);
}

try {
  await step("without a token it asks for one, and a wrong one is refused", async () => {
    await page.goto(address);
    await page.fill("#token", "not-the-token");
    await page.press("#token", "Enter");
    await page.waitForFunction(() => document.getElementById("state").textContent.includes("not the right"));
    assert.equal(await page.locator(".card").count(), 0);
  });
  await step("with the address that berth prints it shows eight GPUs and the processes, live", async () => {
    await page.goto("about:blank");
    await page.goto(`${address}#${token}`);
    await page.waitForSelector(".cards .card >> nth=8");
    assert.equal(await page.locator(".cards .card").count(), 9); // and the CPU
    await page.waitForSelector("#processes tbody tr >> nth=7");
    assert.ok((await page.textContent("#processes")).includes(HOSTILE), "a hostile process name is only text");
    assert.equal(await page.locator("#page img").count(), 0);
    assert.ok(!(await page.url()).includes(token), "the token stays out of the address bar");
    await page.waitForFunction(() => (document.querySelector(".graph .use").getAttribute("d") || "").split("L").length > 3);
  });
  await step("it is small, and paints soon", async () => {
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
    const sizes = await page.evaluate(async () => {
      const files = performance.getEntriesByType("resource").map((one) => one.name).filter((one) => /\.(js|css)$/.test(one));
      return Promise.all(["/", ...files].map(async (one) => (await (await fetch(one)).arrayBuffer()).byteLength));
    });
    const size = sizes.reduce((all, one) => all + one, 0);
    console.log(`    first paint after ${Math.round(paint)} ms, ${sizes.length} files, ${Math.round(size / 1000)} kB`);
    assert.ok(size > 20000 && size < 150000, `${size} bytes`);
  });
  await step("it draws the history of each device, and arrow keys read it", async () => {
    await page.waitForFunction(() => document.querySelectorAll("#history .plot .line[d*=M]").length >= 8, null, { timeout: 60000 });
    await page.focus("#history .chart");
    await page.keyboard.press("ArrowLeft");
    await page.waitForSelector("#history .reading.now");
    await page.keyboard.press("Escape");
    await page.click("#history button:text-is('power')");
    await page.waitForFunction(() => /W/.test(document.querySelector("#history .reading").textContent));
  });
  if (hasPast)
    await step("a day of eight GPUs is drawn soon", async () => {
      const took = await page.evaluate(async () => {
        const lines = () => [...document.querySelectorAll("#history .plot .line")].map((one) => one.getAttribute("d") || "");
        const measure = async (label) => {
          const before = lines().join(), begun = performance.now();
          [...document.querySelectorAll("#history button")].find((one) => one.textContent === label).click();
          while (lines().join() === before || lines().filter((one) => one.length > 2000).length < 8) await new Promise(requestAnimationFrame);
          return performance.now() - begun;
        };
        const times = [];
        for (const label of ["use", "memory", "power", "temperature"]) {
          [...document.querySelectorAll("#history button")].find((one) => one.textContent === label).click();
          [...document.querySelectorAll("#history button")].find((one) => one.textContent === "1 hour").click();
          await new Promise((done) => setTimeout(done, 700));
          times.push(await measure("24 hours"));
        }
        return times.sort((a, b) => a - b);
      });
      console.log(`    24 hours drawn after ${took.map(Math.round).join(", ")} ms`);
      assert.ok(took[0] < 1000);
      await page.click("#history button:text-is('use')");
    });
  await step("it sorts by the column that is pressed", async () => {
    await page.click("#processes th:nth-child(3) button");
    await page.waitForFunction(() => {
      const users = [...document.querySelectorAll("#processes td:nth-child(3)")].map((cell) => cell.textContent);
      return users.length > 0 && users.every((one, at) => at === 0 || users[at - 1].localeCompare(one) <= 0);
    });
  });
  await step("a device has a page with its readings, checks and facts", async () => {
    await page.click(".cards .card >> nth=2 >> a");
    await page.waitForFunction(() => document.querySelectorAll(".chart .plot").length >= 4);
    await page.waitForFunction(() => document.querySelectorAll("#checks tbody tr").length === 1);
    assert.match(await page.textContent(".pairs"), /GPU-/);
  });
  await step("a job is cancelled by a button that asks once", async () => {
    await page.click("#pages a[href='#/jobs']");
    await run("run", "--queue", "--hold", "--name", "resnet50", "--", "true");
    await page.click("#jobs a[href='#/job/1']");
    await page.click("#job button.danger");
    assert.match(await page.textContent("#job"), /held/);
    await page.click("#job button.danger");
    await page.waitForFunction(() => !document.getElementById("jobs").textContent.includes("resnet50"));
    await page.waitForFunction(() => document.getElementById("job").textContent.includes("cancelled"));
  });
  await step("the output of a running job comes as it is written, without its colours", async () => {
    await run("run", "--queue", "--gpus", "1", "--", "sh", "-c", "printf '\\033[31mepoch 1\\033[0m\\n'; sleep 3; echo epoch 2; sleep 600");
    await page.goto(`${address}#/job/2`);
    await page.waitForFunction(() => document.querySelector("#job pre.log")?.textContent.trim() === "epoch 1", null, { timeout: 60000 });
    await page.waitForFunction(() => document.querySelector("#job pre.log").textContent.includes("epoch 2"), null, { timeout: 60000 });
    assert.match(await page.textContent("#job"), /running/);
  });
  await step("a waiting job says why", async () => {
    await run("run", "--queue", "--gpus", "8", "--", "true");
    await page.goto(`${address}#/job/3`);
    await page.waitForFunction(() => document.querySelector("#job .why")?.textContent.includes("No suitable device"));
  });
  await step("a job is submitted from the page", async () => {
    await page.goto(`${address}#/jobs`);
    await page.click("#new-job summary");
    await page.fill("#new-command", "echo from the page in $PWD");
    await page.fill("#new-folder", "/usr");
    await page.fill("#new-gpus", "0");
    await page.fill("#new-name", "from-the-page");
    await page.screenshot({ path: join(out, "new-job.png") });
    await page.click("#new-job button");
    await page.waitForFunction(() => document.querySelector("#job pre.log")?.textContent.includes("from the page in /usr"), null, { timeout: 60000 });
    assert.equal(await page.evaluate(() => localStorage.getItem("berth-folder")), "/usr");
  });
  await step("users shows who held GPUs", async () => {
    await page.click("#pages a[href='#/users']");
    await page.waitForSelector("#usage tbody tr", { timeout: 90000 });
    await page.click("#usage button:text-is('by program')");
    await page.waitForFunction(() => document.querySelector("#usage th").textContent === "command");
  });
  await step("health shows checks and what doctor finds", async () => {
    await page.click("#pages a[href='#/health']");
    await page.waitForFunction(() => document.querySelectorAll("#checks tbody tr").length === 8);
    await page.waitForFunction(() => document.querySelector("#doctor p") && !document.querySelector("#doctor p").textContent.includes("…"), null, { timeout: 90000 });
    assert.equal(await page.locator("#doctor .problem").count(), 0);
  });
  await step("a lost GPU shows, with an alert", async () => {
    await page.waitForSelector("#alerts li", { timeout: 180000 });
    assert.match(await page.textContent("#alerts"), /GPU 5 is lost/);
    assert.equal(await page.getAttribute("#pages a[href='#/health']", "data-count"), "1");
    await page.click("#pages a[href='#/machine']");
    await page.waitForFunction(() => document.querySelectorAll(".card[data-bad]").length === 1);
  });
  // The pictures show ordinary names.
  await step("a process that has ended disappears", async () => {
    named.kill();
    await page.waitForFunction((name) => !document.getElementById("processes").textContent.includes(name), HOSTILE, { timeout: 60000 });
  });
  for (const [name, path, ready] of [["machine", "machine", "#history .plot"], ["device", "device/1", ".chart .plot"], ["jobs", "job/2", "#job pre.log"],
    ["users", "users", "#usage tbody tr"], ["health", "health", "#checks tbody tr"]])
    await step(`${name}: nothing is cut off and axe finds nothing serious, light and dark, at three widths`, async () => {
      await page.goto(`${address}#/${path}`);
      await page.waitForSelector(ready, { timeout: 60000 });
      for (const scheme of ["light", "dark"])
        for (const width of [360, 900, 1600]) {
          await page.emulateMedia({ colorScheme: scheme });
          await page.setViewportSize({ width, height: 900 });
          await page.evaluate(() => scrollTo(0, 0));
          await page.waitForTimeout(300);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.ok(wide <= 0, `${scheme} ${width}: the page is ${wide} px too wide`);
          const over = await page.evaluate(() => [...document.querySelectorAll("td")].filter((one) =>
            getComputedStyle(one).overflowX === "visible" && one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent));
          assert.deepEqual(over, [], `${scheme} ${width}: wider than its cell`);
          await page.screenshot({ path: join(out, `${name}-${scheme}-${width}.png`), fullPage: true, timeout: 120000 });
          const found = await page.evaluate(`(() => { ${AXE}; return axe.run(document, { resultTypes: ["violations"] }); })()`);
          const serious = found.violations.filter((one) => ["serious", "critical"].includes(one.impact)).map((one) => `${one.id}: ${one.nodes[0].html}`);
          assert.deepEqual(serious, [], `${scheme} ${width}`);
        }
    });
  await step("a hostile name is only text", async () => {
    await page.click("#pages a[href='#/jobs']");
    await run("run", "--queue", "--hold", "--name", "<b>bold</b> <img src=x onerror=alert(1)>", "--", "true");
    await page.waitForFunction(() => document.getElementById("jobs").textContent.includes("<b>bold</b> <img src=x onerror"));
    assert.equal(await page.locator("#page img, #page b").count(), 0);
  });
  await step("it goes on when the daemon was restarted", async () => {
    daemon.kill("SIGKILL");
    await ended(daemon);
    await page.waitForFunction(() => document.getElementById("state").textContent.includes("no connection"));
    daemon = await serve();
    await page.waitForFunction(() => document.getElementById("state").textContent === "live", null, { timeout: 60000 });
  });
  await step("it is Chinese where the browser says so", async () => {
    const other = await browser.newContext({ locale: "zh-CN" });
    const chinese = await other.newPage();
    await chinese.goto(`${address}#${token}`);
    await chinese.waitForSelector(".cards .card");
    assert.equal(await chinese.textContent("#devices h2"), "设备");
    await chinese.screenshot({ path: join(out, "page-zh.png") });
    await other.close();
  });
  assert.deepEqual(elsewhere, [], "nothing is asked of other hosts");
  assert.deepEqual(wrong, []);
} finally {
  await browser.close();
  daemon.kill("SIGTERM");
  shell.stdin.end();
  named.kill();
  rmSync(folder, { recursive: true, force: true });
}
