import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { tick } from "svelte";
import { beforeEach, describe, expect, it } from "vitest";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { history } from "../state/history.svelte";
import HistoryList from "./HistoryList.svelte";

let ipc: FakeIpc;
let old: number;

beforeEach(async () => {
  ipc = new FakeIpc();
  useIpc(ipc);
  old = ipc.addConversation("Old talk", ["What?", "That."], 30).id;
  await history.showArchive(false);
  render(HistoryList, { onopen: () => {}, ontemporary: () => {}, ondelete: () => {} });
});

const lines = () => [...document.querySelectorAll("h2, [data-row]")].map((line) => line.textContent?.trim());
const row = (title: string) => screen.getByText(title).closest("li")!;

/** A newer chat appears above, in a group of its own. */
async function reload() {
  ipc.addConversation("New talk", ["Who?", "She."]);
  await history.refresh();
  await tick();
}

async function change(id: number, values: { updated_at?: number; is_pinned?: boolean }) {
  ipc.tree.conversations.set(id, { ...ipc.tree.conversations.get(id)!, ...values });
  await history.refresh();
  await tick();
}

describe("the list of chats", () => {
  it("keeps an open menu and its row while it is reloaded", async () => {
    const kept = row("Old talk");
    await fireEvent.click(screen.getByLabelText("Actions for “Old talk”"));
    const menu = await screen.findByRole("menu");
    await reload();
    await change(old, { is_pinned: true });
    expect(screen.getByRole("menu")).toBe(menu);
    expect(row("Old talk")).toBe(kept);
    expect(lines()).toHaveLength(2);

    await fireEvent.keyDown(menu, { key: "Escape" });
    await waitFor(() => expect(lines()).toEqual(["Pinned", "Old talk", "Today", "New talk"]));
    expect(row("Old talk")).toBe(kept);
  });

  it("keeps the title that is edited while it is reloaded", async () => {
    await fireEvent.keyDown(row("Old talk").querySelector("[data-row]")!, { key: "F2" });
    const title = await screen.findByLabelText<HTMLInputElement>("Chat title");
    await fireEvent.input(title, { target: { value: "An old talk" } });
    await reload();
    expect(screen.getByLabelText("Chat title")).toBe(title);
    expect(title.value).toBe("An old talk");
    await fireEvent.keyDown(title, { key: "Enter" });
    await screen.findByText("New talk");
    await screen.findByText("An old talk");
  });

  it("moves no row between the press and the click", async () => {
    const button = row("Old talk").querySelector("[data-row]")!;
    await fireEvent.pointerDown(button);
    await reload();
    expect(lines()).toHaveLength(2);
    await fireEvent.pointerUp(button);
    expect(lines()).toHaveLength(2);
    await waitFor(() => expect(lines()).toHaveLength(4));
  });

  it("moves a chat to the archive, where the search still finds it, and back", async () => {
    await reload();
    const choose = async (menu: string, item: string) => {
      await fireEvent.click(screen.getByLabelText(menu));
      await fireEvent.click(await screen.findByRole("menuitem", { name: item }));
    };
    await ipc.pinConversation(old, true);
    await choose("Actions for “Old talk”", "Archive");
    await waitFor(() => expect(lines()).toEqual(["Today", "New talk"]));
    await history.search("that");
    await waitFor(() => expect(lines()).toHaveLength(2));
    expect(lines()[1]).toContain("Old talk");

    await history.search("");
    await choose("More options", "Archived Chats");
    await screen.findByRole("heading", { name: "Archived Chats" });
    await waitFor(() => expect(row("Old talk")).toBeTruthy());
    expect(screen.queryByText("New talk")).toBeNull();
    expect(screen.queryByText("Pinned")).toBeNull();
    await choose("Actions for “Old talk”", "Unarchive");
    await screen.findByText(/Archived chats appear here/);
    await fireEvent.click(screen.getByLabelText("Back to All Chats"));
    await waitFor(() => expect(lines()).toHaveLength(4));
    expect(screen.queryByRole("heading", { name: "Archived Chats" })).toBeNull();
  });

  it("shows a chat with a new question in the list again", async () => {
    await history.archive(old, true);
    await waitFor(() => expect(lines()).toEqual([]));
    await ipc.ask(old, "And?", [], false);
    await history.refresh();
    await waitFor(() => expect(lines()).toEqual(["Today", "Old talk"]));
  });

  it("keeps the element of a row that moves to another group", async () => {
    const kept = row("Old talk");
    await reload();
    expect(lines().slice(0, 2)).toEqual(["Today", "New talk"]);
    expect(row("Old talk")).toBe(kept);
    await change(old, { updated_at: Date.now() + 1000 });
    expect(lines()).toEqual(["Today", "Old talk", "New talk"]);
    expect(row("Old talk")).toBe(kept);
  });
});
