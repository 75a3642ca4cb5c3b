/** What this session cannot do, in words. */
import { t, type Key } from "../i18n";

const KNOWN = ["tray", "global_shortcut", "selection", "autostart", "engine"] as const;

/** A code that is not known is shown as it is: better than hiding that something is missing. */
export function missingText(code: string): string {
  const known = KNOWN.find((one) => one === code);
  return known ? t(`settings.missing.${known}` as Key) : t("settings.missing.other", { code });
}
