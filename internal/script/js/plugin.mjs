// What tools import: tool() and a builder of schemas that is used as zod is.

const put = (object, key, value) =>
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
const own = (object, key) => Object.prototype.hasOwnProperty.call(object, key);
const nameOf = (v) => (v === null ? "null" : Array.isArray(v) ? "array" : typeof v === "number" && Number.isNaN(v) ? "NaN" : typeof v);
const isObject = (v) => nameOf(v) === "object";

/** What parse throws. */
export class SchemaError extends Error {
  constructor(issues) {
    super(issues.map((i) => (i.path.length ? i.path.join(".") + ": " : "") + i.message).join("; "));
    this.name = "SchemaError";
    this.issues = issues;
  }
}

class Schema {
  constructor(def) {
    this.def = def;
  }

  get superstepSchema() {
    return true;
  }

  get description() {
    return this.def.description ?? this.def.inner?.description;
  }

  with(changes) {
    return new this.constructor({ ...this.def, ...changes });
  }

  check(test, message, json) {
    const checks = [...(this.def.checks ?? []), { test, message }];
    return this.with({ checks, json: { ...this.def.json, ...json } });
  }

  // change adds a step that makes another value of it.
  change(step) {
    return this.with({ checks: [...(this.def.checks ?? []), { step }] });
  }

  /** Reads a value; what is wrong with it goes to issues. */
  read(value, path, issues) {
    const before = issues.length;
    let out = this.accept(value, path, issues);
    for (const c of this.def.checks ?? []) {
      if (issues.length > before) return undefined;
      if (c.step) out = c.step(out);
      else if (!c.test(out)) issues.push({ path, message: typeof c.message === "function" ? c.message(out) : c.message, code: "custom" });
    }
    return out;
  }

  wrong(value, path, issues, want) {
    const got = value === undefined ? "missing" : `is ${nameOf(value)}`;
    issues.push({ path, message: `${got}, want ${want}`, code: "invalid_type", expected: want, received: nameOf(value) });
  }

  safeParse(value) {
    const issues = [];
    const data = this.read(value, [], issues);
    return issues.length ? { success: false, error: new SchemaError(issues) } : { success: true, data };
  }

  parse(value) {
    const r = this.safeParse(value);
    if (!r.success) throw r.error;
    return r.data;
  }

  async parseAsync(value) {
    return this.parse(value);
  }

  async safeParseAsync(value) {
    return this.safeParse(value);
  }

  describe(description) {
    return this.with({ description });
  }

  meta(meta) {
    return meta === undefined ? { description: this.description } : this.with({ description: meta.description ?? this.def.description, json: { ...this.def.json, ...(meta.title && { title: meta.title }) } });
  }

  optional() {
    return new Wrapped({ kind: "optional", inner: this });
  }

  nullable() {
    return new Wrapped({ kind: "nullable", inner: this });
  }

  nullish() {
    return this.nullable().optional();
  }

  default(value) {
    return new Wrapped({ kind: "default", inner: this, value });
  }

  catch(value) {
    return new Wrapped({ kind: "catch", inner: this, value });
  }

  prefault(value) {
    return new Wrapped({ kind: "default", inner: this, value });
  }

  array() {
    return new ArraySchema({ element: this });
  }

  or(other) {
    return new Union({ options: [this, other] });
  }

  and(other) {
    return new Both({ left: this, right: other });
  }

  refine(test, message) {
    const text = typeof message === "string" ? message : message?.message ?? message?.error ?? "does not fit";
    return this.check((v) => {
      const r = test(v);
      if (r instanceof Promise) throw new Error("asynchronous refinements need zod; install it in the project");
      return r;
    }, text);
  }

  superRefine(test) {
    return new Wrapped({ kind: "refined", inner: this, test });
  }

  transform(change) {
    return new Wrapped({ kind: "transformed", inner: this, change });
  }

  pipe(next) {
    return new Wrapped({ kind: "piped", inner: this, next });
  }

  brand() {
    return this;
  }

  readonly() {
    return this;
  }

  isOptional() {
    return false;
  }

  isNullable() {
    return this.safeParse(null).success;
  }

  /** The JSON Schema of what it accepts. */
  toJSONSchema() {
    const json = { ...this.json(), ...this.def.json };
    if (this.def.description !== undefined) json.description = this.def.description;
    return json;
  }
}

const fallback = (v) => (typeof v === "function" ? v() : v);

