// Types of "@superstep/plugin", for editors. Tools run without this file.
declare module "@superstep/plugin" {
  /** What a tool may know of who calls it. */
  export interface ToolContext {
    /** The run. */
    readonly sessionID: string;
    /** The call. */
    readonly messageID: string;
    /** The agent that calls, "" if a node of a workflow does. */
    readonly agent: string;
    /** The folder of the project. Prefer it to process.cwd(). */
    readonly directory: string;
    /** The root of the working tree. */
    readonly worktree: string;
    /** Fires when the call is cancelled or its time is over. */
    readonly abort: AbortSignal;
    /** The same for a call that is tried again: give it to services that know such keys. */
    readonly key: string;
    /** The state of the workflow, frozen; undefined outside of one. */
    readonly workflowState: any;
    /** The node of the workflow, "" outside of one. */
    readonly nodeId: string;
    /** The execution of the workflow, the same as sessionID. */
    readonly executionId: string;
    metadata(input: { title?: string; metadata?: Record<string, unknown> }): void;
    ask(input: unknown): Promise<void>;
  }

  export type ToolResult = string | { output: string; title?: string; metadata?: Record<string, unknown> } | object | number | boolean | null | void;

  /** A schema of values of type T. With zod in the project, its schemas can be used instead. */
  export interface Schema<T = unknown> {
    readonly description: string | undefined;
    parse(value: unknown): T;
    safeParse(value: unknown): { success: true; data: T } | { success: false; error: SchemaError };
    parseAsync(value: unknown): Promise<T>;
    describe(text: string): this;
    optional(): Optional<T>;
    nullable(): Schema<T | null>;
    nullish(): Optional<T | null>;
    default(value: T | (() => T)): Schema<T>;
    catch(value: T | (() => T)): Schema<T>;
    array(): ArraySchema<T>;
    or<U>(other: Schema<U>): Schema<T | U>;
    and<U>(other: Schema<U>): Schema<T & U>;
    refine(test: (value: T) => unknown, message?: string | { message?: string }): this;
    transform<U>(change: (value: T) => U): Schema<U>;
    pipe<U>(next: Schema<U>): Schema<U>;
    toJSONSchema(): Record<string, unknown>;
  }
  export interface Optional<T> extends Schema<T | undefined> {
    readonly optionalKey: true;
  }
  export interface StringSchema extends Schema<string> {
    min(n: number, message?: string): this;
    max(n: number, message?: string): this;
    length(n: number, message?: string): this;
    nonempty(message?: string): this;
    regex(r: RegExp, message?: string): this;
    email(message?: string): this;
    url(message?: string): this;
    uuid(message?: string): this;
    date(message?: string): this;
    time(message?: string): this;
    datetime(message?: string): this;
    ip(message?: string): this;
    startsWith(s: string, message?: string): this;
    endsWith(s: string, message?: string): this;
    includes(s: string, message?: string): this;
    trim(): this;
    toLowerCase(): this;
    toUpperCase(): this;
  }
  export interface NumberSchema extends Schema<number> {
    int(): this;
    min(n: number, message?: string): this;
    max(n: number, message?: string): this;
    gt(n: number, message?: string): this;
    gte(n: number, message?: string): this;
    lt(n: number, message?: string): this;
    lte(n: number, message?: string): this;
    positive(message?: string): this;
    negative(message?: string): this;
    nonnegative(message?: string): this;
    nonpositive(message?: string): this;
    multipleOf(n: number, message?: string): this;
  }
  export interface ArraySchema<T> extends Schema<T[]> {
    readonly element: Schema<T>;
    min(n: number, message?: string): this;
    max(n: number, message?: string): this;
    length(n: number, message?: string): this;
    nonempty(message?: string): this;
  }
  export type Shape = Record<string, Schema<any>>;
  type Infer<S> = S extends Schema<infer T> ? T : never;
  type OptionalKeys<S extends Shape> = { [K in keyof S]: S[K] extends Optional<any> ? K : never }[keyof S];
  export type InferShape<S extends Shape> = { [K in Exclude<keyof S, OptionalKeys<S>>]: Infer<S[K]> } & { [K in OptionalKeys<S>]?: Infer<S[K]> };
  export interface ObjectSchema<S extends Shape> extends Schema<InferShape<S>> {
    readonly shape: S;
    strict(): this;
    passthrough(): this;
    loose(): this;
    strip(): this;
    catchall(schema: Schema<any>): this;
    extend<U extends Shape>(shape: U): ObjectSchema<S & U>;
    partial(): Schema<Partial<InferShape<S>>>;
  }
  export class SchemaError extends Error {
    issues: { path: (string | number)[]; message: string; code: string }[];
  }

