// Stands in for zod where the project has none installed.
import { z } from "./superstep-plugin.mjs";

export { z };
export default z;
export const {
  string, number, int, boolean, any, unknown, never, date, literal, nativeEnum, array, tuple, object, strictObject,
  looseObject, record, union, discriminatedUnion, intersection, lazy, optional, nullable, nullish, preprocess, custom,
  email, url, uuid, iso, coerce, toJSONSchema, ZodError, ZodType,
} = z;
const { enum: _enum, null: _null, undefined: _undefined, void: _void } = z;
export { _enum as enum, _null as null, _undefined as undefined, _void as void };
