/** Every shortcut by area, for the sheet. The code that handles keys is next to each page. */
import type { Key } from "../i18n";
import { PANES } from "../settings/pages";
import { chatShortcuts, OFFER_KEY, type Shortcut } from "../state/shortcuts";

const promptShortcuts: Shortcut[] = [
  { keys: ["Enter"], does: "prompt.shortcut.ask" },
  { keys: ["Shift+Enter"], does: "prompt.shortcut.newline" },
  { keys: ["Mod+Enter"], does: "prompt.shortcut.open_in_chat" },
  { keys: ["Escape"], does: "prompt.shortcut.hide" },
  { keys: ["Mod+."], does: "prompt.shortcut.stop" },
  { keys: ["Mod+C"], does: "prompt.shortcut.copy" },
  { keys: ["Mod+I"], does: "prompt.shortcut.insert" },
  { keys: ["Mod+R"], does: "prompt.shortcut.replace" },
  { keys: ["Mod+E"], does: "prompt.shortcut.selection" },
  { keys: ["Mod+Shift+V"], does: "prompt.shortcut.clipboard" },
  { keys: ["Backspace"], does: "prompt.shortcut.drop" },
  { keys: ["/"], does: "prompt.shortcut.prompts" },
  { keys: ["ArrowUp"], does: "prompt.shortcut.recall" },
  { keys: ["Mod+N"], does: "prompt.shortcut.fresh" },
  { keys: ["Mod+Shift+M"], does: "chat.shortcut.model" },
  { keys: [OFFER_KEY], does: "chat.shortcut.offer" },
  { keys: ["Mod+Shift+P"], does: "chat.shortcut.pin" },
  { keys: ["Mod+/"], does: "chat.shortcut.help" },
];

const settingsShortcuts: Shortcut[] = [
  { keys: ["Mod+1", `Mod+${PANES.length}`], isRange: true, does: "help.panes" },
  { keys: ["Mod+W"], does: "chat.shortcut.close" },
  { keys: ["Mod+/"], does: "chat.shortcut.help" },
];

const windowShortcuts: Shortcut[] = [
  { keys: ["Mod+Plus"], does: "help.zoom_in" },
  { keys: ["Mod+-"], does: "help.zoom_out" },
  { keys: ["Mod+0"], does: "help.actual_size" },
];

/** Returns the shortcuts by window. `hotkey` is the global shortcut, empty if there is none. */
export function shortcutGroups(hotkey: string): { title: Key; shortcuts: Shortcut[] }[] {
  const everywhere: Shortcut[] = hotkey ? [{ keys: [hotkey], does: "help.open_prompt" }] : [];
  const groups: { title: Key; shortcuts: Shortcut[] }[] = [
    { title: "help.everywhere", shortcuts: everywhere },
    { title: "chat.shortcut.group", shortcuts: chatShortcuts },
    { title: "prompt.shortcut.group", shortcuts: promptShortcuts },
    { title: "settings.title", shortcuts: settingsShortcuts },
    { title: "help.windows", shortcuts: windowShortcuts },
  ];
  return groups.filter((group) => group.shortcuts.length > 0);
}
