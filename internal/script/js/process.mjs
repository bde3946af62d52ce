// Runs in node, bun and deno: one request on standard input, one answer on a pipe of its own,
// so that nothing a tool prints can be taken for it.
import { openSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { dirname } from "node:path";

const stringify = JSON.stringify;
const encoder = new TextEncoder();
let out = Number(process.argv[2]);
let mark = "";
let sent = false;

function write(line) {
  const bytes = encoder.encode(`${mark} ${line}\n`);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(out, bytes, at, bytes.length - at);
    } catch (e) {
      if (e.code === "EAGAIN") continue;
      if (e.code === "EPIPE" || out !== 3 || at > 0) return;
      out = openSync("/dev/fd/3", "w"); // where descriptors are not the system's
    }
  }
}

// send gives an answer in pieces of bounded length; what is over the limit is only counted.
function send(type, text, limit) {
  if (sent) return;
  sent = true;
  const total = encoder.encode(text).length;
  for (let at = 0; at < text.length && at < limit; ) {
    let end = Math.min(at + 16384, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end--;
    if (end === at) end++;
    write(stringify({ type: "chunk", text: text.slice(at, end) }));
    at = end;
  }
  write(stringify({ type, total }));
}

let failure = (e) => ({ name: "", message: String(e?.message ?? e), stack: "" });
const fail = (e) => send("failure", stringify(failure(e)), 1 << 20);

async function request() {
  const parts = [];
  for await (const chunk of process.stdin) parts.push(chunk);
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
}

const { Buffer } = await import("node:buffer");
const req = await request();
mark = req.mark;
const controller = new AbortController();
process.on("SIGTERM", () => controller.abort(new Error("the call was cancelled")));
const end = (e) => {
  fail(e);
  process.exit(1);
};
process.on("uncaughtException", end);
process.on("unhandledRejection", end);
// Who waits for the abort of the call waits until it is cancelled or takes too long.
process.on("beforeExit", () => (req.listens ? setTimeout(() => {}, 2 ** 30) : end(new Error("its promise never settles: the tool waits, and nothing that it started is running any more"))));
process.on("exit", (code) => fail(new Error(`the tool ended its process (exit code ${code}) before it gave a result`)));
if (out !== 3) process.stdout.write = process.stderr.write.bind(process.stderr);

try {
  process.chdir(req.directory);
  globalThis.require = createRequire(req.file);
  globalThis.__superstep_filename = req.file;
  globalThis.__superstep_dirname = dirname(req.file);
  globalThis.__superstep_url = pathToFileURL(req.file).href;
  const runtime = await import("./superstep-runtime.mjs");
  failure = runtime.failure;
  const { module } = await import("./superstep-module.mjs");
  if (req.op === "describe") send("result", runtime.describe(module), req.limit);
  else send("result", await runtime.call(module, req, controller.signal), req.limit);
} catch (e) {
  fail(e);
}
process.exit(0);
