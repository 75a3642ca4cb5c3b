/**
 * The table of automatic limits in the Performance pane, and which of them are active. The
 * supervisor decides the limits; this file only names them.
 */
import { because, limitText } from "../chat/labels";
import { t } from "../i18n";
import type { LimitReason, StatusView } from "../ipc";
import type { IconName } from "../parts/icons";

export type LimitTrigger =
  | "memory_warning" | "memory_critical" | "thrashing" | "hot" | "very_hot" | "low_power" | "battery";

export const LIMIT_TRIGGERS: { trigger: LimitTrigger; icon: IconName; reasons: LimitReason[] }[] = [
  { trigger: "memory_warning", icon: "chip", reasons: ["memory_warning"] },
  { trigger: "memory_critical", icon: "chip", reasons: ["memory_critical"] },
  { trigger: "thrashing", icon: "chip", reasons: ["thrashing"] },
  { trigger: "hot", icon: "heat", reasons: ["heat_serious"] },
  { trigger: "very_hot", icon: "heat", reasons: ["heat_critical"] },
  { trigger: "low_power", icon: "bulb", reasons: ["low_power"] },
  { trigger: "battery", icon: "battery", reasons: ["battery"] },
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

/** The active limits with this reason. */
export function limitsNow(reasons: LimitReason[], status: StatusView): string[] {
  return status.limits
    .filter((active) => reasons.includes(active.reason))
    .map((active) => limitText(active.limit, "settings"));
}

/** Limits that no row of the table explains: those of settings, and of a small machine. */
export function otherLimits(status: StatusView): string[] {
  const explained = LIMIT_TRIGGERS.flatMap((row) => row.reasons);
  return status.limits
    .filter((active) => !explained.includes(active.reason))
    .map(({ limit, reason }) =>
      t("settings.policy.other", { limit: limitText(limit, "settings"), because: because(reason) }));
}
