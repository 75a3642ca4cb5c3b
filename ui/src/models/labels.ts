/** Texts for fits, speeds, sizes and errors of models. */
import { bytes, duration, number, t, textIfAny } from "../i18n";
import type {
  CatalogErrorView, CatalogView, DownloadView, EntryView, SpeedView, HubErrorView, ModelErrorView,
  ModelView, VariantView, FitSummary,
} from "../ipc";
import type { Notice } from "../state/app.svelte";

export function fitText(fit: FitSummary | null): string {
  switch (fit?.fit) {
    case "fits": return t("models.fit.fits");
    case "context": return t("models.fit.context", { tokens: number(fit.tokens) });
    case "others_close": return t("models.fit.others_close", { size: bytes(fit.bytes) });
    case "too_large": return t("models.fit.too_large", {
      need: bytes(fit.need_bytes), room: bytes(fit.room_bytes) });
    default: return t("models.fit.unknown");
  }
}

/** `13–20 tokens/s`; one number if it was measured. */
export function speedText(speed: SpeedView | null): string {
  if (!speed) return "";
  const round = (rate: number) => number(rate, rate < 10 ? 1 : 0);
  if (speed.is_measured) return t("models.speed.measured", { rate: round((speed.low + speed.high) / 2) });
  return t("models.speed.range", { low: round(speed.low), high: round(speed.high) });
}

export function sizeText(variant: VariantView): string {
  return variant.size_bytes === null ? t("models.entry.size_unknown") : bytes(variant.size_bytes);
}

/** Where an installed model comes from; empty for the app's own folder. */
export function originText({ origin }: ModelView): string {
  if (origin.origin === "starter") return t("settings.models.starter");
  if (origin.origin === "elsewhere") return t("models.origin.elsewhere", { app: origin.app });
  return origin.origin === "added" ? t("models.origin.added") : "";
}

/** The free space on the disk; with running downloads, the space after them. */
export function diskText(list: CatalogView): string {
  if (list.disk_free_bytes === null) return "";
  const free = bytes(Math.max(0, list.disk_free_bytes - list.disk_reserved_bytes));
  return list.disk_reserved_bytes > 0 ? t("models.disk.after_downloads", { free }) : t("models.disk.free", { free });
}

/** `Q4_K_M · GGUF`. */
export function variantText(variant: VariantView): string {
  return [variant.quantization, variant.format.toUpperCase()].filter(Boolean).join(" · ");
}

/** SPDX identifiers for unlisted licenses are not useful to users. */
export function licenseText(license: string): string {
  const prefix = "LicenseRef-";
  return license.startsWith(prefix) ? license.slice(prefix.length).replaceAll("-", " ") : license;
}

export function suggestedVariant(entry: EntryView): VariantView | undefined {
  return entry.variants[entry.best] ?? entry.variants[0];
}

export function bestFit(entry: EntryView): FitSummary | null {
  const order = ["fits", "context", "others_close", "too_large"];
  const known = entry.variants.flatMap((variant) => (variant.fit ? [variant.fit] : []));
  const sorted = known.toSorted((a, b) => order.indexOf(a.fit) - order.indexOf(b.fit));
  return sorted[0] ?? null;
}

/** The text of a hub error. For an unknown code it is the English sentence of the app. */
export function hubErrorText(hubError: HubErrorView): string {
  const { needed_bytes, free_bytes } = hubError.values;
  const values = Object.fromEntries(
    Object.entries(hubError.values).map(([name, value]) => [name, String(value ?? "")]),
  );
  return textIfAny(`models.hub_error.${hubError.code}`, {
    ...values,
    needed: typeof needed_bytes === "number" ? bytes(needed_bytes) : "",
    free: typeof free_bytes === "number" ? bytes(free_bytes) : "",
  }) ?? hubError.reason;
}

/** The text of an error of a model. For an unknown code it is the app's English error. */
export function modelErrorText({ code, file, value, detail }: ModelErrorView): string {
  return textIfAny(`models.model_error.${code}`, { file, value }) ?? detail;
}

/** The text of an error in the user's own catalog, with its position. */
export function catalogErrorText({ file, line, column, code, key, detail }: CatalogErrorView): string {
  const reason = textIfAny(`models.catalog_error.${code}`, { key }) ?? detail;
  return t("models.catalog_error.place", { file, line, column, reason });
}

/** The text of a notice about an error of the hub or of a model's files. */
export function errorNoticeText({ code, detail, values }: Notice): string {
  if (!values.error) return detail;
  return code === "hub" ? hubErrorText(values.error as HubErrorView) : modelErrorText(values.error as ModelErrorView);
}

export function isRunning(download: DownloadView): boolean {
  return ["waiting", "downloading", "verifying", "retrying"].includes(download.state.state);
}

/** 0 to 1; null while unknown. */
export function fractionOf(download: DownloadView): number | null {
  if (download.state.state === "verifying") return download.state.fraction;
  return download.total_bytes ? download.done_bytes / download.total_bytes : null;
}

export function downloadText(download: DownloadView): string {
  const { state } = download;
  const amount = download.total_bytes === null ? "" : t("models.download.progress", {
    done: bytes(download.done_bytes), total: bytes(download.total_bytes) });
  switch (state.state) {
    case "waiting":
      return [t("models.download.waiting"), download.done_bytes ? amount : ""].filter(Boolean).join(" · ");
    case "downloading": {
      if (!amount) return t("models.download.starting");
      const rate = download.bytes_per_second
        ? t("models.download.rate", { rate: bytes(download.bytes_per_second) }) : "";
      const left = download.seconds_left === null ? ""
        : t("models.download.left", { time: duration(download.seconds_left) });
      return [amount, rate, left].filter(Boolean).join(" · ");
    }
    case "verifying": return t("models.download.verifying");
    case "retrying": return t("models.download.retrying", {
      reason: hubErrorText(state.error), time: duration(state.seconds) });
    case "paused": return [t("models.download.paused"), amount].filter(Boolean).join(" · ");
    case "done": return t("models.download.done");
    case "failed": return hubErrorText(state.error);
  }
}