class Wrapped extends Schema {
  accept(value, path, issues) {
    const { kind, inner } = this.def;
    if (kind === "optional" && value === undefined) return undefined;
    if (kind === "nullable" && value === null) return null;
    if (kind === "default" && value === undefined) return fallback(this.def.value);
    if (kind === "before") value = this.def.change(value);
    const mine = [];
    const out = inner.read(value, path, mine);
    if (kind === "catch" && mine.length) return fallback(this.def.value);
    issues.push(...mine);
    if (mine.length) return undefined;
    const context = {
      path,
      addIssue: (i) => issues.push(typeof i === "string" ? { path, message: i, code: "custom" } : { ...i, path: [...path, ...(i.path ?? [])], message: i.message ?? "does not fit" }),
    };
    if (kind === "refined") this.def.test(out, context);
    if (kind === "transformed") return this.def.change(out, context);
    if (kind === "piped") return this.def.next.read(out, path, issues);
    return out;
  }

  isOptional() {
    return this.def.kind === "optional" || this.def.kind === "default" || this.def.kind === "catch" || this.def.inner.isOptional();
  }

  unwrap() {
    return this.def.inner;
  }

  get shape() {
    return this.def.inner.shape;
  }

  json() {
    const { kind, inner } = this.def;
    const json = inner.toJSONSchema();
    if (kind === "nullable") {
      return typeof json.type === "string" && !json.enum && !("const" in json) ? { ...json, type: [json.type, "null"] } : { anyOf: [json, { type: "null" }] };
    }
    if (kind === "default") {
      const value = fallback(this.def.value);
      return value === undefined ? json : { ...json, default: value };
    }
    return json;
  }
}

const word = (message, text) => (typeof message === "string" ? message : message?.message ?? message?.error ?? text);
const emailLike = /^[^\s@"(),:;<>[\]\\]+@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+$/;
const uuidLike = /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/;
const urlLike = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^\s/?#]+[^\s]*$/;
const dateLike = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;
const timeLike = /^(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?$/;
const datetimeLike = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})$/;
const ipv4Like = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
const characters = (s) => [...s].length;

class StringSchema extends Schema {
  accept(value, path, issues) {
    if (this.def.coerce) value = String(value);
    if (typeof value !== "string") return this.wrong(value, path, issues, "string");
    return value;
  }
  json() {
    return { type: "string" };
  }
  min(n, m) {
    return this.check((s) => characters(s) >= n, word(m, `is shorter than ${n} characters`), { minLength: n });
  }
  max(n, m) {
    return this.check((s) => characters(s) <= n, word(m, `is longer than ${n} characters`), { maxLength: n });
  }
  length(n, m) {
    return this.min(n, m).max(n, m);
  }
  nonempty(m) {
    return this.min(1, m);
  }
  regex(r, m) {
    return this.check((s) => new RegExp(r.source, r.flags.replace(/[gy]/g, "")).test(s), word(m, `does not match ${r}`), r.flags ? {} : { pattern: r.source });
  }
  startsWith(p, m) {
    return this.check((s) => s.startsWith(p), word(m, `does not start with ${JSON.stringify(p)}`));
  }
  endsWith(p, m) {
    return this.check((s) => s.endsWith(p), word(m, `does not end with ${JSON.stringify(p)}`));
  }
  includes(p, m) {
    return this.check((s) => s.includes(p), word(m, `does not contain ${JSON.stringify(p)}`));
  }
  format(test, format, m) {
    return this.check((s) => test.test(s), word(m, `is no ${format}`), { format });
  }
  email(m) {
    return this.format(emailLike, "email", m);
  }
  url(m) {
    return this.check((s) => urlLike.test(s), word(m, "is no URL"), { format: "uri" });
  }
  uuid(m) {
    return this.format(uuidLike, "uuid", m);
  }
  date(m) {
    return this.format(dateLike, "date", m);
  }
  time(m) {
    return this.format(timeLike, "time", m);
  }
  datetime(m) {
    return this.format(datetimeLike, "date-time", m);
  }
  ip(m) {
    return this.format(ipv4Like, "ipv4", m);
  }
  trim() {
    return this.change((s) => s.trim());
  }
  toLowerCase() {
    return this.change((s) => s.toLowerCase());
  }
  toUpperCase() {
    return this.change((s) => s.toUpperCase());
  }
}