  export const z: {
    string(): StringSchema;
    number(): NumberSchema;
    int(): NumberSchema;
    boolean(): Schema<boolean>;
    any(): Schema<any>;
    unknown(): Schema<unknown>;
    never(): Schema<never>;
    null(): Schema<null>;
    date(): Schema<Date>;
    literal<const T extends string | number | boolean | null>(value: T): Schema<T>;
    enum<const T extends readonly string[]>(values: T): Schema<T[number]>;
    nativeEnum<T extends Record<string, string | number>>(values: T): Schema<T[keyof T]>;
    array<T>(element: Schema<T>): ArraySchema<T>;
    tuple<const T extends readonly Schema<any>[]>(items: T): Schema<{ -readonly [K in keyof T]: Infer<T[K]> }>;
    object<S extends Shape>(shape: S): ObjectSchema<S>;
    strictObject<S extends Shape>(shape: S): ObjectSchema<S>;
    looseObject<S extends Shape>(shape: S): ObjectSchema<S>;
    record<T>(value: Schema<T>): Schema<Record<string, T>>;
    record<K extends string, T>(key: Schema<K>, value: Schema<T>): Schema<Record<K, T>>;
    union<const T extends readonly Schema<any>[]>(options: T): Schema<Infer<T[number]>>;
    discriminatedUnion<const T extends readonly Schema<any>[]>(key: string, options: T): Schema<Infer<T[number]>>;
    intersection<T, U>(left: Schema<T>, right: Schema<U>): Schema<T & U>;
    lazy<T>(make: () => Schema<T>): Schema<T>;
    optional<T>(schema: Schema<T>): Optional<T>;
    nullable<T>(schema: Schema<T>): Schema<T | null>;
    preprocess<T>(change: (value: unknown) => unknown, schema: Schema<T>): Schema<T>;
    custom<T>(test?: (value: unknown) => unknown, message?: string): Schema<T>;
    email(): StringSchema;
    url(): StringSchema;
    uuid(): StringSchema;
    iso: { date(): StringSchema; time(): StringSchema; datetime(): StringSchema };
    coerce: { string(): StringSchema; number(): NumberSchema; boolean(): Schema<boolean>; date(): Schema<Date> };
    toJSONSchema(schema: Schema<any>): Record<string, unknown>;
  };

  export interface ToolInput<A> {
    /** Tells the model what the tool does and when to use it. */
    description: string;
    /** The arguments: an object of schemas, a schema of an object, or JSON Schema. */
    args?: A;
    /** What the result must fit, as JSON. */
    output?: Schema<any> | Record<string, unknown>;
    /** What calling it twice does. Defaults to "once": it must not happen twice. */
    effect?: "pure" | "idempotent" | "once";
    /** How long a call may take: milliseconds, or such as "30s". Defaults to two minutes. */
    timeout?: number | string;
    /** The environment variables it needs to see, by name. */
    env?: string[];
    execute(args: A extends Shape ? InferShape<A> : A extends Schema<infer T> ? T : any, context: ToolContext): ToolResult | Promise<ToolResult>;
  }

  /** Gives back the definition as it is, with its types. Export the result. */
  export function tool<A extends Shape | Schema<any> | Record<string, unknown>>(input: ToolInput<A>): ToolInput<A>;
  export namespace tool {
    const schema: typeof z;
  }
  export default tool;
}

declare module "@atomic/plugin" {
  export * from "@superstep/plugin";
}
declare module "@bastani/atomic" {
  export * from "@superstep/plugin";
}
