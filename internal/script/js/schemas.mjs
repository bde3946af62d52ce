// Turns the schemas tools are written with (ours, zod's of version 3 and 4, and plain JSON
// Schema) into JSON Schema, and reads arguments by them.

const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
const ours = (s) => s?.superstepSchema === true;
const zod4 = (s) => isObject(s?._zod) && isObject(s._zod.def);
const zod3 = (s) => typeof s?._def?.typeName === "string" && typeof s.safeParse === "function";
const standard = (s) => typeof s?.["~standard"]?.jsonSchema?.input === "function";
const isSchema = (s) => s !== null && (typeof s === "object" || typeof s === "function") && (ours(s) || zod4(s) || zod3(s) || standard(s));
const isPlain = (s) => isObject(s) && !isSchema(s) && ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"].some((k) => Object.hasOwn(s, k));

const put = (object, key, value) =>
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });

const maxDepth = 64;

/** The JSON Schema of the arguments of a tool. */
export function inputSchema(args) {
  if (args === undefined || args === null) return { type: "object", properties: {}, additionalProperties: false };
  if (isSchema(args)) {
    const json = toJSON(args, 0);
    if (json.type === "object" && json.additionalProperties === undefined && json.properties) json.additionalProperties = false;
    return json;
  }
  if (!isObject(args)) throw new TypeError("args is neither an object of schemas, a schema nor JSON Schema");
  if (args.type === "object" && !Object.values(args).every((v) => isSchema(v))) return args;
  const json = { type: "object", properties: {}, additionalProperties: false };
  const required = [];
  for (const key of Object.keys(args)) {
    const s = args[key];
    if (isSchema(s)) {
      put(json.properties, key, toJSON(s, 1));
      if (!optional(s)) required.push(key);
    } else if (isPlain(s)) {
      put(json.properties, key, s);
      required.push(key);
    } else throw new TypeError(`args.${key} is neither a schema nor JSON Schema`);
  }
  if (required.length) json.required = required;
  return json;
}

/** The JSON Schema of any schema, or undefined. */
export function outputSchema(s) {
  if (s === undefined || s === null) return undefined;
  if (isSchema(s)) return toJSON(s, 0);
  if (isObject(s)) return s;
  throw new TypeError("output is neither a schema nor JSON Schema");
}

/** Arguments as the tool's own schemas read them: with their defaults and transformations. */
export async function readArgs(args, values) {
  if (isSchema(args)) return parse(args, values, []);
  if (!isObject(args) || (args.type === "object" && !Object.values(args).every((v) => isSchema(v)))) return values;
  const out = {};
  for (const key of Object.keys(values)) if (!Object.hasOwn(args, key)) put(out, key, values[key]);
  const wrong = [];
  for (const key of Object.keys(args)) {
    const given = Object.hasOwn(values, key);
    if (!isSchema(args[key])) {
      if (given) put(out, key, values[key]);
      continue;
    }
    try {
      const v = await parse(args[key], given ? values[key] : undefined, [key]);
      if (given || v !== undefined) put(out, key, v);
    } catch (e) {
      wrong.push(e.message);
    }
  }
  if (wrong.length) throw new Error("arguments do not fit the tool: " + wrong.join("; "));
  return out;
}

async function parse(schema, value, path) {
  if (typeof schema.safeParseAsync !== "function") {
    const r = await schema["~standard"].validate(value);
    if (r.issues) throw new Error(issues(r.issues, path));
    return r.value;
  }
  const r = await schema.safeParseAsync(value);
  if (!r.success) throw new Error(issues(r.error?.issues ?? [], path) || String(r.error?.message));
  return r.data;
}

const issues = (list, path) =>
  list.slice(0, 20).map((i) => {
    const at = [...path, ...(i.path ?? []).map((p) => (isObject(p) ? p.key : p))].map(String).join(".");
    return (at ? at + ": " : "") + i.message;
  }).join("; ");

function optional(s) {
  if (ours(s)) return s.isOptional();
  if (zod4(s)) return Boolean(s._zod.optin) && s._zod.optin !== "required"; // "optional", or "defaulted"
  if (zod3(s)) return s.isOptional();
  return false;
}