class NumberSchema extends Schema {
  accept(value, path, issues) {
    if (this.def.coerce) value = Number(value);
    if (typeof value !== "number" || !Number.isFinite(value)) return this.wrong(value, path, issues, this.def.int ? "integer" : "number");
    if (this.def.int && !Number.isInteger(value)) {
      issues.push({ path, message: `is ${value}, want integer`, code: "invalid_type" });
      return undefined;
    }
    return value;
  }
  json() {
    return { type: this.def.int ? "integer" : "number" };
  }
  int() {
    return this.with({ int: true });
  }
  min(n, m) {
    return this.check((v) => v >= n, word(m, `is less than ${n}`), { minimum: n });
  }
  max(n, m) {
    return this.check((v) => v <= n, word(m, `is more than ${n}`), { maximum: n });
  }
  gte(n, m) {
    return this.min(n, m);
  }
  lte(n, m) {
    return this.max(n, m);
  }
  gt(n, m) {
    return this.check((v) => v > n, word(m, `is not more than ${n}`), { exclusiveMinimum: n });
  }
  lt(n, m) {
    return this.check((v) => v < n, word(m, `is not less than ${n}`), { exclusiveMaximum: n });
  }
  positive(m) {
    return this.gt(0, m);
  }
  negative(m) {
    return this.lt(0, m);
  }
  nonnegative(m) {
    return this.min(0, m);
  }
  nonpositive(m) {
    return this.max(0, m);
  }
  multipleOf(n, m) {
    return this.check((v) => Math.abs(v / n - Math.round(v / n)) < 1e-9, word(m, `is no multiple of ${n}`), { multipleOf: n });
  }
  step(n, m) {
    return this.multipleOf(n, m);
  }
  finite() {
    return this;
  }
  safe() {
    return this.min(Number.MIN_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER);
  }
}

class BooleanSchema extends Schema {
  accept(value, path, issues) {
    if (this.def.coerce) return Boolean(value);
    if (typeof value !== "boolean") return this.wrong(value, path, issues, "boolean");
    return value;
  }
  json() {
    return { type: "boolean" };
  }
}

class AnySchema extends Schema {
  accept(value) {
    return value;
  }
  json() {
    return {};
  }
}

// Exactly these values.
class Values extends Schema {
  accept(value, path, issues) {
    if (this.def.values.includes(value)) return value;
    issues.push({ path, message: `${value === undefined ? "missing" : "is " + shown(value)}, want ${this.def.values.map(shown).join(", ")}`, code: "invalid_value" });
    return undefined;
  }
  isOptional() {
    return this.def.values.includes(undefined);
  }
  get options() {
    return this.def.values;
  }
  get enum() {
    return this.def.entries ?? Object.fromEntries(this.def.values.map((v) => [v, v]));
  }
  get value() {
    return this.def.values[0];
  }
  extract(values) {
    return new Values({ values: this.def.values.filter((v) => values.includes(v)) });
  }
  exclude(values) {
    return new Values({ values: this.def.values.filter((v) => !values.includes(v)) });
  }
  json() {
    const values = this.def.values.filter((v) => v !== undefined);
    const types = [...new Set(values.map((v) => (v === null ? "null" : typeof v)))];
    return { ...(types.length === 1 && { type: types[0] }), ...(values.length === 1 && !this.def.enum ? { const: values[0] } : { enum: values }) };
  }
}

const shown = (v) => {
  const s = JSON.stringify(v) ?? String(v);
  return s.length > 60 ? s.slice(0, 60) + "…" : s;
};

class Never extends Schema {
  accept(value, path, issues) {
    return this.wrong(value, path, issues, "nothing");
  }
  json() {
    return { not: {} };
  }
}

class DateSchema extends Schema {
  accept(value, path, issues) {
    const date = value instanceof Date ? value : new Date(value);
    if (Number.isNaN(date.getTime()) || (typeof value !== "string" && !(value instanceof Date))) return this.wrong(value, path, issues, "date");
    return date;
  }
  json() {
    return { type: "string", format: "date-time" };
  }
}

class ArraySchema extends Schema {
  accept(value, path, issues) {
    if (!Array.isArray(value)) return this.wrong(value, path, issues, "array");
    return value.map((v, i) => this.def.element.read(v, [...path, i], issues));
  }
  get element() {
    return this.def.element;
  }
  json() {
    return { type: "array", items: this.def.element.toJSONSchema() };
  }
  min(n, m) {
    return this.check((a) => a.length >= n, word(m, `has fewer than ${n} items`), { minItems: n });
  }
  max(n, m) {
    return this.check((a) => a.length <= n, word(m, `has more than ${n} items`), { maxItems: n });
  }
  length(n, m) {
    return this.min(n, m).max(n, m);
  }
  nonempty(m) {
    return this.min(1, m);
  }
}

