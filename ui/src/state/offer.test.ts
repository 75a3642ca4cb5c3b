/** The offer of another model: when the app is asked, and when it is not offered again. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { NO_SETTINGS, useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import * as defaults from "../ipc/fake/defaults";
import { app } from "./app.svelte";
import { OfferedModel } from "./offer.svelte";

const coder = { id: "qwen3-coder@4-bit", name: "Qwen3-Coder 30B-A3B · 4-bit" };

let ipc: FakeIpc;
let offer: OfferedModel;

beforeEach(() => {
  ipc = new FakeIpc();
  ipc.offered = coder;
  useIpc(ipc);
  app.settings = defaults.settings();
  offer = new OfferedModel();
});

afterEach(() => {
  app.settings = null;
});

const called = (name: string) => ipc.calls.filter((call) => call.name === name).map(({ values }) => values);
const shows = (what: object | null) => vi.waitFor(() => expect(offer.shown).toEqual(what));

it("asks the app once for each task, model and context, and never for plain chat", async () => {
  offer.update("chat", "general", NO_SETTINGS);
  offer.update("code", null, NO_SETTINGS);
  expect(called("modelOffer")).toEqual([]);
  offer.update("code", "general", NO_SETTINGS);
  offer.update("code", "general", { ...NO_SETTINGS, temperature: 1 });
  await shows(coder);
  expect(called("modelOffer")).toEqual([["code", "general", NO_SETTINGS]]);
  offer.update("code", "general", { ...NO_SETTINGS, context_length: 2048 });
  expect(offer.shown).toBeNull();
  await shows(coder);
  offer.update("chat", "general", NO_SETTINGS);
  expect(offer.shown).toBeNull();
});

it("does not show the reply to an earlier question", async () => {
  offer.update("code", "general", NO_SETTINGS);
  offer.update("chat", "general", NO_SETTINGS);
  await Promise.resolve();
  expect(offer.shown).toBeNull();
});

it("is not made again for a task for which it was not taken", async () => {
  offer.update("code", "general", NO_SETTINGS);
  await shows(coder);
  offer.decline();
  expect(offer.shown).toBeNull();
  expect(called("updateSettings")).toEqual([[{ declined_offers: ["code"] }]]);
  app.settings = { ...app.settings!, declined_offers: ["code"] };
  offer.update("code", "other", NO_SETTINGS);
  await Promise.resolve();
  expect(called("modelOffer")).toHaveLength(1);
  // Another task has an offer of its own.
  offer.update("translate", "other", NO_SETTINGS);
  await shows(coder);
  offer.decline();
  expect(called("updateSettings")[1]).toEqual([{ declined_offers: ["code", "translate"] }]);
  offer.decline();
  expect(called("updateSettings")).toHaveLength(2);
});

it("is made again, for another chat, if it was taken", async () => {
  offer.update("code", "general", NO_SETTINGS);
  await shows(coder);
  expect(offer.take()).toBe(coder.id);
  expect(offer.take()).toBeNull();
  offer.update("code", coder.id, NO_SETTINGS);
  await Promise.resolve();
  expect(offer.shown).toBeNull();
  offer.update("code", "general", NO_SETTINGS);
  await shows(coder);
  expect(called("updateSettings")).toEqual([]);
});
