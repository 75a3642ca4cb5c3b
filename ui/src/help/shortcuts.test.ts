import { fireEvent, render, screen } from "@testing-library/svelte";
import { describe, expect, it, vi } from "vitest";
import { chooseLanguage } from "../i18n";
import { FakeIpc } from "../ipc/fake";
import { actionOf } from "../prompt/keys";
import { app } from "../state/app.svelte";
import ShortcutsSheet from "./ShortcutsSheet.svelte";
import { shortcutGroups } from "./shortcuts";

/** A press of the keys `keys` in the quick prompt's empty input. */
function pressed(keys: string): KeyboardEvent {
  const parts = keys.split("+");
  const event = new KeyboardEvent("keydown", {
    key: parts.at(-1)!, ctrlKey: parts.includes("Mod"), shiftKey: parts.includes("Shift"),
  });
  const area = document.createElement("textarea");
  Object.defineProperty(event, "target", { value: area });
  return event;
}

describe("the sheet of shortcuts", () => {
  it("lists only keys that work in the quick prompt", () => {
    const prompt = shortcutGroups("").find((group) => group.title === "prompt.shortcut.group")!;
    // These two are typed as text.
    const typed = ["Shift+Enter", "/"];
    for (const { keys } of prompt.shortcuts) {
      for (const key of keys.filter((one) => !typed.includes(one))) {
        const context = { isMac: false, isListOpen: false, text: "", isWriting: false, hasAttachment: true, hasRoute: false, hasOffer: true,
          hasSelection: false };
        expect(actionOf(pressed(key), context), key).not.toBeNull();
      }
    }
  });

  it("lists the global shortcut only if there is one", () => {
    expect(shortcutGroups("Alt+Space")[0]!.title).toBe("help.everywhere");
    expect(shortcutGroups("").map((group) => group.title)).not.toContain("help.everywhere");
  });

  it("shows symbols on a Mac and words elsewhere, and closes", async () => {
    chooseLanguage("en");
    const onclose = vi.fn();
    const { aboutView } = new FakeIpc();
    app.about = { ...aboutView, platform: "macos" };
    const { unmount } = render(ShortcutsSheet, { onclose });
    expect(screen.getAllByText("⌘").length).toBeGreaterThan(5);
    await fireEvent.click(screen.getByRole("button", { name: "Done" }));
    expect(onclose).toHaveBeenCalledOnce();
    unmount();
    app.about = { ...aboutView, platform: "linux" };
    render(ShortcutsSheet, { onclose });
    expect(screen.queryByText("⌘")).toBeNull();
    expect(screen.getAllByText("Ctrl").length).toBeGreaterThan(5);
  });

  it("lists as many panes as there are", () => {
    const settings = shortcutGroups("").find((group) => group.title === "settings.title")!;
    expect(settings.shortcuts[0]!.keys).toEqual(["Mod+1", "Mod+6"]);
  });
});
