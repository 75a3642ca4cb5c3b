/**
 * Formats numbers, sizes and times for the current language. Memory is in powers of two, like
 * everywhere in the product.
 */
import { language } from "./language.svelte";

const MB = 2 ** 20;
const GB = 2 ** 30;

const formats = new Map<string, Intl.NumberFormat>();

function numberFormat(options: Intl.NumberFormatOptions): Intl.NumberFormat {
  const name = language() + JSON.stringify(options);
  let format = formats.get(name);
  if (!format) {
    format = new Intl.NumberFormat(language(), options);
    formats.set(name, format);
  }
  return format;
}

/** `12,000`; at most `digits` decimals. */
export function number(value: number, digits = 0): string {
  return numberFormat({ maximumFractionDigits: digits }).format(value);
}

/** `0.70`: exactly `digits` decimals, for a value in a column or next to a slider. */
export function fixed(value: number, digits: number): string {
  return numberFormat({ minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
}

/** `40%`, from a fraction; at most `digits` decimals. */
export function percent(fraction: number, digits = 0): string {
  return numberFormat({ style: "percent", maximumFractionDigits: digits }).format(fraction);
}

/** `1.2 GB`, `640 MB`: memory and files. */
export function bytes(value: number): string {
  // 1023.6 MB would be rounded to 1024 MB.
  if (Math.round(value / MB) < 1024) return unit(value / MB, "megabyte", 0);
  return unit(value / GB, "gigabyte", 1);
}

/** `30 s`, `12 min`, `2 hr 5 min`: the two largest units, rounded. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 90) return unit(whole, "second", 0);
  const minutes = Math.round(whole / 60);
  if (minutes < 90) return unit(minutes, "minute", 0);
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return unit(hours, "hour", 0) + (rest === 0 ? "" : ` ${unit(rest, "minute", 0)}`);
}

/** `41 ms`, `2.8 s`, `3 min`: how long something took. */
export function milliseconds(value: number): string {
  if (value < 1000) return unit(value, "millisecond", 0);
  return value < 90_000 ? unit(value / 1000, "second", 1) : duration(value / 1000);
}

/** `26M`, `7.6B`: parameters, as in model names of every language. */
export function parameters(count: number): string {
  if (count < 1e9) return `${number(count / 1e6, count < 1e7 ? 1 : 0)}M`;
  return `${number(count / 1e9, 1)}B`;
}

function unit(value: number, name: string, digits: number): string {
  const options = { style: "unit", unit: name, unitDisplay: "short", maximumFractionDigits: digits } as const;
  return numberFormat(options).format(value);
}

/** A time of today, such as “9:41 AM”, or with its date on other days; `at` is in milliseconds since 1970. */
export function clock(at: number): string {
  const isToday = new Date(at).toDateString() === new Date().toDateString();
  const format = new Intl.DateTimeFormat(language(), { timeStyle: "short", dateStyle: isToday ? undefined : "short" });
  return format.format(at);
}

/** A date, such as “November 21, 2026”; `at` is in milliseconds since 1970. */
export function date(at: number): string {
  return new Intl.DateTimeFormat(language(), { dateStyle: "long" }).format(at);
}
