/** The features that this session lacks. */
import { t, type Key } from "../i18n";

const KNOWN = ["tray", "global_shortcut", "selection", "autostart", "engine"] as const;

/** An unknown code is shown itself, which is better than hiding it. */
export function missingText(code: string): string {
  const known = KNOWN.find((one) => one === code);
  return known ? t(`settings.missing.${known}` as Key) : t("settings.missing.other", { code });
}
