// Runs in the embedded engine: what a language without a system lacks, and the answer.
const remedy = "this tool runs in the embedded engine, which has no files, network or processes; install node, bun or deno";
const host = globalThis.__superstep_host;
delete globalThis.__superstep_host;

const timers = new Map();
let next = 1;
const add = (f, delay, args, every) => {
  if (typeof f !== "function") throw new TypeError("the callback is not a function");
  delay = Math.max(0, Number(delay) || 0);
  timers.set(next, { at: host.now() + delay, f, args, every: every ? Math.max(1, delay) : 0 });
  return next++;
};
const define = (name, value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
define("setTimeout", (f, delay, ...args) => add(f, delay, args, false));
define("setInterval", (f, delay, ...args) => add(f, delay, args, true));
define("setImmediate", (f, ...args) => add(f, 0, args, false));
for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) define(name, (id) => void timers.delete(id));
define("queueMicrotask", (f) => void Promise.resolve().then(f));
define("performance", { now: () => host.now() });

const show = (v) => {
  if (typeof v === "string") return v;
  if (v instanceof Error) return `${v.name}: ${v.message}`;
  try {
    return JSON.stringify(v) ?? String(v);
  } catch {
    return String(v);
  }
};
const print = (...values) => host.log(values.map(show).join(" ").slice(0, 65536));
define("console", Object.fromEntries(["log", "info", "warn", "error", "debug", "trace", "dir", "table", "group"].map((n) => [n, print]).concat(["groupEnd", "time", "timeEnd", "assert", "count"].map((n) => [n, () => {}]))));

class EventTarget {
  #listeners = [];
  addEventListener(type, listener, options) {
    this.#listeners.push({ type, listener, once: options?.once });
  }
  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((l) => l.type !== type || l.listener !== listener);
  }
  dispatchEvent(event) {
    const call = (l) => (typeof l === "function" ? l.call(this, event) : l?.handleEvent?.(event));
    for (const l of [...this.#listeners]) {
      if (l.type !== event.type) continue;
      if (l.once) this.removeEventListener(l.type, l.listener);
      call(l.listener);
    }
    call(this["on" + event.type]);
    return true;
  }
}
class AbortSignal extends EventTarget {
  aborted = false;
  reason = undefined;
  onabort = null;
  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }
  static abort(reason) {
    const c = new AbortController();
    c.abort(reason);
    return c.signal;
  }
  static timeout(ms) {
    const c = new AbortController();
    setTimeout(() => c.abort(Object.assign(new Error("the time is over"), { name: "TimeoutError" })), ms);
    return c.signal;
  }
  static any(signals) {
    const c = new AbortController();
    for (const s of signals) {
      if (s.aborted) c.abort(s.reason);
      else s.addEventListener("abort", () => c.abort(s.reason));
    }
    return c.signal;
  }
}
class AbortController {
  signal = new AbortSignal();
  abort(reason) {
    if (this.signal.aborted) return;
    this.signal.aborted = true;
    this.signal.reason = reason ?? Object.assign(new Error("aborted"), { name: "AbortError" });
    this.signal.dispatchEvent({ type: "abort", target: this.signal });
  }
}
define("EventTarget", EventTarget);
define("AbortSignal", AbortSignal);
define("AbortController", AbortController);

define("TextEncoder", class TextEncoder {
  encode(s = "") {
    const bytes = [];
    for (const c of String(s).toWellFormed()) {
      const p = c.codePointAt(0);
      if (p < 0x80) bytes.push(p);
      else if (p < 0x800) bytes.push(0xc0 | (p >> 6), 0x80 | (p & 63));
      else if (p < 0x10000) bytes.push(0xe0 | (p >> 12), 0x80 | ((p >> 6) & 63), 0x80 | (p & 63));
      else bytes.push(0xf0 | (p >> 18), 0x80 | ((p >> 12) & 63), 0x80 | ((p >> 6) & 63), 0x80 | (p & 63));
    }
    return Uint8Array.from(bytes);
  }
});
define("TextDecoder", class TextDecoder {
  decode(bytes = new Uint8Array()) {
    bytes = ArrayBuffer.isView(bytes) ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Uint8Array(bytes);
    let hex = "";
    for (const b of bytes) hex += b.toString(16).padStart(2, "0");
    return host.decode(hex);
  }
});
define("crypto", { randomUUID: () => host.uuid() });
define("structuredClone", (v) => (v === undefined ? undefined : JSON.parse(JSON.stringify(v))));

const missing = (name) => {
  throw new Error(`${name} is missing: ${remedy}`);
};
define("fetch", async () => missing("fetch"));
define("require", (name) => missing(`module ${name}`));
for (const name of ["Bun", "Deno", "Buffer", "WebSocket", "URL", "URLSearchParams", "Response", "Request"])
  Object.defineProperty(globalThis, name, { configurable: true, get: () => missing(name), set: (v) => define(name, v) });

let controller;
// The engine calls these, in turn with the work that is pending.
globalThis.__superstep_loop = {
  start(json) {
    const req = JSON.parse(json);
    define("__superstep_filename", req.file);
    define("__superstep_dirname", req.file.replace(/[\\/][^\\/]*$/, ""));
    define("__superstep_url", "file://" + req.file);
    define("process", { env: req.env ?? {}, argv: [], platform: req.platform, cwd: () => req.directory, nextTick: (f, ...a) => queueMicrotask(() => f(...a)), exit: () => missing("process.exit") });
    controller = new AbortController();
    run(req);
  },
  abort() {
    controller?.abort(new Error("the call was cancelled"));
  },
  /** Milliseconds until the next timer, -1 without one. */
  wait() {
    let at = Infinity;
    for (const t of timers.values()) at = Math.min(at, t.at);
    return at === Infinity ? -1 : Math.max(0, at - host.now());
  },
  /** Calls the timer that is due, the earliest first. */
  tick() {
    let due;
    for (const [id, t] of timers) if (t.at <= host.now() && (due === undefined || t.at < timers.get(due).at)) due = id;
    if (due === undefined) return;
    const t = timers.get(due);
    if (t.every) t.at = host.now() + t.every;
    else timers.delete(due);
    try {
      t.f(...t.args);
    } catch (e) {
      host.done("failure", JSON.stringify({ name: "", message: String(e?.message ?? e), stack: String(e?.stack ?? "") }));
    }
  },
};

async function run(req) {
  let failure = (e) => ({ name: "", message: String(e?.message ?? e), stack: "" });
  try {
    const runtime = await import("./superstep-runtime.mjs");
    failure = runtime.failure;
    const { module } = await import("./superstep-module.mjs");
    const text = req.op === "describe" ? runtime.describe(module) : await runtime.call(module, req, controller.signal);
    host.done("result", text);
  } catch (e) {
    host.done("failure", JSON.stringify(failure(e)));
  }
}
