import { describe, expect, it } from "vitest";
import type { DownloadState } from "../ipc";
import { download, hubError } from "../ipc/fake/catalog";
import { dismissed } from "./dismissed.svelte";

const inState = (state: DownloadState) => ({ ...download(1, "a@4-bit", "A", 100), state });
const failed = inState({ state: "failed", error: hubError("unreachable", "no network", {}) });

describe("a dismissed failed download", () => {
  it("is shown again only after it failed again", () => {
    dismissed.add(failed);
    dismissed.update([failed]);
    expect(dismissed.has(failed)).toBe(true);
    expect(localStorage.getItem("transom.dismissed_downloads")).toBe('["a@4-bit"]');
    dismissed.update([inState({ state: "downloading" })]);
    dismissed.update([failed]);
    expect(dismissed.has(failed)).toBe(false);
    expect(localStorage.getItem("transom.dismissed_downloads")).toBe("[]");
  });
});
