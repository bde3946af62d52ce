// What is done with a module: tell of its tools, and call one.
import { inputSchema, outputSchema, readArgs } from "./superstep-schemas.mjs";

const isTool = (v) => v !== null && typeof v === "object" && typeof v.execute === "function";

function exportsOf(namespace) {
  const inner = namespace.default;
  return inner?.__esModule ? inner : namespace;
}

/** What the tools of a module are, as JSON. */
export function describe(namespace) {
  const module = exportsOf(namespace);
  const tools = [];
  const others = [];
  for (const name of Object.keys(module)) {
    try {
      const t = module[name];
      if (!isTool(t)) {
        others.push(name);
        continue;
      }
      tools.push({
        export: name,
        description: t.description,
        input: inputSchema(t.args ?? t.parameters),
        output: outputSchema(t.output),
        effect: t.effect,
        timeout: t.timeout,
        env: t.env,
        network: t.network,
        read: t.read,
        write: t.write,
      });
    } catch (e) {
      tools.push({ export: name, problem: failure(e).message });
    }
  }
  return JSON.stringify({ tools, others });
}

/** Calls a tool and gives its result as text. */
export async function call(namespace, request, signal) {
  const tool = exportsOf(namespace)[request.export];
  if (!isTool(tool)) throw new Error(`the module has no tool ${request.export} any more`);
  const args = await readArgs(tool.args ?? tool.parameters, request.args);
  return text(await tool.execute(args, context(request, signal)));
}

function context(request, signal) {
  const c = { ...request.context };
  const state = freeze(request.state);
  return Object.defineProperties(c, {
    abort: {
      enumerable: true,
      get() {
        request.listens = true;
        return signal;
      },
    },
    metadata: { value() {}, enumerable: false },
    ask: { value: async () => { throw new Error("a tool cannot ask here; mark it or the agent so that its call needs permission"); }, enumerable: false },
    workflowState: {
      enumerable: true,
      get() {
        if (request.stateError) throw new Error(request.stateError);
        return state;
      },
    },
  });
}

function freeze(v) {
  if (v === null || typeof v !== "object") return v;
  for (const key of Object.keys(v)) freeze(v[key]);
  return Object.freeze(v);
}

function text(result) {
  if (result === undefined) return "";
  if (typeof result === "string") return result;
  if (result !== null && typeof result === "object" && typeof result.output === "string") return result.output;
  let json;
  try {
    json = JSON.stringify(result);
  } catch (e) {
    throw new Error(`the result cannot be written as JSON (${failure(e).message}); give a string or plain data`);
  }
  return json ?? "";
}

/** What was thrown, as plain data, whatever it is. */
export function failure(e) {
  const read = (f) => {
    try {
      const s = f();
      return typeof s === "string" ? s.slice(0, 20000) : "";
    } catch {
      return "";
    }
  };
  if (e === null || (typeof e !== "object" && typeof e !== "function")) return { name: "", message: read(() => String(e)), stack: "" };
  const message = read(() => e.message) || read(() => JSON.stringify(e)) || "the tool threw something that says nothing";
  return { name: read(() => e.name), message, stack: read(() => e.stack) };
}
