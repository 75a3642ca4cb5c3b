/** What a fit means, in one sentence. */
import { bytes, number, t } from "../i18n";
import type { FitView } from "../ipc";
import { fitOf, freeBytes, neededBytes } from "./fit";

export function fitText(fit: FitView): string {
  return t(`settings.fit.${fitOf(fit)}`, {
    need: bytes(neededBytes(fit)),
    free: bytes(freeBytes(fit)),
    size: fit.summary.fit === "others_close" ? bytes(fit.summary.bytes) : "",
    tokens: number(fit.context_that_fits ?? 0),
  });
}
