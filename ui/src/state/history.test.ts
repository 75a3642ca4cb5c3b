import { beforeEach, describe, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { History } from "./history.svelte";

let ipc: FakeIpc;
let history: History;

beforeEach(() => {
  ipc = new FakeIpc();
  useIpc(ipc);
  history = new History();
});

describe("the list of conversations", () => {
  it("loads all conversations, also after a reload", async () => {
    for (let n = 0; n < 640; n++) ipc.addConversation(`Chat ${n}`, ["a", "b"], n);
    await history.search("");
    while (history.found.length < 540) await history.more();
    await history.refresh();
    expect(history.found).toHaveLength(540);
    expect(history.hasMore).toBe(true);
    await history.more();
    await history.more();
    expect(history.hasMore).toBe(false);
    const ids = history.found.map((one) => one.conversation.id);
    expect(new Set(ids).size).toBe(640);
  });
});
