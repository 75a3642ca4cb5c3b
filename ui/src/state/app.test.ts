/** The state of a page, while the app changes it and replies come late. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import * as defaults from "../ipc/fake/defaults";
import { Live } from "../settings/live.svelte";
import { app, refreshModels, startApp } from "./app.svelte";
import { loadDownloads, modelSource } from "./model-source.svelte";

let ipc: FakeIpc;
let stop = () => {};

beforeEach(() => {
  ipc = new FakeIpc();
  useIpc(ipc);
});

afterEach(() => {
  stop();
  app.settings = app.status = null;
  app.models = [];
  modelSource.downloads = [];
});

/** Replies to the next call of a command only when the result is called. */
function delay(name: "settings" | "updateSettings" | "models" | "downloads" | "listening"): () => void {
  let send = () => {};
  const wait = new Promise<void>((resolve) => (send = resolve));
  const run = ipc[name] as (...values: never[]) => Promise<unknown>;
  Object.assign(ipc, {
    [name]: async (...values: never[]) => {
      Object.assign(ipc, { [name]: run });
      const reply = await run.apply(ipc, values);
      await wait;
      return reply;
    },
  });
  return send;
}

const assistants = (name: string) => [{ ...defaults.settings().assistants[0]!, name }];

it("has the settings of a change that was made while it was loading", async () => {
  const reply = delay("settings");
  const started = startApp();
  await vi.waitFor(() => expect(ipc.calls.map(({ name }) => name)).toContain("settings"));
  ipc.setSettings({ assistants: assistants("New") });
  reply();
  stop = await started;
  expect(app.settings?.assistants).toEqual(assistants("New"));
});

it("is loaded only when the page gets events", async () => {
  const listen = delay("listening");
  const started = startApp();
  await vi.waitFor(() => expect(ipc.calls.map(({ name }) => name)).toEqual(["listening"]));
  ipc.setSettings({ assistants: assistants("New") });
  listen();
  stop = await started;
  expect(app.settings?.assistants).toEqual(assistants("New"));
});

it("keeps a newer change when the reply to an older one arrives", async () => {
  stop = await startApp();
  const reply = delay("updateSettings");
  const live = new Live();
  live.change({ assistants: assistants("Old") });
  await vi.waitFor(() => expect(app.settings?.assistants).toEqual(assistants("Old")));
  ipc.setSettings({ assistants: assistants("New") });
  reply();
  await live.flush();
  expect(app.settings?.assistants).toEqual(assistants("New"));
});

it("has the models that were read last", async () => {
  const reply = delay("models");
  const first = refreshModels();
  const newer = defaults.models().slice(0, 1);
  ipc.models = async () => newer;
  await refreshModels();
  reply();
  await first;
  expect(app.models).toEqual(newer);
});

it("keeps the downloads of an event when an older reply arrives", async () => {
  stop = await startApp();
  const reply = delay("downloads");
  const loaded = loadDownloads();
  ipc.emit({ event: "downloads", downloads: [] });
  const { downloads } = modelSource;
  reply();
  await loaded;
  expect(modelSource.downloads).toBe(downloads);
});
