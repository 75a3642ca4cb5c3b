import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { beforeEach, describe, expect, it, vi } from "vitest";
import DownloadNote from "../chat/DownloadNote.svelte";
import { chooseLanguage } from "../i18n";
import { useIpc } from "../ipc";
import { FakeIpc } from "../ipc/fake";
import { onDisk } from "../ipc/fake/catalog";
import { firstModels } from "../ipc/fake/defaults";
import { app, startApp } from "../state/app.svelte";
import { modelSource } from "../state/model-source.svelte";
import Welcome from "./Welcome.svelte";

let fake: FakeIpc;
let stop: () => void;
const onDone = vi.fn();

beforeEach(() => {
  stop?.();
  onDone.mockClear();
  app.models = [];
  app.updates = null;
  modelSource.catalog = null;
  modelSource.downloads = [];
  modelSource.wanted = null;
  fake = new FakeIpc();
  useIpc(fake);
  chooseLanguage("en");
});

async function open(setUp: (fake: FakeIpc) => void = () => {}) {
  setUp(fake);
  stop = await startApp();
  render(Welcome, { onDone });
}

function called(name: string): unknown[][] {
  return fake.calls.filter((call) => call.name === name).map((call) => call.values);
}

describe("the welcome", () => {
  it("explains menu bar, shortcut and privacy, and appears only once", async () => {
    await open();
    screen.getByText("In the menu bar");
    screen.getByText("⌥");
    screen.getByText("Private by design");
    const start = screen.getByRole("button", { name: "Get Started" });
    expect(document.activeElement).toBe(start);
    await fireEvent.click(start);
    expect(called("updateSettings")).toEqual([[{ general: { was_welcomed: true } }]]);
    await waitFor(() => expect(onDone).toHaveBeenCalledOnce());
  });

  it("closes even if the disk refuses", async () => {
    await open((fake) => fake.refuse("updateSettings", { code: "storage", reason: "full" }));
    await fireEvent.click(screen.getByRole("button", { name: "Get Started" }));
    await waitFor(() => expect(onDone).toHaveBeenCalledOnce());
  });

  it("says that another program uses the shortcut, and follows a new choice", async () => {
    await open((fake) => (fake.aboutView = {
      ...fake.aboutView, platform: "linux", hotkey: { hotkey: "taken", shortcut: "Ctrl+Space" },
    }));
    screen.getByText("Another app uses Ctrl+Space. Choose a different shortcut.");
    await fireEvent.click(screen.getByRole("button", { name: "Choose…" }));
    expect(called("showWindow")).toEqual([["settings", null, "general"]]);
    fake.aboutView = {
      ...fake.aboutView, hotkey: { hotkey: "registered", shortcut: "Alt+Space" },
    };
    await fake.updateSettings({ general: { hotkey: "Alt+Space" } });
    await screen.findByText(/Press the shortcut in any app/);
  });

  it("asks whether to check for updates, which is off until then", async () => {
    await open();
    const asked = await screen.findByRole("switch", { name: "Check for updates", checked: false });
    screen.getByText(/Transom can ask github.com for new versions at every start and once a day/);
    expect(called("updateSettings")).toEqual([]);
    await fireEvent.click(asked);
    expect(called("updateSettings")).toEqual([[{ general: { check_for_updates: true } }]]);
  });

  it("does not ask where the app can't update itself", async () => {
    await open((fake) => fake.setUpdates({ refusal: "no_server", host: "" }));
    await waitFor(() => expect(app.updates?.refusal).toBe("no_server"));
    expect(screen.queryByRole("switch")).toBeNull();
  });

  it("does not mention a missing tray", async () => {
    await open((fake) => (fake.aboutView = { ...fake.aboutView, platform: "linux", missing: ["tray"] }));
    screen.getByText(/This session doesn’t show tray icons/);
  });
});