class Tuple extends Schema {
  accept(value, path, issues) {
    const { items, rest } = this.def;
    if (!Array.isArray(value)) return this.wrong(value, path, issues, "array");
    if (value.length < items.length || (!rest && value.length > items.length)) {
      issues.push({ path, message: `has ${value.length} items, want ${items.length}`, code: "invalid_type" });
      return undefined;
    }
    return value.map((v, i) => (items[i] ?? rest).read(v, [...path, i], issues));
  }
  rest(schema) {
    return this.with({ rest: schema });
  }
  json() {
    const { items, rest } = this.def;
    return { type: "array", prefixItems: items.map((s) => s.toJSONSchema()), minItems: items.length, ...(rest ? { items: rest.toJSONSchema() } : { maxItems: items.length }) };
  }
}

class ObjectSchema extends Schema {
  accept(value, path, issues) {
    if (!isObject(value)) return this.wrong(value, path, issues, "object");
    const { shape, rest } = this.def;
    const out = {};
    for (const key of Object.keys(shape)) {
      const given = own(value, key);
      if (!given && shape[key].isOptional() && shape[key].safeParse(undefined).data === undefined) continue;
      put(out, key, shape[key].read(given ? value[key] : undefined, [...path, key], issues));
    }
    for (const key of Object.keys(value)) {
      if (own(shape, key)) continue;
      if (rest === "strict") issues.push({ path: [...path, key], message: "is unknown", code: "unrecognized_keys" });
      else if (rest === "loose") put(out, key, value[key]);
      else if (rest instanceof Schema) put(out, key, rest.read(value[key], [...path, key], issues));
    }
    return out;
  }
  get shape() {
    return this.def.shape;
  }
  json() {
    const { shape, rest } = this.def;
    const properties = {};
    const required = [];
    for (const key of Object.keys(shape)) {
      put(properties, key, shape[key].toJSONSchema());
      if (!shape[key].isOptional()) required.push(key);
    }
    const json = { type: "object", properties };
    if (required.length) json.required = required;
    if (rest === "strict" || rest === undefined) json.additionalProperties = false;
    else if (rest instanceof Schema) json.additionalProperties = rest.toJSONSchema();
    return json;
  }
  strict() {
    return this.with({ rest: "strict" });
  }
  strip() {
    return this.with({ rest: undefined });
  }
  passthrough() {
    return this.with({ rest: "loose" });
  }
  loose() {
    return this.passthrough();
  }
  catchall(schema) {
    return this.with({ rest: schema });
  }
  extend(shape) {
    return this.with({ shape: { ...this.def.shape, ...shape } });
  }
  safeExtend(shape) {
    return this.extend(shape);
  }
  merge(other) {
    return this.extend(other.shape);
  }
  pick(keys) {
    return this.only((k) => keys[k]);
  }
  omit(keys) {
    return this.only((k) => !keys[k]);
  }
  only(keep) {
    return this.with({ shape: Object.fromEntries(Object.entries(this.def.shape).filter(([k]) => keep(k))) });
  }
  partial(keys) {
    return this.each((k, s) => (!keys || keys[k] ? s.optional() : s));
  }
  required(keys) {
    return this.each((k, s) => ((!keys || keys[k]) && s instanceof Wrapped && s.def.kind === "optional" ? s.unwrap() : s));
  }
  each(change) {
    return this.with({ shape: Object.fromEntries(Object.entries(this.def.shape).map(([k, s]) => [k, change(k, s)])) });
  }
  keyof() {
    return new Values({ values: Object.keys(this.def.shape), enum: true });
  }
}

class RecordSchema extends Schema {
  accept(value, path, issues) {
    if (!isObject(value)) return this.wrong(value, path, issues, "object");
    const out = {};
    for (const key of Object.keys(value)) {
      this.def.key.read(key, [...path, key], issues);
      put(out, key, this.def.value.read(value[key], [...path, key], issues));
    }
    return out;
  }
  json() {
    const key = this.def.key.toJSONSchema();
    return { type: "object", ...(Object.keys(key).length > 1 && { propertyNames: key }), additionalProperties: this.def.value.toJSONSchema() };
  }
}