function toJSON(s, depth) {
  if (depth > maxDepth) throw new RangeError(`the schema is nested more than ${maxDepth} deep or refers to itself; write it as JSON Schema with $defs`);
  if (ours(s)) return s.toJSONSchema();
  if (standard(s)) {
    const { $schema, ...json } = s["~standard"].jsonSchema.input({ target: "draft-2020-12", libraryOptions: { unrepresentable: "any" } });
    return json;
  }
  const json = zod4(s) ? fromZod4(s, depth + 1) : fromZod3(s, depth + 1);
  const description = s.description ?? s._def?.description;
  return description === undefined ? json : { ...json, description };
}

const property = (shape, depth) => {
  const json = { type: "object", properties: {} };
  const required = [];
  for (const key of Object.keys(shape)) {
    put(json.properties, key, toJSON(shape[key], depth));
    if (!optional(shape[key])) required.push(key);
  }
  if (required.length) json.required = required;
  return json;
};

const values = (list) => {
  list = list.filter((v) => v !== undefined && typeof v !== "bigint");
  const types = [...new Set(list.map((v) => (v === null ? "null" : typeof v)))];
  return { ...(types.length === 1 && { type: types[0] }), ...(list.length === 1 ? { const: list[0] } : { enum: list }) };
};

const nullable = (json) => ({ anyOf: [json, { type: "null" }] });
const named = (entries) => Object.keys(entries).filter((k) => typeof entries[entries[k]] !== "number").map((k) => entries[k]);

const formats = { email: "email", url: "uri", uuid: "uuid", guid: "uuid", datetime: "date-time", date: "date", time: "time", ipv4: "ipv4", ipv6: "ipv6" };

// bounds adds what the checks of zod 4 say that JSON Schema knows.
function bounds(json, checks) {
  const [least, most] = json.type === "array" ? ["minItems", "maxItems"] : ["minLength", "maxLength"];
  for (const c of checks) {
    if (c.check === "min_length" || c.check === "length_equals") json[least] = c.minimum ?? c.length;
    if (c.check === "max_length" || c.check === "length_equals") json[most] = c.maximum ?? c.length;
    if (c.check === "greater_than") json[c.inclusive ? "minimum" : "exclusiveMinimum"] = c.value;
    if (c.check === "less_than") json[c.inclusive ? "maximum" : "exclusiveMaximum"] = c.value;
    if (c.check === "multiple_of") json.multipleOf = c.value;
    if (c.check === "string_format" && formats[c.format]) json.format = formats[c.format];
    if (c.check === "string_format" && c.format === "regex" && !c.pattern.flags) json.pattern = c.pattern.source;
  }
  return json;
}

function fromZod4(s, depth) {
  const def = s._zod.def;
  const checks = [def, ...(def.checks ?? []).map((c) => c._zod?.def ?? {})];
  const inner = () => toJSON(def.innerType, depth);
  switch (def.type) {
    case "string":
      return bounds({ type: "string" }, checks);
    case "number":
    case "int": {
      const int = def.type === "int" || checks.some((c) => /int/.test(c.format ?? ""));
      return bounds({ type: int ? "integer" : "number" }, checks);
    }
    case "boolean":
      return { type: "boolean" };
    case "null":
      return { type: "null" };
    case "never":
      return { not: {} };
    case "literal":
      return values([...def.values]);
    case "enum":
      return { ...values(named(def.entries)) };
    case "array":
      return bounds({ type: "array", items: toJSON(def.element, depth) }, checks);
    case "tuple": {
      const items = def.items.map((i) => toJSON(i, depth));
      return { type: "array", prefixItems: items, minItems: items.length, ...(def.rest ? { items: toJSON(def.rest, depth) } : { maxItems: items.length }) };
    }
    case "object": {
      const json = property(def.shape, depth);
      if (def.catchall) {
        if (def.catchall._zod.def.type === "never") json.additionalProperties = false;
        else json.additionalProperties = toJSON(def.catchall, depth);
      }
      return json;
    }
    case "record":
      return { type: "object", additionalProperties: toJSON(def.valueType, depth) };
    case "union":
      return { anyOf: def.options.map((o) => toJSON(o, depth)) };
    case "intersection":
      return { allOf: [toJSON(def.left, depth), toJSON(def.right, depth)] };
    case "nullable":
      return nullable(inner());
    case "default":
      return { ...inner(), default: def.defaultValue };
    case "optional":
    case "nonoptional":
    case "prefault":
    case "catch":
    case "readonly":
      return inner();
    case "pipe":
      return toJSON(def.in._zod.def.type === "transform" ? def.out : def.in, depth);
    case "lazy":
      return toJSON(def.getter(), depth);
    case "template_literal":
      return { type: "string" };
    case "any":
    case "unknown":
    case "transform":
    case "custom":
    case "undefined":
    case "void":
      return {};
  }
  throw new TypeError(`a schema of zod's kind ${def.type} cannot be told to a model; use another`);
}

