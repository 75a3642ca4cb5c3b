/**
 * The one way from a page to the app. Components call state, state calls `ipc`; nothing else knows
 * that there is an app behind it, so tests and the gallery put a fake one in its place.
 */
import type { Ipc } from "./api";
import { commands } from "./commands";

export type { Ipc, Patch, Unsubscribe } from "./api";
export type * from "./bindings";

export let ipc: Ipc = commands;

/** Puts another one in its place, before anything was called. */
export function useIpc(other: Ipc): void {
  ipc = other;
}
