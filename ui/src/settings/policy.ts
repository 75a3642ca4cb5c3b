/**
 * The table of automatic limits in the Performance pane, and which of them are active. The
 * supervisor decides the limits; this file only names them.
 */
import type { StatusView } from "../ipc";
import type { IconName } from "../parts/icons";

export type LimitTrigger =
  | "memory_warning" | "memory_critical" | "thrashing" | "hot" | "very_hot" | "low_power" | "battery";

export const LIMIT_TRIGGERS: { trigger: LimitTrigger; icon: IconName }[] = [
  { trigger: "memory_warning", icon: "chip" },
  { trigger: "memory_critical", icon: "chip" },
  { trigger: "thrashing", icon: "chip" },
  { trigger: "hot", icon: "heat" },
  { trigger: "very_hot", icon: "heat" },
  { trigger: "low_power", icon: "bulb" },
  { trigger: "battery", icon: "battery" },
];

/** Returns true if the machine is in this state, even if limits have another reason. */
export function isActive(trigger: LimitTrigger, status: StatusView): boolean {
  const { machine } = status;
  switch (trigger) {
    case "memory_warning": return machine.memory === "warning";
    case "memory_critical": return machine.memory === "critical";
    case "thrashing": return machine.is_thrashing;
    case "hot": return machine.thermal === "serious";
    case "very_hot": return machine.thermal === "critical";
    case "low_power": return machine.is_low_power;
    case "battery": return machine.is_on_battery;
  }
}
