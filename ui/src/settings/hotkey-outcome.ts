/** The message for a shortcut that was tried, and its severity. */
import { t } from "../i18n";
import type { HotkeyView } from "../ipc";
import { shortcutText } from "./hotkey";

export interface Outcome {
  tone: "quiet" | "good" | "warn";
  text: (platform: string) => string;
}

/** The shortcut that works; empty if there is none. */
export function inForce(hotkey: HotkeyView): string {
  return hotkey.hotkey === "registered" ? hotkey.shortcut : "";
}

/** `kept` is the shortcut that still works; empty if there is none, or nothing was tried. */
export function outcome(hotkey: HotkeyView, kept: string): Outcome {
  switch (hotkey.hotkey) {
    case "registered":
      return hotkey.shortcut === kept && kept !== ""
        ? { tone: "good", text: () => t("settings.hotkey.works") }
        : { tone: "quiet", text: () => "" };
    case "taken":
      return { tone: "warn", text: (platform) => {
        const shortcut = shortcutText(hotkey.shortcut, platform);
        if (!kept) return t("settings.hotkey.taken", { shortcut });
        return t("settings.hotkey.taken_kept", { shortcut, kept: shortcutText(kept, platform) });
      } };
    case "unusable":
      return { tone: "warn", text: (platform) =>
        t("settings.hotkey.unusable", { shortcut: shortcutText(hotkey.shortcut, platform) }) };
    case "unavailable":
      return { tone: "warn", text: () => t("settings.hotkey.unavailable") };
  }
}
