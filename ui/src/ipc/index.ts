/**
 * The only connection from a page to the app. Components call state, state calls `ipc`. Nothing
 * else knows the app, so tests and the gallery can replace it by a fake.
 */
import { commands, type Ipc } from "./commands";

export { NO_SETTINGS, type Ipc, type Patch, type Unsubscribe } from "./commands";
export type * from "./bindings";

export let ipc: Ipc = commands;

/** Replaces the app before anything was called. */
export function useIpc(other: Ipc): void {
  ipc = other;
}
