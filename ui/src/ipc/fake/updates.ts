/** Updates of the fake app. */
import type { OfferView, UpdatesView } from "../bindings";

/** An installed copy that was never checked. */
export function upToDate(): UpdatesView {
  return {
    refusal: null, host: "github.com", step: { step: "idle" }, offer: null, older: null, checked_at: null, problem: null,
  };
}

/** A newer version. */
export function update(): OfferView {
  return {
    version: "0.2.0", size_bytes: 61_400_000,
    notes: [
      { is_heading: true, text: "App" },
      { is_heading: false, text: "Settings > About checks for new versions, if you turn it on." },
      { is_heading: false, text: "The quick prompt opens faster on Macs with 8 GB." },
      { is_heading: true, text: "Models" },
      { is_heading: false, text: "Responses of hybrid models start sooner after an edit." },
    ],
  };
}
