/**
 * Records a shortcut. While it records, the app releases the old one, so that its keys reach the
 * page. The end of the recording restores it.
 */
import { ipc, type HotkeyView } from "../ipc";
import { heldModifiers, isModifier, shortcutOf } from "./hotkey";

export class Recorder {
  isRecording = $state(false);
  /** Modifiers that are pressed while it records. */
  held = $state.raw<string[]>([]);
  /** The last key press had no modifier. */
  lacksModifier = $state(false);
  /** The result of the last recorded shortcut. */
  tried = $state.raw<HotkeyView | null>(null);

  constructor(private onset: (hotkey: HotkeyView) => void) {}

  async record(on: boolean): Promise<void> {
    if (on === this.isRecording) return;
    this.isRecording = on;
    this.held = [];
    this.lacksModifier = false;
    await ipc.recordHotkey(on).catch(() => undefined);
  }

  /** Tries a shortcut; empty means none. */
  async set(shortcut: string): Promise<void> {
    await this.record(false);
    this.tried = await ipc.setHotkey(shortcut).catch(
      (): HotkeyView => ({ hotkey: "unusable", shortcut }));
    this.onset(this.tried);
  }

  pressed(event: KeyboardEvent): void {
    // Handles keys only after recording has begun with Enter or a click.
    if (!this.isRecording) return;
    const held = heldModifiers(event);
    if (event.key === "Tab" && held.every((one) => one === "Shift")) return;
    event.preventDefault();
    event.stopPropagation();
    const isBare = held.length === 0;
    if (isBare && event.key === "Escape") return void this.record(false);
    if (isBare && ["Backspace", "Delete"].includes(event.key)) return void this.set("");
    this.held = held;
    if (isModifier(event.code)) return;
    const found = shortcutOf(event);
    this.lacksModifier = "problem" in found;
    if ("shortcut" in found) void this.set(found.shortcut);
  }

  released(event: KeyboardEvent): void {
    if (this.isRecording) this.held = heldModifiers(event);
  }
}
