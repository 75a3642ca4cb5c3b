/** The message for a shortcut that was tried, and its severity. */
import { t } from "../i18n";
import type { HotkeyView } from "../ipc";
import { shortcutText } from "./hotkey";

/** `kept` is the shortcut that still works; empty if there is none, or nothing was tried. */
export function outcome(
  hotkey: HotkeyView, kept: string, platform: string,
): { tone: "quiet" | "warn"; text: string } {
  if (hotkey.hotkey === "registered") {
    const isSame = hotkey.shortcut === kept && kept !== "";
    // Another app may still get the keys: a Mac lets several apps register the same ones.
    const shortcut = shortcutText(hotkey.shortcut, platform);
    return { tone: "quiet", text: isSame ? t("settings.hotkey.try", { shortcut }) : "" };
  }
  if (hotkey.hotkey === "unavailable") return { tone: "warn", text: t("settings.hotkey.unavailable") };
  const shortcut = shortcutText(hotkey.shortcut, platform);
  if (hotkey.hotkey === "unusable") return { tone: "warn", text: t("settings.hotkey.unusable", { shortcut }) };
  return { tone: "warn", text: kept
    ? t("settings.hotkey.taken_kept", { shortcut, kept: shortcutText(kept, platform) })
    : t("settings.hotkey.taken", { shortcut }) };
}