describe("models that are on the disk at the first start", () => {
  it("are offered before the recommended one, and used with one button", async () => {
    await open((fake) => fake.setModels(firstModels(3.1)));
    const use = await screen.findByRole("button", { name: "Use Gemma 3 4B · 4-bit" });
    screen.getByText("From LM Studio");
    screen.getByRole("button", { name: "Try the Tiny Demo Model" });
    const download = await screen.findByRole("button", { name: "Download Qwen3 8B" });
    expect(use.compareDocumentPosition(download) & Node.DOCUMENT_POSITION_FOLLOWING).not.toBe(0);
    await fireEvent.click(use);
    expect(called("chooseModel")).toEqual([["/models/gemma-3-4b"]]);
    await screen.findByText("In use");
    expect(document.activeElement).toBe(await screen.findByRole("button", { name: "Get Started" }));
  });

  it("are not offered if they are too large", async () => {
    await open((fake) => fake.setModels(firstModels(13.3)));
    await waitFor(() => expect(called("fit").map(([id]) => id)).toContain("/models/gemma-3-4b"));
    await fireEvent.click(await screen.findByRole("button", { name: "Show All Models" }));
    expect(called("showWindow")).toEqual([["settings", null, "models"]]);
    expect(screen.queryByRole("button", { name: /^Use / })).toBeNull();
  });
});

describe("the model that the welcome recommends", () => {
  it("is shown with size and speed, and downloaded with one button", async () => {
    await open((fake) => fake.setModels(firstModels()));
    await screen.findByText("Recommended: Qwen3 8B");
    screen.getByText("4.6 GB download");
    screen.getByText("13–20 tokens/s");
    await fireEvent.click(screen.getByRole("button", { name: "Download Qwen3 8B" }));
    expect(called("install")).toEqual([["qwen3-8b@4-bit"]]);
    await screen.findByText("You can use the tiny demo model in the meantime.");
    screen.getByRole("button", { name: "Get Started" });
    fake.downloadQueue.come(1, 0.25);
    await waitFor(() => expect(screen.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("25"));
  });

  it("is selected when it is downloaded", async () => {
    await open((fake) => fake.setModels(firstModels()));
    await fireEvent.click(await screen.findByRole("button", { name: "Download Qwen3 8B" }));
    await waitFor(() => expect(modelSource.downloads).toHaveLength(1));
    render(DownloadNote);
    fake.setModels([...fake.shown, fake.downloadQueue.finish(1)]);
    await waitFor(() => expect(called("chooseModel")).toEqual([["/models/qwen3-8b@4-bit"]]));
  });

  it("does not replace a model that was selected meanwhile", async () => {
    await open((fake) => fake.setModels(firstModels(3.1)));
    await fireEvent.click(await screen.findByRole("button", { name: "Download Qwen3 8B" }));
    await fireEvent.click(await screen.findByRole("button", { name: "Use Gemma 3 4B · 4-bit" }));
    await screen.findByText("In use");
    render(DownloadNote);
    fake.setModels([...fake.shown, fake.downloadQueue.finish(1)]);
    await screen.findByRole("button", { name: "Use Now" });
    expect(called("chooseModel")).toEqual([["/models/gemma-3-4b"]]);
  });

  it("is not downloaded if the disk is too full", async () => {
    await open((fake) => {
      fake.downloadQueue.catalog = onDisk(fake.downloadQueue.catalog, 4.2);
    });
    await screen.findByText("Not enough disk space. Free up 922 MB more.");
    expect(screen.queryByRole("button", { name: /^Download / })).toBeNull();
  });

  it("is not shown if it is installed", async () => {
    await open((fake) => {
      const { catalog } = fake.downloadQueue;
      fake.downloadQueue.catalog = { ...catalog, recommended: [
        { purpose: "chat", entry: "qwen3-4b", variant: "qwen3-4b@4-bit" }] };
    });
    await waitFor(() => expect(modelSource.catalog).not.toBeNull());
    expect(screen.queryByText(/^Recommended:/)).toBeNull();
  });
});
