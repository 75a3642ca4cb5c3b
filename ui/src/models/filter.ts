/**
 * Filters the catalog by text, by purpose, and by whether a model fits. Finds descriptions by their
 * English text and by their translation.
 */
import { modelDescription } from "../i18n";
import type { EntryView, TagView } from "../ipc";
import { bestFit } from "./labels";

export interface Filter {
  words: string;
  purpose: TagView | "all";
  onlyFits: boolean;
}

function has(entry: EntryView, words: string[]): boolean {
  const text = [entry.id, entry.name, entry.family, entry.description,
    modelDescription(entry.description).text, entry.license, ...entry.tags,
    ...entry.variants.map((variant) => variant.repository)].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Returns the visible matches, and the number of those that do not fit. */
export function filtered(entries: EntryView[], filter: Filter): { shown: EntryView[]; nTooLarge: number } {
  const words = filter.words.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = entries.filter((entry) =>
    has(entry, words) && (filter.purpose === "all" || entry.tags.includes(filter.purpose)));
  const fitting = matching.filter((entry) => bestFit(entry)?.fit !== "too_large");
  const shown = filter.onlyFits ? fitting : matching;
  return { shown, nTooLarge: matching.length - fitting.length };
}