function fromZod3(s, depth) {
  const def = s._def;
  const inner = () => toJSON(def.innerType, depth);
  const json = {};
  switch (def.typeName) {
    case "ZodString":
      json.type = "string";
      for (const c of def.checks ?? []) {
        if (c.kind === "min" || c.kind === "length") json.minLength = c.value;
        if (c.kind === "max" || c.kind === "length") json.maxLength = c.value;
        if (c.kind === "regex" && !c.regex.flags) json.pattern = c.regex.source;
        if (formats[c.kind]) json.format = formats[c.kind];
      }
      return json;
    case "ZodNumber":
      json.type = "number";
      for (const c of def.checks ?? []) {
        if (c.kind === "int") json.type = "integer";
        if (c.kind === "min") json[c.inclusive ? "minimum" : "exclusiveMinimum"] = c.value;
        if (c.kind === "max") json[c.inclusive ? "maximum" : "exclusiveMaximum"] = c.value;
        if (c.kind === "multipleOf") json.multipleOf = c.value;
      }
      return json;
    case "ZodBoolean":
      return { type: "boolean" };
    case "ZodNull":
      return { type: "null" };
    case "ZodNever":
      return { not: {} };
    case "ZodLiteral":
      return values([def.value]);
    case "ZodEnum":
      return values(def.values);
    case "ZodNativeEnum":
      return values(named(def.values));
    case "ZodArray":
      json.type = "array";
      json.items = toJSON(def.type, depth);
      if (def.exactLength ?? def.minLength) json.minItems = (def.exactLength ?? def.minLength).value;
      if (def.exactLength ?? def.maxLength) json.maxItems = (def.exactLength ?? def.maxLength).value;
      return json;
    case "ZodTuple": {
      const items = def.items.map((i) => toJSON(i, depth));
      return { type: "array", prefixItems: items, minItems: items.length, ...(def.rest ? { items: toJSON(def.rest, depth) } : { maxItems: items.length }) };
    }
    case "ZodObject": {
      const object = property(def.shape(), depth);
      if (def.unknownKeys === "strict") object.additionalProperties = false;
      else if (def.catchall && def.catchall._def.typeName !== "ZodNever") object.additionalProperties = toJSON(def.catchall, depth);
      else if (def.unknownKeys === "passthrough") object.additionalProperties = true;
      return object;
    }
    case "ZodRecord":
      return { type: "object", additionalProperties: toJSON(def.valueType, depth) };
    case "ZodUnion":
    case "ZodDiscriminatedUnion":
      return { anyOf: [...(def.options.values?.() ?? def.options)].map((o) => toJSON(o, depth)) };
    case "ZodIntersection":
      return { allOf: [toJSON(def.left, depth), toJSON(def.right, depth)] };
    case "ZodNullable":
      return nullable(inner());
    case "ZodDefault":
      return { ...inner(), default: def.defaultValue() };
    case "ZodOptional":
    case "ZodCatch":
    case "ZodReadonly":
      return inner();
    case "ZodBranded":
      return toJSON(def.type, depth);
    case "ZodEffects":
      return toJSON(def.schema, depth);
    case "ZodPipeline":
      return toJSON(def.in, depth);
    case "ZodLazy":
      return toJSON(def.getter(), depth);
    case "ZodDate":
    case "ZodAny":
    case "ZodUnknown":
    case "ZodUndefined":
    case "ZodVoid":
      return {};
  }
  throw new TypeError(`a schema of zod's kind ${def.typeName} cannot be told to a model; use another`);
}