class Union extends Schema {
  accept(value, path, issues) {
    const all = [];
    for (const option of this.def.options) {
      const mine = [];
      const out = option.read(value, path, mine);
      if (!mine.length) return out;
      all.push(mine);
    }
    // The option that comes closest is told of: the one whose mistakes lie deepest.
    const depth = (list) => Math.max(...list.map((i) => i.path.length));
    const best = all.reduce((a, b) => (depth(b) > depth(a) ? b : a));
    if (depth(best) > path.length) issues.push(...best);
    else issues.push({ path, message: `${value === undefined ? "missing" : "is " + shown(value)}, which fits none of ${all.length} kinds`, code: "invalid_union" });
    return undefined;
  }
  isOptional() {
    return this.def.options.some((o) => o.isOptional());
  }
  get options() {
    return this.def.options;
  }
  json() {
    return { anyOf: this.def.options.map((o) => o.toJSONSchema()) };
  }
}

class Both extends Schema {
  accept(value, path, issues) {
    const left = this.def.left.read(value, path, issues);
    const right = this.def.right.read(value, path, issues);
    return isObject(left) && isObject(right) ? { ...left, ...right } : right;
  }
  json() {
    const loose = (s) => {
      const json = s.toJSONSchema();
      if (json.additionalProperties === false) delete json.additionalProperties;
      return json;
    };
    return { allOf: [loose(this.def.left), loose(this.def.right)] };
  }
}

class Lazy extends Schema {
  accept(value, path, issues) {
    return this.def.make().read(value, path, issues);
  }
  // What refers to itself is not spelled out to the model, only checked.
  json() {
    return {};
  }
}

const entriesOf = (values) => {
  if (Array.isArray(values)) return { values: [...values], enum: true };
  const names = Object.keys(values).filter((k) => typeof values[values[k]] !== "number"); // without the way back of numeric enums
  return { values: names.map((k) => values[k]), entries: values, enum: true };
};

const builders = {
  string: () => new StringSchema({}),
  number: () => new NumberSchema({}),
  int: () => new NumberSchema({ int: true }),
  boolean: () => new BooleanSchema({}),
  any: () => new AnySchema({}),
  unknown: () => new AnySchema({}),
  never: () => new Never({}),
  null: () => new Values({ values: [null] }),
  undefined: () => new Values({ values: [undefined] }),
  void: () => new Values({ values: [undefined] }),
  date: () => new DateSchema({}),
  literal: (v) => new Values({ values: Array.isArray(v) ? v : [v] }),
  enum: (values) => new Values(entriesOf(values)),
  nativeEnum: (values) => new Values(entriesOf(values)),
  array: (element) => new ArraySchema({ element }),
  tuple: (items, rest) => new Tuple({ items, rest }),
  object: (shape = {}) => new ObjectSchema({ shape }),
  strictObject: (shape) => new ObjectSchema({ shape, rest: "strict" }),
  looseObject: (shape) => new ObjectSchema({ shape, rest: "loose" }),
  record: (key, value) => (value ? new RecordSchema({ key, value }) : new RecordSchema({ key: new StringSchema({}), value: key })),
  union: (options) => new Union({ options }),
  discriminatedUnion: (_, options) => new Union({ options }),
  intersection: (left, right) => new Both({ left, right }),
  lazy: (make) => new Lazy({ make }),
  optional: (s) => s.optional(),
  nullable: (s) => s.nullable(),
  nullish: (s) => s.nullish(),
  preprocess: (change, inner) => new Wrapped({ kind: "before", change, inner }),
  custom: (test, message) => (test ? new AnySchema({}).refine(test, message) : new AnySchema({})),
  email: (m) => new StringSchema({}).email(m),
  url: (m) => new StringSchema({}).url(m),
  uuid: (m) => new StringSchema({}).uuid(m),
  iso: {
    date: (m) => new StringSchema({}).date(m),
    time: (m) => new StringSchema({}).time(m),
    datetime: (m) => new StringSchema({}).datetime(m),
  },
  coerce: {
    string: () => new StringSchema({ coerce: true }),
    number: () => new NumberSchema({ coerce: true }),
    boolean: () => new BooleanSchema({ coerce: true }),
    date: () => new DateSchema({}),
  },
  toJSONSchema: (s) => s.toJSONSchema(),
  ZodError: SchemaError,
  ZodType: Schema,
};

/** The builder: z.string(), z.object({…}), as in zod. */
export const z = new Proxy(builders, {
  get(target, name) {
    if (own(target, name)) return target[name];
    if (typeof name === "symbol" || name === "then" || name === "toJSON" || name === "default" || name === "__esModule") return undefined;
    throw new TypeError(`the built-in schemas have no z.${name}; install zod in the project and import it`);
  },
});

/** Gives back the definition of a tool as it is. */
export function tool(definition) {
  return definition;
}
tool.schema = z;

export default tool;
