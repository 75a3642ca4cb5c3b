/** The route of a message that is being written: when the app is asked, and what is sent. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import * as defaults from "../ipc/fake/defaults";
import { app } from "./app.svelte";
import { MessageRoute, ROUTE_DELAY_MS } from "./route.svelte";

let ipc: FakeIpc;
let route: MessageRoute;

beforeEach(() => {
  vi.useFakeTimers();
  chooseLanguage("en");
  ipc = new FakeIpc();
  ipc.routed = "translate";
  useIpc(ipc);
  app.settings = defaults.settings();
  route = new MessageRoute();
});

afterEach(() => {
  vi.useRealTimers();
  app.settings = null;
});

const calls = () => ipc.calls.filter(({ name }) => name === "route");

describe("the route of a message", () => {
  it("is found in a pause, from the start of what is attached", async () => {
    const long = "a".repeat(9000);
    route.update(7, "in german", []);
    route.update(7, "in german please", [{ name: "a.txt", text: long }]);
    expect(route.shown).toBe("chat");
    await vi.advanceTimersByTimeAsync(ROUTE_DELAY_MS);
    expect(route.shown).toBe("translate");
    expect(calls().map(({ values }) => values)).toEqual([
      [7, "in german please", [{ name: "a.txt", text: long.slice(0, 4000) }]],
    ]);
    expect(route.take("in german please")).toEqual([]);
    expect(route.shown).toBe("chat");
  });

  it("stays away once it was removed, until the text is empty", async () => {
    route.update(null, "in german", []);
    await vi.advanceTimersByTimeAsync(ROUTE_DELAY_MS);
    route.remove();
    route.update(null, "in german or french", []);
    await vi.advanceTimersByTimeAsync(ROUTE_DELAY_MS);
    expect(route.shown).toBe("chat");
    expect(route.take("in german or french")).toEqual(["chat"]);
    route.update(null, "", []);
    route.update(null, "in german", []);
    await vi.advanceTimersByTimeAsync(ROUTE_DELAY_MS);
    expect(route.shown).toBe("translate");
  });

  it("is no route that the user turned off", () => {
    app.settings!.routes.translate = {
      is_off: true, instructions: null, temperature: null, thinking: null, reserve: null, history: null,
    };
    route.update(null, "/translate this", []);
    expect(route.shown).toBe("chat");
  });

  it("is what a command or a built-in prompt says, at once", () => {
    route.update(null, "/summarise this", []);
    expect(route.shown).toBe("summarize");
    expect(route.take("/fix teh cat")).toEqual(["rewrite"]);
    expect(route.take("/code a sort")).toEqual(["code"]);
    expect(route.take("/etc/hosts is empty")).toEqual([]);
    expect(calls()).toEqual([]);
  });

  it("is never looked for while it is switched off", async () => {
    const settings = defaults.settings();
    app.settings = { ...settings, general: { ...settings.general, routing_off: true } };
    route.update(null, "in german", []);
    await vi.advanceTimersByTimeAsync(ROUTE_DELAY_MS);
    expect(route.shown).toBe("chat");
    expect(calls()).toEqual([]);
  });
});
