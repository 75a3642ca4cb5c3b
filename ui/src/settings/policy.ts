/**
 * The table of automatic limits in the Performance pane, and which of them are active. The
 * supervisor decides the limits; this file only names them.
 */
import type { StatusView } from "../ipc";

type Machine = StatusView["machine"];

/** `isActive` tells whether the machine is in this state, even if limits have another reason. */
export const LIMIT_TRIGGERS = [
  { trigger: "memory_warning", icon: "chip", isActive: (now: Machine) => now.memory === "warning" },
  { trigger: "memory_critical", icon: "chip", isActive: (now: Machine) => now.memory === "critical" },
  { trigger: "thrashing", icon: "chip", isActive: (now: Machine) => now.is_thrashing },
  { trigger: "hot", icon: "heat", isActive: (now: Machine) => now.thermal === "serious" },
  { trigger: "very_hot", icon: "heat", isActive: (now: Machine) => now.thermal === "critical" },
  { trigger: "low_power", icon: "bulb", isActive: (now: Machine) => now.is_low_power },
  { trigger: "battery", icon: "battery", isActive: (now: Machine) => now.is_on_battery },
] as const;
