/** The route of a message that is being written: when the app is asked, and what is sent. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { chooseLanguage } from "../i18n";
import { useIpc, type AttachedText } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import * as defaults from "../ipc/fake/defaults";
import { NO_CHANGES } from "../settings/patch";
import { app } from "./app.svelte";
import { MessageRoute, ROUTE_DELAY_MS, type Writing } from "./route.svelte";

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

const calls = () => ipc.calls.filter(({ name }) => name === "route").map(({ values }) => values[0]);

/** The user changes the message. */
function write(typed: string, attachments: AttachedText[] = [], more: Partial<Writing> = {}) {
  route.update({ conversation: null, typed, text: typed, attachments, model: null, contextLength: 8192, ...more });
}

const pause = () => vi.advanceTimersByTimeAsync(ROUTE_DELAY_MS);

describe("the route of a message", () => {
  it("is found in a pause, from the start of what is attached", async () => {
    const long = "a".repeat(9000);
    write("in german", [], { conversation: 7 });
    write("in german please", [{ name: "a.txt", text: long }], { conversation: 7 });
    expect(route.shown).toBe("chat");
    await pause();
    expect(route.shown).toBe("translate");
    expect(calls()).toEqual([{
      conversation: 7, text: "in german please", route: null, context_length: 8192, n_bytes: 9016, attached_tokens: 2250,
      attachments: [{ name: "a.txt", text: long.slice(0, 4000) }],
    }]);
    expect(route.take("in german please")).toEqual([]);
    expect(route.shown).toBe("chat");
  });

  it("stays away once it was removed, until the text is empty", async () => {
    write("in german");
    await pause();
    route.remove();
    write("in german or french");
    await pause();
    expect(route.shown).toBe("chat");
    expect(route.take("in german or french")).toEqual(["chat"]);
    write("");
    write("in german");
    await pause();
    expect(route.shown).toBe("translate");
  });

  it("is no route that the user turned off", () => {
    app.settings!.routes.translate = { ...NO_CHANGES, is_off: true };
    write("/translate this");
    expect(route.shown).toBe("chat");
  });

  it("is what a command or a built-in prompt says, at once, and the app finds its limits", async () => {
    write("/summarise this");
    expect(route.shown).toBe("summarize");
    expect(route.limits.attached_tokens).toBeNull();
    await pause();
    expect(route.shown).toBe("summarize");
    expect(route.limits.attached_tokens).toBe(6553);
    expect(calls()).toMatchObject([{ text: "/summarise this", route: "summarize" }]);
    expect(route.take("/fix teh cat")).toEqual(["rewrite"]);
    expect(route.take("/code a sort")).toEqual(["code"]);
    expect(route.take("/etc/hosts is empty")).toEqual([]);
  });

  it("says that attached text is too long, until it is plain chat", async () => {
    const attached = (n_tokens: number) => [{ name: "a.txt", text: "a".repeat(4 * n_tokens) }];
    write("in german", attached(3276));
    await pause();
    expect(route.problem).toBe("");
    write("in german", attached(3277));
    await pause();
    expect(route.problem).toBe(
      "“Translate” takes up to 3,276 tokens of attached text, and yours has about 3,280. " +
      "Attach less, press Esc for plain chat, or raise the share in Settings.");
    route.remove();
    expect(route.problem).toBe("");
    // Text that the message contains counts too.
    write("");
    write("in german", attached(3000), { containedTokens: 277 });
    await pause();
    expect(route.problem).not.toBe("");
    // Without the model’s context length, nobody knows.
    write("in german", attached(5000), { contextLength: null });
    await pause();
    expect(route.problem).toBe("");
  });

  it("has no problem if the app cannot say", async () => {
    write("in german", [{ name: "a.txt", text: "a".repeat(20_000) }]);
    await pause();
    expect(route.problem).not.toBe("");
    vi.spyOn(ipc, "route").mockRejectedValueOnce({ code: "store", reason: "the disk is full" });
    write("in german please", [{ name: "a.txt", text: "a" }]);
    await pause();
    expect(route.problem).toBe("");
    expect(route.shown).toBe("chat");
  });

  it("is decided at once for a message that is sent before the pause", async () => {
    write("in german", [{ name: "a.txt", text: "a".repeat(20_000) }]);
    const decided = route.decided();
    expect(calls()).toHaveLength(1);
    await decided;
    expect(route.problem).not.toBe("");
    await pause();
    await route.decided();
    expect(calls()).toHaveLength(1);
    // A message of plain chat needs no decision.
    write("");
    await route.decided();
    expect(calls()).toHaveLength(1);
  });

  it("is none for a model without roles", async () => {
    const [model] = defaults.models();
    const base = { ...model!, facts: { ...model!.facts!, has_chat_template: false } };
    write("/translate this", [], { model: base });
    expect(route.shown).toBe("chat");
    write("in german", [], { model: base });
    await pause();
    expect(route.shown).toBe("chat");
    write("in german", [], { model: model! });
    await pause();
    expect(route.shown).toBe("translate");
  });

  it("is never looked for while it is switched off", async () => {
    const settings = defaults.settings();
    app.settings = { ...settings, general: { ...settings.general, routing_off: true } };
    write("in german");
    await pause();
    expect(route.shown).toBe("chat");
    expect(calls()).toEqual([]);
  });
});
